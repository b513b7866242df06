"""Event store for resumable streams: a client that lost its connection gets the rest of a reply."""

from __future__ import annotations

import uuid
import zlib
from collections import OrderedDict
from dataclasses import dataclass, field

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse
from mcp_types.jsonrpc import jsonrpc_message_adapter
from pydantic_core import PydanticSerializationError

RETRY_MS = 1_000
"""How soon a client whose stream broke is asked to reconnect."""

_MAX_OPEN_STREAMS = 10_000
_MAX_FINISHED_STREAMS = 2_000
# A call that reports progress can send any number of messages. Only the last ones are kept.
_MAX_MESSAGES_PER_STREAM = 100
_MAX_BYTES = 8 * 1024 * 1024
# The fastest level: every message of every client is compressed, and few are ever read back.
_COMPRESSION_LEVEL = 1


@dataclass(slots=True)
class _EventStream:
    """The messages of one reply, compressed, oldest first, each with its number in the stream."""

    name: str
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    next_number: int = 0
    messages: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])


_Streams = OrderedDict[str, _EventStream]  # by token, the least recently used first


class MemoryEventStore(EventStore):
    """Keeps the last messages of every stream in a fixed amount of memory."""

    # An event id is the stream's token and a number. The SDK's stream names can be guessed, and an
    # id gives access to the stream's messages, so the token is random.
    # The number lets a client that missed more than was kept get what is left: above all the
    # result, which comes last.

    def __init__(
        self, *, max_bytes: int = _MAX_BYTES, max_finished: int = _MAX_FINISHED_STREAMS
    ) -> None:
        self._max_bytes = max_bytes
        self._max_finished = max_finished
        self._open: _Streams = OrderedDict()
        self._finished: _Streams = OrderedDict()
        self._tokens: dict[str, str] = {}
        self._size = 0

    @property
    def size_bytes(self) -> int:
        """How many bytes of messages are kept."""
        return self._size

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Keep a message and return its event id; None marks a point to resume from."""
        stream = self._get_or_open(stream_id)
        number = stream.next_number
        stream.next_number += 1
        if message is not None:
            self._append(stream, number, message)
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._open.pop(stream.token, None)
            self._finished[stream.token] = stream
        self._evict(stream)
        return f"{stream.token}-{number}"

    async def replay_events_after(
        self, last_event_id: str, send_callback: EventCallback
    ) -> str | None:
        """Send the messages after an event; None if its stream is not kept any more."""
        token, _, number = last_event_id.rpartition("-")
        stream = self._find(token)
        if stream is None or not number.isdecimal():
            return None
        # A copy: sending waits, and the stream may get messages or lose old ones meanwhile.
        for each, packed in tuple(stream.messages):
            if each > int(number):
                await send_callback(EventMessage(_decompress(packed), f"{token}-{each}"))
        return stream.name

    def _find(self, token: str) -> _EventStream | None:
        for streams in (self._open, self._finished):
            if token in streams:
                streams.move_to_end(token)
                return streams[token]
        return None

    def _get_or_open(self, name: str) -> _EventStream:
        known = self._find(self._tokens.get(name, ""))
        if known is None:
            known = _EventStream(name)
            self._tokens[name] = known.token
            self._open[known.token] = known
        return known

    def _append(self, stream: _EventStream, number: int, message: JSONRPCMessage) -> None:
        try:
            packed = _compress(message)
        except PydanticSerializationError:  # such a message cannot be sent either
            return
        stream.messages.append((number, packed))
        self._size += len(packed)
        if len(stream.messages) > _MAX_MESSAGES_PER_STREAM:
            self._size -= len(stream.messages.pop(0)[1])

    def _evict(self, latest: _EventStream) -> None:
        # Finished streams go first. Their client most likely has the result already, while a client
        # of an open stream still waits for one and may have to reconnect for it.
        while len(self._finished) > self._max_finished or self._size > self._max_bytes:
            if self._evict_oldest(self._finished, latest) or self._evict_oldest(self._open, latest):
                continue
            # Only the latest stream is left. It loses its oldest messages, but never its last.
            if len(latest.messages) <= 1:
                return
            self._size -= len(latest.messages.pop(0)[1])
        if len(self._open) > _MAX_OPEN_STREAMS:
            self._evict_oldest(self._open, latest)

    def _evict_oldest(self, streams: _Streams, latest: _EventStream) -> bool:
        oldest = next(iter(streams.values()), None)
        if oldest is None or oldest is latest:
            return False
        del streams[oldest.token]
        if self._tokens.get(oldest.name) == oldest.token:
            del self._tokens[oldest.name]
        self._size -= sum(len(packed) for _, packed in oldest.messages)
        return True


def _compress(message: JSONRPCMessage) -> bytes:
    # As sent on the wire: compressed text takes a fraction of the memory of the objects.
    text = message.model_dump_json(by_alias=True, exclude_unset=True)
    return zlib.compress(text.encode(), _COMPRESSION_LEVEL)


def _decompress(packed: bytes) -> JSONRPCMessage:
    return jsonrpc_message_adapter.validate_json(zlib.decompress(packed), by_name=False)
