"""Reads small text files safely: bounded in size, as UTF-8, and only inside their folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath

MAX_BYTES = 256 * 1024
_MAX_FILES = 200
# O_NONBLOCK: opening a named pipe must not wait for a writer.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)


class TextFileError(ValueError):
    """A file cannot be used; the text says why."""


class UnsafePathError(ValueError):
    """A path leads, or might lead, out of its folder."""


def read_text(path: Path, *, max_bytes: int = MAX_BYTES, follow: bool = True) -> str:
    """The text of a file; TextFileError if it is not a file, too large, or not UTF-8."""
    try:
        descriptor = os.open(path, _FLAGS if follow else _FLAGS | _NOFOLLOW)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise TextFileError("it is not a file")
            # One byte more than allowed shows that the file is larger, even if it still grows.
            data = stream.read(max_bytes + 1)
            size = os.fstat(stream.fileno()).st_size
    except OSError as error:
        raise TextFileError(error.strerror or str(error)) from error
    if len(data) > max_bytes:
        raise TextFileError(f"it has {size:,} bytes; at most {max_bytes:,} are allowed")
    if b"\0" in data:
        raise TextFileError(f"it is not text ({size:,} bytes)")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise TextFileError(f"it is not UTF-8 text (byte {error.start + 1:,})") from error


def resolve_inside(folder: Path, relative: str) -> Path:
    """The file at a relative path in a folder; UnsafePathError for every path out of it."""
    path = PurePosixPath(relative)
    if not path.parts or "\0" in relative or "\\" in relative or relative.endswith("/"):
        raise UnsafePathError("it is not a relative path to a file")
    if path.is_absolute() or ":" in path.parts[0] or ".." in path.parts:
        raise UnsafePathError("only paths within the folder can be read")
    try:
        return _walk_path(folder, path.parts)
    except OSError as error:
        raise UnsafePathError(error.strerror or str(error)) from error


def _walk_path(folder: Path, parts: tuple[str, ...]) -> Path:
    """Go down part by part, so that a link anywhere in the path is noticed."""
    path = folder
    for part in parts:
        path /= part
        if path.is_symlink():
            raise UnsafePathError("symbolic links are not followed")
    if not path.is_file():
        raise UnsafePathError("there is no such file")
    if not path.resolve().is_relative_to(folder.resolve()):
        raise UnsafePathError("only paths within the folder can be read")
    return path


def list_files(folder: Path) -> tuple[str, ...]:
    """The relative paths of the files in a folder, sorted, without links and hidden files."""
    found: list[str] = []
    for root, folders, files in os.walk(folder, followlinks=False):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        here = Path(root)
        found += (
            (here / name).relative_to(folder).as_posix()
            for name in sorted(files)
            if not name.startswith(".") and not (here / name).is_symlink()
        )
        if len(found) >= _MAX_FILES:
            break
    return tuple(found[:_MAX_FILES])
