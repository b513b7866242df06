"""Edit a file that belongs to the user: one writer at a time, replaced as a whole."""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path

from ..config import Config
from ..errors import ConfigError
from .file_lock import hold_file_lock

_LOCK_TIMEOUT_SECONDS = 10.0
_OWNER_ONLY = 0o600


def lock_config_file(path: Path) -> AbstractContextManager[None]:
    """Keep other Toolscout processes from writing a configuration file."""
    # In the state folder: a lock beside the file would end up in people's repositories.
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
    lock = Config.read().state_folder / "locks" / f"{digest}.lock"
    return hold_file_lock(lock, timeout_seconds=_LOCK_TIMEOUT_SECONDS)


def write_atomically(path: Path, text: str) -> None:
    """Replace a file as a whole; a new one is for its owner only, since it may have secrets."""
    # Dotfiles are often links. The file behind the link is replaced, so that the link stays.
    real = path.resolve()
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        mode = real.stat().st_mode if real.exists() else _OWNER_ONLY
        descriptor, temporary = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}-")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).chmod(mode)
        Path(temporary).replace(real)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error}.", hint="Check the permissions of its folder."
        ) from error
