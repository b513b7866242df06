"""Wait before a stream of events that ended without one is opened again."""

from __future__ import annotations

import asyncio

import httpx2

from .observed_events import observe_events

_FIRST_WAIT_SECONDS = 0.25
_MAX_WAIT_SECONDS = 5.0


class StreamBackoff:
    """Each stream in a row that ends without events doubles the wait; an event resets it.

    The SDK waits as long as the server says, which may be no time at all.
    """

    def __init__(self) -> None:
        self._empty_streams = 0
        self._retry_at = 0.0

    async def wait(self) -> None:
        """Wait until a stream may be opened."""
        seconds = self._retry_at - asyncio.get_running_loop().time()
        if seconds > 0:
            await asyncio.sleep(seconds)

    def observe(self, response: httpx2.Response) -> None:
        """Find out whether the stream of a response has events."""
        has_events = False

        def on_data(_: bytes) -> None:
            nonlocal has_events
            has_events = True
            self._empty_streams, self._retry_at = 0, 0.0

        def on_end() -> None:
            if has_events:
                return
            # The exponent is bounded so that years of this do not make huge numbers.
            wait = _FIRST_WAIT_SECONDS * 2 ** min(self._empty_streams, 10)
            self._empty_streams += 1
            now = asyncio.get_running_loop().time()
            self._retry_at = now + min(_MAX_WAIT_SECONDS, wait)

        observe_events(response, on_data=on_data, on_end=on_end)
