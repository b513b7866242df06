"""An overlay file that is read again when it changes; a broken one keeps the last good state."""

from __future__ import annotations

from pathlib import Path

from ..catalog.overlay import Overlay
from ..catalog.overlay_parser import parse_overlay
from ..errors import ConfigError
from ..guidance.text_files import read_text
from ..program import command_line

POLL_SECONDS = 1.0
"""How often a running toolbox checks whether the file has changed."""

_MAX_BYTES = 16 * 1024 * 1024
_Stamp = tuple[int, int, int]


def read_overlay(path: Path) -> Overlay:
    """The overlay in a file; ConfigError if it cannot be used."""
    try:
        text = read_text(path, max_bytes=_MAX_BYTES)
    except ValueError as error:  # with TextFileError
        raise ConfigError(
            f"The overlay {path} cannot be read: {error}.",
            hint=f"Write one with {command_line('catalog', 'phrases', 'add')}, or change the"
            " setting overlay.",
        ) from error
    return parse_overlay(text, file=str(path))


class LiveOverlay:
    """The overlay of a toolbox."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.overlay = Overlay()
        self.problem = ""
        self._stamp: _Stamp | None = None
        self.reload_if_changed()

    @property
    def label(self) -> str:
        """The name of the overlay in events and problems."""
        # With a space, so that no source has the same name.
        return f"overlay {self.path.name}"

    def reload_if_changed(self) -> bool:
        """Read the file if it was edited; return whether it was."""
        stamp = _file_stamp(self.path)
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            self.overlay, self.problem = read_overlay(self.path), ""
        except ConfigError as error:
            kept = " The last good state is used." if self.overlay.entries else ""
            self.problem = f"{error}{kept}"
        return True


def _file_stamp(path: Path) -> _Stamp:
    try:
        status = path.stat()
    except (OSError, ValueError):  # a null character in the path
        return (0, 0, 0)
    # With the inode: an editor may put another file of the same size and time in its place.
    return (status.st_mtime_ns, status.st_size, status.st_ino)
