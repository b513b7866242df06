"""The contract of every change feed: short messages to all processes that share a store."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock, RLock
from typing import Protocol

from ..errors import StoreError

_log = logging.getLogger(__name__)
MAX_TOPIC_CHARS = 200
MAX_PAYLOAD_CHARS = 100_000
KEPT_SECONDS = 3_600.0
"""How long changes are kept for subscribers that are disconnected."""


@dataclass(frozen=True, slots=True)
class Change:
    """One message; `topic` says what changed, `payload` which one or how."""

    topic: str
    payload: str = ""


MISSED = Change("")
"""Messages were lost, for example in a crash of the server: everything may have changed."""

Callback = Callable[[Change], None]
Unsubscribe = Callable[[], None]


class ChangeFeed(Protocol):
    """Sends changes to every subscriber of every process, the publisher's own included.

    Changes of one publisher come in order, once each. Callbacks run in a thread of the feed and
    must be quick. A subscriber that was disconnected gets the changes it missed afterwards, or
    `MISSED` if they are not known any more.
    """

    def publish(self, topic: str, payload: str = "") -> None:
        """Send a change; when this returns, every connected subscriber will get it."""
        ...

    def subscribe(self, callback: Callback) -> Unsubscribe:
        """Get every change from now on; the answer ends it."""
        ...

    def close(self) -> None:
        """End all subscriptions."""
        ...


class MemoryFeed:
    """Sends changes within this process, before `publish` returns."""

    def __init__(self) -> None:
        self._callbacks: list[Callback] = []
        self._lock = Lock()
        # One publisher at a time, so that all get the same order. A callback may publish too.
        self._order = RLock()
        self._is_closed = False

    def publish(self, topic: str, payload: str = "") -> None:
        """Call every subscriber."""
        check_change(topic, payload)
        if self._is_closed:
            raise StoreError("The change feed is closed.", hint="Open a new one.")
        with self._order:
            self.deliver(Change(topic, payload))

    def subscribe(self, callback: Callback) -> Unsubscribe:
        """Get every change from now on; the answer ends it."""
        with self._lock:
            self._callbacks.append(callback)

        def unsubscribe() -> None:
            with self._lock:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)

        return unsubscribe

    def deliver(self, change: Change) -> None:
        """Pass a change on to the subscribers."""
        with self._lock:
            callbacks = tuple(self._callbacks)
        for callback in callbacks:
            try:
                callback(change)
            except Exception:  # noqa: BLE001 - one subscriber must not stop the others
                _log.exception(
                    "A subscriber failed on a change of %s", change.topic or "everything"
                )

    def close(self) -> None:
        """End all subscriptions."""
        self._is_closed = True
        with self._lock:
            self._callbacks.clear()


def check_change(topic: str, payload: str) -> None:
    """Raise StoreError for a change that not every feed can send."""
    is_topic_valid = 0 < len(topic) <= MAX_TOPIC_CHARS
    if not is_topic_valid or len(payload) > MAX_PAYLOAD_CHARS or "\0" in topic + payload:
        raise StoreError(
            f"The change {topic[:40]!r} cannot be sent.",
            hint=f"Use a topic of 1 to {MAX_TOPIC_CHARS} characters and a payload of at most"
            f" {MAX_PAYLOAD_CHARS:,}, both without NUL.",
        )
