"""The TLS certificate of the gateway: loaded at the start, and again when its files change."""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from ..errors import ConfigError

log = logging.getLogger(__name__)
_CHECK_SECONDS = 1.0
_MISMATCH = "KEY_VALUES_MISMATCH"

_Stamp = tuple[int, int, int]


class Certificate:
    """A certificate and its key. An edit that cannot be used leaves the old ones in use."""

    def __init__(
        self, cert: Path, key: Path, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._files = (cert, key)
        self._clock = clock
        self._stamps = self._read_stamps()
        self._context = _create_context(cert, key)
        self._checked_at = clock()

    def get_context(self) -> ssl.SSLContext:
        """The context for the next connection; looks at the files at most once a second."""
        if self._clock() - self._checked_at >= _CHECK_SECONDS:
            self._checked_at = self._clock()
            self._reload()
        return self._context

    def _reload(self) -> None:
        stamps = self._read_stamps()
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            self._context = _create_context(*self._files)
        except ConfigError as error:
            log.warning("The new TLS certificate is not used, the old one stays: %s", error)
        else:
            log.warning("The TLS certificate has changed; new connections use it.")

    def _read_stamps(self) -> tuple[_Stamp, ...]:
        return tuple(_read_stamp(path) for path in self._files)


def load_certificate(files: tuple[Path, Path] | None) -> Certificate | None:
    """The certificate of some files; raises if they cannot be used, None if there are none."""
    return None if files is None else Certificate(*files)


def _create_context(cert: Path, key: Path) -> ssl.SSLContext:
    _require_pem(cert, "certificate", "CERTIFICATE-----")
    _require_pem(key, "private key", "PRIVATE KEY-----")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert, key, password=_refuse_password)
    except _EncryptedKeyError as error:
        raise ConfigError(
            f"The private key {key} is encrypted, and nobody can be asked for its password.",
            hint="Store it without a password, in a file that only its owner can read.",
        ) from error
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        is_mismatch = getattr(error, "reason", "") == _MISMATCH
        raise ConfigError(
            f"The private key {key} does not belong to the certificate {cert}."
            if is_mismatch
            else f"The certificate {cert} and the key {key} cannot be used.",
            hint="Both must be PEM files of one pair, the certificate of the server first.",
        ) from error
    return context


class _EncryptedKeyError(Exception):
    """The key needs a password."""


def _refuse_password() -> NoReturn:
    # Without this, OpenSSL would ask on the terminal.
    raise _EncryptedKeyError


def _require_pem(path: Path, what: str, marker: str) -> None:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(
            f"The TLS {what} {path} cannot be read: {error.strerror}.",
            hint="Check the path and its permissions (--tls-cert, --tls-key).",
        ) from error
    if marker not in text:
        raise ConfigError(
            f"The file {path} has no {what} in PEM format.",
            hint="Check that the files of --tls-cert and --tls-key are not swapped.",
        )


def _read_stamp(path: Path) -> _Stamp:
    try:
        status = path.stat()
    except OSError:
        return (0, 0, 0)
    return (status.st_mtime_ns, status.st_size, status.st_ino)
