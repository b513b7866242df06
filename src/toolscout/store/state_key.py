"""The key that encrypts secrets in the state: from the environment, a file or the keyring."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ..config import Config
from ..errors import StoreError
from .file_lock import hold_file_lock
from .system_keyring import read_password, save_password

KEY_VARIABLE = "TOOLSCOUT_KEY"
KEY_FILE_VARIABLE = "TOOLSCOUT_KEY_FILE"
KEY_NAME = "secrets.key"
"""The key file in the state folder; backups leave it out."""
# Long enough for 128 random bits in hexadecimal, too long for a password that somebody remembers.
_MIN_CHARS = 32
_MAX_BYTES = 65_536
_KEYRING_SERVICE = "toolscout"
_LOCK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class StateKey:
    """One key, and a short public name for it, by which its ciphertexts are recognised."""

    text: str = field(repr=False)

    @property
    def bytes(self) -> bytes:
        """The key for AES-256."""
        return hmac.digest(b"toolscout state key", self.text.encode(), "sha256")

    @property
    def id(self) -> str:
        """Says which key it is, but nothing about it."""
        return hashlib.sha256(b"id of " + self.bytes).hexdigest()[:8]


def new_key() -> StateKey:
    """A random key."""
    return StateKey(secrets.token_urlsafe(32))


@dataclass(frozen=True, slots=True)
class StateKeys:
    """The keys of one state folder: the first encrypts, all of them decrypt."""

    folder: Path
    store: Literal["file", "keyring"] = "file"
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    @classmethod
    def of(cls, config: Config) -> StateKeys:
        """The keys of the state folder of these settings."""
        return cls(config.state_folder, config.key_store)

    @property
    def place(self) -> str:
        """Where the keys are, for people."""
        if self._variable(KEY_VARIABLE):
            return f"the environment variable {KEY_VARIABLE}"
        if file := self._variable(KEY_FILE_VARIABLE):
            return f"the file {file}, which {KEY_FILE_VARIABLE} names"
        return "the keyring" if self.store == "keyring" else f"the file {self.file}"

    @property
    def file(self) -> Path:
        """The key file in the state folder, which is used unless another place is chosen."""
        return self.folder / KEY_NAME

    @property
    def is_given(self) -> bool:
        """Whether the environment gives the keys, so that they cannot be changed here."""
        return any(map(self._variable, (KEY_VARIABLE, KEY_FILE_VARIABLE)))

    @property
    def uses_file(self) -> bool:
        """Whether the key file in the state folder is the place of the keys."""
        return not self.is_given and self.store == "file"

    def read(self) -> tuple[StateKey, ...]:
        """The keys, the current one first; none before the first use."""
        return _parse(self._read_text(), self.place)

    def read_old(self) -> tuple[StateKey, ...]:
        """The keys of a key file that is still there after another place was chosen."""
        return () if self.uses_file else _parse(_read_file(self.file), f"the file {self.file}")

    def read_or_create(self) -> StateKey:
        """The key to encrypt with; a new one on first use."""
        if keys := self.read():
            return keys[0]
        with hold_file_lock(
            self.folder / "locks" / f"{KEY_NAME}.lock", timeout_seconds=_LOCK_SECONDS
        ):
            keys = self.read() or (new_key(),)
            self.replace(keys)
        return keys[0]

    def replace(self, keys: tuple[StateKey, ...]) -> None:
        """Store these keys; raises if the environment gives them."""
        if self.is_given:
            raise StoreError(f"The key in {self.place} cannot be changed from here.")
        text = "\n".join(key.text for key in keys)
        if self.store == "keyring":
            save_password(_KEYRING_SERVICE, str(self.folder.absolute()), text)
        else:
            _write_file(self.file, f"{text}\n")

    def _variable(self, name: str) -> str:
        return self.environment.get(name, "").strip()

    def _read_text(self) -> str:
        if text := self._variable(KEY_VARIABLE):
            return text
        if path := self._variable(KEY_FILE_VARIABLE):
            text = _read_file(Path(path))
            if not text.strip():
                raise StoreError(
                    f"The key file {path} is missing or empty.",
                    hint=f"Write a key into it, or unset {KEY_FILE_VARIABLE}.",
                )
            return text
        if self.store == "keyring":
            return read_password(_KEYRING_SERVICE, str(self.folder.absolute())) or ""
        return _read_file(self.file)


def _parse(text: str, place: str) -> tuple[StateKey, ...]:
    keys = tuple(map(StateKey, text.split()))
    if any(len(key.text) < _MIN_CHARS for key in keys):
        raise StoreError(
            f"A key in {place} has fewer than {_MIN_CHARS} characters.",
            hint="Make one, for example with: openssl rand -hex 32",
        )
    return keys


def _read_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise StoreError(
            f"The key file {path} cannot be read: {reason}.", hint="Check its permissions."
        ) from error


def _write_file(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # mkstemp creates the file with mode 0600, and renaming keeps it.
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(temporary).replace(path)
        except OSError:
            with suppress(OSError):
                Path(temporary).unlink()
            raise
    except OSError as error:
        raise StoreError(
            f"The key file {path} cannot be written: {error.strerror or error}.",
            hint="Check the folder's permissions and its free space.",
        ) from error
