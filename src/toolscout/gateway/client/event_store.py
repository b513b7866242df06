"""What was sent to clients lately, so that a stream which broke off goes on where it ended."""

from __future__ import annotations

import uuid
import zlib
from dataclasses import dataclass, field

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse
from mcp_types.jsonrpc import jsonrpc_message_adapter
from pydantic_core import PydanticSerializationError

from ..lru import LRUCache

RETRY_MS = 1_000
"""How soon a client whose stream broke off is asked to come back."""

_MOST_OPEN = 10_000
_MOST_DONE = 2_000
_MOST_OF_A_STREAM = 100
_MAX_BYTES = 8 * 1024 * 1024
_COMPRESSION_LEVEL = 1


@dataclass(slots=True)
class _EventStream:
    """One reply's messages, oldest first, each with its number in the stream, packed."""

    name: str
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    next_number: int = 0
    kept: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])


class MemoryEventStore(EventStore):
    """Keeps the last messages of every stream in memory, packed, within a fixed amount of it.

    An event's id is its stream's unguessable token and a number, so a client that missed more
    than was kept still gets what is left, the result above all. When room is short, streams that
    have their result go before those that wait for one, the least used first.
    """

    def __init__(self, *, largest: int = _MAX_BYTES, done: int = _MOST_DONE) -> None:
        self._largest = largest
        self._most_done = done
        self._open: LRUCache[str, _EventStream] = LRUCache(_MOST_OPEN + 1)
        self._done: LRUCache[str, _EventStream] = LRUCache(done + 1)
        self._tokens: dict[str, str] = {}
        self._size = 0

    @property
    def size_bytes(self) -> int:
        """How many bytes are kept."""
        return self._size

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Keep a message; none marks the place from which a stream may be taken up again."""
        stream = self._open_stream(stream_id)
        number = stream.next_number
        stream.next_number += 1
        if message is not None:
            self._append(stream, number, message)
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._open.drop(stream.token)
            self._done.put(stream.token, stream)
        self._evict(stream)
        return f"{stream.token}-{number}"

    async def replay_events_after(
        self, last_event_id: str, send_callback: EventCallback
    ) -> str | None:
        """Send what a client has missed since an event; nothing if it is long forgotten."""
        token, _, number = last_event_id.rpartition("-")
        stream = self._open.get(token) or self._done.get(token)
        if stream is None or not number.isdecimal():
            return None
        for each, packed in tuple(stream.kept):
            if each > int(number):
                await send_callback(EventMessage(_decompress(packed), f"{token}-{each}"))
        return stream.name

    def _open_stream(self, name: str) -> _EventStream:
        token = self._tokens.get(name, "")
        known = self._open.get(token) or self._done.get(token)
        if known is None:
            known = _EventStream(name)
            self._tokens[name] = known.token
            self._open.put(known.token, known)
        return known

    def _append(self, stream: _EventStream, number: int, message: JSONRPCMessage) -> None:
        try:
            packed = _compress(message)
        except PydanticSerializationError:  # it cannot be sent either
            return
        stream.kept.append((number, packed))
        self._size += len(packed)
        if len(stream.kept) > _MOST_OF_A_STREAM:
            self._size -= len(stream.kept.pop(0)[1])

    def _evict(self, latest: _EventStream) -> None:
        while len(self._done) > self._most_done or self._size > self._largest:
            if self._evict_oldest(self._done, latest) or self._evict_oldest(self._open, latest):
                continue
            if len(latest.kept) <= 1:
                return
            self._size -= len(latest.kept.pop(0)[1])
        if len(self._open) > _MOST_OPEN:
            self._evict_oldest(self._open, latest)

    def _evict_oldest(self, streams: LRUCache[str, _EventStream], latest: _EventStream) -> bool:
        oldest = streams.oldest()
        if oldest is None or oldest is latest:
            return False
        streams.drop(oldest.token)
        if self._tokens.get(oldest.name) == oldest.token:
            del self._tokens[oldest.name]
        self._size -= sum(len(packed) for _, packed in oldest.kept)
        return True


def _compress(message: JSONRPCMessage) -> bytes:
    """A message as it goes over the wire, in a fraction of the room that its objects take."""
    text = message.model_dump_json(by_alias=True, exclude_unset=True)
    return zlib.compress(text.encode(), _COMPRESSION_LEVEL)


def _decompress(packed: bytes) -> JSONRPCMessage:
    return jsonrpc_message_adapter.validate_json(zlib.decompress(packed), by_name=False)
