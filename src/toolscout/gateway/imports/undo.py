"""Write files of an import with backups, and restore them."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...errors import ConfigError
from ...program import command_line
from ...store.user_files import lock_config_file, write_atomically


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that an import wrote; without a backup it was new."""

    path: str
    backup: str
    digest: str

    @property
    def is_unchanged(self) -> bool:
        """Whether the file is still as the import wrote it."""
        return _digest(Path(self.path)) == self.digest


def write_files(
    texts: Mapping[Path, str], folder: Path, *, now: float | None = None
) -> list[WrittenFile]:
    """Write files, each with a backup beside it, and record it so that it can be undone."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
    written: list[WrittenFile] = []
    record = folder / f"{stamp}-{time.time_ns()}.json"
    for path, text in texts.items():
        with lock_config_file(path):
            backup = _back_up(path, stamp)
            write_atomically(path, text)
        real = path.absolute()
        written.append(WrittenFile(str(real), str(backup or ""), _digest(real)))
        # After every file, so that an import that fails halfway can be undone too.
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(record, json.dumps([asdict(each) for each in written], indent=1))
    return written


def undo_last(folder: Path, *, is_forced: bool = False) -> list[WrittenFile]:
    """Restore the files of the last import; files that were edited since need `is_forced`.

    Without it, the other files are restored and the error names those that were left alone.
    """
    records = sorted(folder.glob("*.json"))
    if not records:
        raise ConfigError(
            "There is no import to undo.",
            hint=f"To see what an import would do, run {command_line('import')}.",
        )
    written = _read_record(records[-1])
    left = [] if is_forced else [each for each in written if not each.is_unchanged]
    restored = [each for each in written if each not in left]
    _restore(restored)
    if left:
        # These files stay on record, so that --force can still restore them.
        write_atomically(records[-1], json.dumps([asdict(each) for each in left], indent=1))
        raise ConfigError(
            f"Restored {len(restored)} of {len(written)} files. Edited since the import, so left"
            f" alone: {', '.join(each.path for each in left)}.",
            hint="Restore them anyway, and lose these edits, with --undo --force.",
        )
    records[-1].unlink()
    return written


def _restore(written: Sequence[WrittenFile]) -> None:
    """Put the backups of some files back, and delete files that were new."""
    for each in reversed(written):
        path, backup = Path(each.path), Path(each.backup) if each.backup else None
        with lock_config_file(path):
            if backup is None:
                path.unlink(missing_ok=True)
            elif backup.is_file():
                write_atomically(path, backup.read_text(encoding="utf-8"))
                backup.unlink()
            else:
                raise ConfigError(
                    f"The backup {backup} is missing.", hint=f"Restore {path} by hand."
                )


def _back_up(path: Path, stamp: str) -> Path | None:
    if not path.exists():
        return None
    backup = path.absolute().with_name(f"{path.name}.{stamp}.bak")
    try:
        # Created with the mode of the original: it may have secrets.
        backup.touch(mode=0o600)
        backup.write_bytes(path.read_bytes())
        backup.chmod(path.stat().st_mode)
    except OSError as error:
        raise ConfigError(f"{path} cannot be backed up: {error}.") from error
    return backup


def _read_record(path: Path) -> list[WrittenFile]:
    try:
        rows: Any = json.loads(path.read_text(encoding="utf-8"))
        return [WrittenFile(**row) for row in rows]
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            f"The record of the last import in {path} cannot be read: {error}.",
            hint="Restore the .bak files by hand.",
        ) from error


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
