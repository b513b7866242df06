"""Look at the server-sent events of a response while the SDK reads them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import httpx2

_EVENT_STREAM = "text/event-stream"
_DATA = b"data:"


def observe_events(
    response: httpx2.Response,
    *,
    on_data: Callable[[bytes], None],
    on_end: Callable[[], None] | None = None,
) -> None:
    """Pass on every line of data that is not empty, and the end, of a stream of events."""
    if response.headers.get("content-type", "").lower().startswith(_EVENT_STREAM):
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _ObservedStream(response.stream, on_data, on_end)


class _ObservedStream(httpx2.AsyncByteStream):
    def __init__(
        self,
        inner: httpx2.AsyncByteStream,
        on_data: Callable[[bytes], None],
        on_end: Callable[[], None] | None,
    ) -> None:
        self._inner = inner
        self._on_data = on_data
        self._on_end = on_end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        # The SDK limits the size of an event, and so of what is pending here.
        pending: list[bytes] = []
        async for chunk in self._inner:
            # A line may end with \r, \n or both. Empty lines do not matter here.
            *ends, rest = chunk.replace(b"\r", b"\n").split(b"\n")
            for end in ends:
                self._read_line(b"".join((*pending, end)))
                pending = []
            pending.append(rest)
            yield chunk

    def _read_line(self, line: bytes) -> None:
        data = line.removeprefix(_DATA).strip() if line.startswith(_DATA) else b""
        if data:
            self._on_data(data)

    async def aclose(self) -> None:
        """Close the stream, which is the end of its events."""
        if self._on_end is not None:
            self._on_end()
        await self._inner.aclose()
