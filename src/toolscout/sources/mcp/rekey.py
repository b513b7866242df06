"""Encrypt all login tokens with a new key."""

from __future__ import annotations

from dataclasses import dataclass

from ...config import Config
from ...store.file_lock import hold_file_lock
from ...store.state_key import StateKeys, new_key
from .oauth_tokens import OAuthTokenStore

_LOCK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class RekeyReport:
    """How many logins were encrypted again, with which key, and which files no key decrypts."""

    logins: int
    unreadable: tuple[str, ...]
    key_id: str
    place: str


def rekey_logins(config: Config) -> RekeyReport:
    """Make a new key, unless the environment gives it, and encrypt all logins with it.

    Until all of them are, the old keys are kept beside the new one: if this is interrupted, every
    login can still be read, and running it again completes it.
    """
    keys = StateKeys.of(config)
    lock = config.state_folder / "locks" / "rekey.lock"
    with hold_file_lock(lock, timeout_seconds=_LOCK_SECONDS):
        old = keys.read()
        current = (new_key(), *old) if not keys.is_given else old
        if not keys.is_given:
            keys.replace(current)
        count, unreadable = OAuthTokenStore.of(config).encrypt_again()
        # A login that no key decrypts today may need one of these.
        if not unreadable:
            if not keys.is_given:
                keys.replace(current[:1])
            if not keys.uses_file:
                keys.file.unlink(missing_ok=True)
    return RekeyReport(count, tuple(unreadable), current[0].id, keys.place)
