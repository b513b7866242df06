"""The keys that tokens are checked with: one from the configuration, or the issuer's key set."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

from joserfc import jwk
from joserfc.errors import JoseError

from .challenges import IssuerUnavailableError, TokenRefusedError
from .openid_provider import ProviderError

log = logging.getLogger(__name__)
# An issuer has a handful of keys.
_MAX_KEYS = 64
# How long known keys are used while the issuer does not answer.
_MAX_STALE_SECONDS = 86_400.0
_KEY_TYPES: Mapping[str, Literal["oct", "RSA", "EC", "OKP"]] = {
    "HS": "oct",
    "RS": "RSA",
    "PS": "RSA",
    "ES": "EC",
    "Ed": "OKP",
}

Key = jwk.Key


def key_type(algorithm: str) -> Literal["oct", "RSA", "EC", "OKP"]:
    """The type of the keys of a signature algorithm."""
    return _KEY_TYPES[algorithm[:2]]


class KeyFinder(Protocol):
    """Finds the key that a token names."""

    async def find(self, kid: str | None) -> Key:
        """The key with this id; raises if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class FixedKey:
    """One key from the configuration, which checks every token."""

    key: Key

    async def find(self, kid: str | None) -> Key:
        """The key, whatever the token calls it."""
        del kid
        return self.key


@dataclass(frozen=True, slots=True)
class KeyTimes:
    """After what time keys are fetched again, and the least time between two fetches."""

    max_age_seconds: float
    retry_seconds: float


class FetchedKeys:
    """The key set of an issuer, fetched when it is old or lacks a key.

    Fetches have a least interval: tokens with invented key ids do not cause more of them.
    """

    def __init__(
        self,
        fetch: Callable[[], Awaitable[Any]],
        *,
        algorithm: str,
        times: KeyTimes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch = fetch
        self._algorithm = algorithm
        self._times = times
        self._clock = clock
        self._keys: dict[str, Key] = {}
        self._fetched_at = self._tried_at = float("-inf")
        self._is_failing = False
        self._lock = asyncio.Lock()

    async def find(self, kid: str | None) -> Key:
        """The key with this id, or the only one; fetches the keys if need be."""
        age = self._clock() - self._fetched_at
        key = self._pick(kid)
        if key is None or age > self._times.max_age_seconds:
            await self._refresh()
            key = self._pick(kid)
        if key is not None:
            return key
        if self._is_failing:
            raise IssuerUnavailableError("The issuer of the token does not answer. Try again.")
        raise TokenRefusedError("The key that signed the token is not known.")

    def _pick(self, kid: str | None) -> Key | None:
        if self._clock() - self._fetched_at > _MAX_STALE_SECONDS:
            return None
        if kid is None:  # without an id there must be no choice
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(kid)

    async def _refresh(self) -> None:
        async with self._lock:
            if self._clock() - self._tried_at < self._times.retry_seconds:
                return
            self._tried_at = self._clock()
            try:
                keys = dict(_read_keys(await self._fetch(), self._algorithm))
            except ProviderError as error:
                if not self._is_failing:
                    log.warning("The keys of the issuer cannot be fetched: %s", error)
                self._is_failing = True
            else:
                self._keys, self._fetched_at, self._is_failing = keys, self._clock(), False


def _read_keys(document: Any, algorithm: str) -> Iterator[tuple[str, Key]]:
    """The keys of a set that fit the algorithm, by their ids; others are ignored (RFC 7517)."""
    table = cast("dict[str, object]", document) if isinstance(document, dict) else {}
    entries = table.get("keys")
    if not isinstance(entries, list):
        raise ProviderError("The key set of the issuer cannot be used.")
    for entry in cast("list[object]", entries)[:_MAX_KEYS]:
        if not isinstance(entry, dict):
            continue
        key = cast("dict[str, Any]", entry)
        is_fitting = (
            key.get("kty") == key_type(algorithm)
            and key.get("use", "sig") == "sig"
            and key.get("alg", algorithm) == algorithm
        )
        kid = key.get("kid", "")
        if is_fitting and isinstance(kid, str):
            try:
                yield kid, jwk.import_key(key, key_type(algorithm))
            except (JoseError, ValueError, TypeError, KeyError):
                continue
