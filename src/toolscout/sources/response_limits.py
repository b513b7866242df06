"""A limit on the body of an HTTP response, as it is after decompression."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2

ACCEPT_ENCODING = "gzip, deflate"
"""The encodings that `limit_response` can decode within a limit."""

_ENCODINGS = frozenset({"gzip", "x-gzip", "deflate"})
_EVENT_STREAM = "text/event-stream"
# Decompressed at a time: a few bytes may stand for a thousand times as many.
_CHUNK_BYTES = 65_536
# zlib finds out by itself whether data has a gzip or a zlib header.
_ANY_HEADER = zlib.MAX_WBITS | 32


class ResponseLimitError(httpx2.StreamError):
    """A body that is too large, or compressed in a way that has no limit."""


def limit_response(response: httpx2.Response, *, max_bytes: int) -> None:
    """Let reading a response fail once its body is larger than this.

    A stream of events may have no end, so it has no limit as a whole: its reader limits
    each event.
    """
    codings = response.headers.get_list("content-encoding", split_commas=True)
    names = [name.strip().lower() for name in codings if name.strip().lower() != "identity"]
    is_stream = response.headers.get("content-type", "").lower().startswith(_EVENT_STREAM)
    # The body is decoded here, so httpx must not do it again.
    response.headers.pop("content-encoding", None)
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _LimitedStream(
        response.stream, tuple(names), max_bytes=None if is_stream else max_bytes
    )


class _LimitedStream(httpx2.AsyncByteStream):
    def __init__(
        self, inner: httpx2.AsyncByteStream, codings: tuple[str, ...], *, max_bytes: int | None
    ) -> None:
        self._inner = inner
        self._codings = codings
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        decoder = self._create_decoder()
        count = 0
        async for raw in self._inner:
            for part in _decode(decoder, raw) if decoder else (raw,):
                count += len(part)
                if self._max_bytes is not None and count > self._max_bytes:
                    raise ResponseLimitError(f"it is larger than {self._max_bytes:,} bytes.")
                yield part

    def _create_decoder(self) -> Any:
        if not self._codings:
            return None
        # Two encodings on top of one another are a trick to multiply the size.
        if len(self._codings) > 1 or not _ENCODINGS.issuperset(self._codings):
            raise ResponseLimitError(
                f"its encoding {', '.join(self._codings)[:80]} was not asked for."
            )
        return zlib.decompressobj(_ANY_HEADER)

    async def aclose(self) -> None:
        """Close the connection's stream."""
        await self._inner.aclose()


def _decode(decoder: Any, raw: bytes) -> Iterator[bytes]:
    try:
        yield decoder.decompress(raw, _CHUNK_BYTES)
        while decoder.unconsumed_tail:
            yield decoder.decompress(decoder.unconsumed_tail, _CHUNK_BYTES)
    except zlib.error as error:
        raise ResponseLimitError("it cannot be decompressed.") from error
