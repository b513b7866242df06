"""Reading small text files that people write, without trusting that they are small or text."""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath

MOST_BYTES = 256 * 1024
_MAX_FILES = 200
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)


class TextFileError(ValueError):
    """A file cannot be used; the text says why."""


class UnsafePath(ValueError):
    """A path leads, or might lead, out of its folder."""


def read_text(path: Path, *, most_bytes: int = MOST_BYTES, follow: bool = True) -> str:
    """A file's text; Unreadable if it is no file, too large, or not UTF-8."""
    try:
        descriptor = os.open(path, _FLAGS if follow else _FLAGS | _NOFOLLOW)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise TextFileError("it is not a file")
            data = stream.read(most_bytes + 1)
            size = os.fstat(stream.fileno()).st_size
    except OSError as error:
        raise TextFileError(error.strerror or str(error)) from error
    if len(data) > most_bytes:
        raise TextFileError(f"it has {size:,} bytes, and {most_bytes:,} are read")
    if b"\0" in data:
        raise TextFileError(f"it is not text ({size:,} bytes)")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise TextFileError(f"it is not UTF-8 text (byte {error.start + 1:,})") from error


def resolve_inside(folder: Path, relative: str) -> Path:
    """The file a relative path means in a folder; Refused for every way out of it."""
    path = PurePosixPath(relative)
    if not path.parts or "\0" in relative or "\\" in relative or relative.endswith("/"):
        raise UnsafePath("it is not a relative path to a file")
    if path.is_absolute() or ":" in path.parts[0] or ".." in path.parts:
        raise UnsafePath("only paths within the folder can be read")
    try:
        return _walk_path(folder, path.parts)
    except OSError as error:
        raise UnsafePath(error.strerror or str(error)) from error


def _walk_path(folder: Path, parts: tuple[str, ...]) -> Path:
    """Go down step by step, so that a link on the way is noticed."""
    place = folder
    for part in parts:
        place /= part
        if place.is_symlink():
            raise UnsafePath("symbolic links are not followed")
    if not place.is_file():
        raise UnsafePath("there is no such file")
    if not place.resolve().is_relative_to(folder.resolve()):
        raise UnsafePath("only paths within the folder can be read")
    return place


def list_files(folder: Path) -> tuple[str, ...]:
    """The files of a folder by relative path, links and hidden ones left out, sorted."""
    found: list[str] = []
    for place, folders, files in os.walk(folder, followlinks=False):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        here = Path(place)
        found += (
            (here / name).relative_to(folder).as_posix()
            for name in sorted(files)
            if not name.startswith(".") and not (here / name).is_symlink()
        )
        if len(found) >= _MAX_FILES:
            break
    return tuple(found[:_MAX_FILES])
