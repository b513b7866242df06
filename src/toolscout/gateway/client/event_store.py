"""Event store for resumable streams: a client that lost its connection gets the rest of a reply."""

from __future__ import annotations

import uuid
import zlib
from collections import OrderedDict
from collections.abc import Callable
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
_MAX_NUMBER_DIGITS = 15


@dataclass(slots=True)
class _EventStream:
    """The messages of one reply, compressed, oldest first, each with its number in the stream."""

    name: str
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    next_number: int = 0
    messages: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])


@dataclass(frozen=True, slots=True)
class KeptEvent:
    """An event as it is kept: a compressed message, or nothing for a point to resume from."""

    token: str
    number: int
    packed: bytes
    is_answer: bool


EventListener = Callable[[KeptEvent], None]
"""Gets every event at once, in the context in which it arose."""

_Streams = OrderedDict[str, _EventStream]  # by token, the least recently used first


class MemoryEventStore(EventStore):
    """Keeps the last messages of every stream in a fixed amount of memory."""

    # An event id is the stream's token and a number. The SDK's stream names can be guessed, and an
    # id gives access to the stream's messages, so the token is random.
    # The number lets a client that missed more than was kept get what is left: above all the
    # result, which comes last.

    def __init__(
        self,
        *,
        max_bytes: int = _MAX_BYTES,
        max_finished: int = _MAX_FINISHED_STREAMS,
        on_event: EventListener | None = None,
    ) -> None:
        self._on_event = on_event
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
        packed = self._append(stream, number, message) if message is not None else b""
        is_answer = isinstance(message, JSONRPCResponse | JSONRPCError)
        if is_answer:
            self._open.pop(stream.token, None)
            self._finished[stream.token] = stream
        self._evict(stream)
        if self._on_event is not None and packed is not None:
            self._on_event(KeptEvent(stream.token, number, packed, is_answer))
        return f"{stream.token}-{number}"

    async def replay_events_after(
        self, last_event_id: str, send_callback: EventCallback
    ) -> str | None:
        """Send the messages after an event; None if its stream is not kept any more."""
        position = split_event_id(last_event_id)
        stream = self._find(position[0]) if position else None
        if stream is None or position is None:
            return None
        token, number = position
        # A copy: sending waits, and the stream may get messages or lose old ones meanwhile.
        for each, packed in tuple(stream.messages):
            if each > number:
                await send_callback(EventMessage(_decompress(packed), f"{token}-{each}"))
        return stream.name

    def has_stream(self, token: str) -> bool:
        """Whether the events of a stream are kept here."""
        return token in self._open or token in self._finished

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

    def _append(self, stream: _EventStream, number: int, message: JSONRPCMessage) -> bytes | None:
        """Keep a message; None for one that cannot be sent either."""
        try:
            packed = _compress(message)
        except PydanticSerializationError:
            return None
        stream.messages.append((number, packed))
        self._size += len(packed)
        if len(stream.messages) > _MAX_MESSAGES_PER_STREAM:
            self._size -= len(stream.messages.pop(0)[1])
        return packed

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


def split_event_id(event_id: str) -> tuple[str, int] | None:
    """The token of the stream and the number of the event; None for an id of another form."""
    token, _, number = event_id.rpartition("-")
    # A longer number than any stream has would not fit into a database.
    is_valid = number.isascii() and number.isdecimal() and len(number) <= _MAX_NUMBER_DIGITS
    return (token, int(number)) if is_valid and token else None


def _compress(message: JSONRPCMessage) -> bytes:
    # As sent on the wire: compressed text takes a fraction of the memory of the objects.
    text = message.model_dump_json(by_alias=True, exclude_unset=True)
    return zlib.compress(text.encode(), _COMPRESSION_LEVEL)


def _decompress(packed: bytes) -> JSONRPCMessage:
    return jsonrpc_message_adapter.validate_json(read_message(packed), by_name=False)


def read_message(packed: bytes) -> bytes:
    """The JSON of a message, as it was sent."""
    return zlib.decompress(packed)
