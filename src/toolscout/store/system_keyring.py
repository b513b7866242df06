"""Passwords in the keyring of the operating system."""

from __future__ import annotations

from typing import Any

from ..errors import StoreError, require

_HINT = "Unlock or install one (for example gnome-keyring), or keep the secret in a file."


def read_password(service: str, name: str) -> str | None:
    """The password of an entry; None if there is none."""
    keyring = _load()
    try:
        return keyring.get_password(service, name)
    except Exception as error:
        raise _keyring_error(error) from error


def save_password(service: str, name: str, password: str) -> None:
    """Create or replace an entry."""
    keyring = _load()
    try:
        keyring.set_password(service, name, password)
    except Exception as error:
        raise _keyring_error(error) from error


def _load() -> Any:
    # Imported here: it searches for backends, which takes a tenth of a second.
    return require("keyring", extra="mcp")


def _keyring_error(error: Exception) -> StoreError:
    # Each backend has exceptions of its own. Without their text, which may quote an entry.
    name = type(error).__name__
    return StoreError(f"The keyring of this system cannot be used ({name}).", hint=_HINT)
