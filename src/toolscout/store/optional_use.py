"""Use of a store that is only a help: while it does not answer, work continues without it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from ..errors import StoreError

log = logging.getLogger(__name__)
T = TypeVar("T")
# While a store is away, each use would otherwise wait for it.
RETRY_SECONDS = 10.0


class OptionalUse:
    """Skips a store for a while after it failed; the failure is logged as what it means."""

    def __init__(self, meaning: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._meaning = meaning
        self._clock = clock
        self._retry_at = float("-inf")

    @property
    def is_paused(self) -> bool:
        """Whether the store failed a short while ago."""
        return self._clock() < self._retry_at

    def run(self, use: Callable[[], T], default: T) -> T:
        """What `use` returns, or the default if the store fails or is skipped."""
        if self.is_paused:
            return default
        try:
            return use()
        except StoreError as error:
            log.warning("%s: %s", self._meaning, error)
            self._retry_at = self._clock() + RETRY_SECONDS
            return default
