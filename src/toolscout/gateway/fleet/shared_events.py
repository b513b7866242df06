"""Write the events of streams to the store, behind the messages and without holding them up."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass

from ...errors import StoreError
from ...store.stream_events import StoredEvent, StreamEvents
from ..client.event_store import KeptEvent
from .internal_route import read_request
from .sealed_events import EventCipher, EventKind, OpenEvent, stream_name

log = logging.getLogger(__name__)

# Long enough for the events of many calls in one write.
_DELAY_SECONDS = 0.1
_RETRY_SECONDS = 1.0
_PRUNE_SECONDS = 60.0
_CLOSE_SECONDS = 3.0
# Kept for a store that does not answer; the oldest is dropped first.
_MAX_PENDING_EVENTS = 5_000
_MAX_PENDING_BYTES = 8 * 1024 * 1024
# Of one write, which has one deadline.
_MAX_BATCH_BYTES = 1024 * 1024
# After so many bytes the table may have outgrown its limits.
_PRUNE_BYTES = 8 * 1024 * 1024


@dataclass(slots=True)
class StreamOrigin:
    """The session and the request that a stream belongs to; both are filled in as they arrive."""

    principal: str
    session: str = ""
    request: bytes = b""


current_origin: ContextVar[StreamOrigin | None] = ContextVar("stream_origin", default=None)
"""Where the events that arise now belong: a request, or the session that it opened."""


@dataclass(frozen=True, slots=True)
class _Pending:
    event: KeptEvent
    origin: StreamOrigin

    @property
    def size(self) -> int:
        return len(self.event.packed) or len(self.origin.request)


class SharedEvents:
    """The events of this gateway's streams on their way to the store, and those of all gateways."""

    def __init__(self, events: StreamEvents) -> None:
        self._events = events
        self._pending: deque[_Pending] = deque()
        self._size = 0
        self._wake = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None
        self._is_reached = True
        self._prune_at = 0.0
        self._written_bytes = 0

    def add(self, event: KeptEvent) -> None:
        """Note an event for the next write; called in the context in which it arose."""
        origin = current_origin.get()
        # Only the first point to resume from says something new: that there is a request.
        if origin is None or not (event.packed or event.number == 0):
            return
        self._keep(_Pending(event, origin))
        self._wake.set()

    def start(self) -> None:
        """Write events in the background."""
        self._writing = asyncio.create_task(self._keep_writing())

    async def close(self) -> None:
        """Write what is left, so that clients can resume elsewhere."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._write_all()
        await asyncio.to_thread(self._events.close)

    def read(self, token: str, *, session: str, principal: str) -> list[OpenEvent] | None:
        """The events of a stream, oldest first; None if there are none for this caller."""
        events = self._events.read(stream_name(token))
        cipher = EventCipher(token, session=session, principal=principal)
        return cipher.unseal(events) or None

    async def _keep_writing(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_PRUNE_SECONDS):
                    await self._wake.wait()
            await asyncio.sleep(_DELAY_SECONDS)
            try:
                await self._write_all()
                self._is_reached = True
            except StoreError as error:
                # Once, and not every second.
                if self._is_reached:
                    log.warning("Clients cannot resume streams at other gateways: %s", error)
                self._is_reached = False
                await asyncio.sleep(_RETRY_SECONDS)

    async def _write_all(self) -> None:
        self._wake.clear()
        while batch := self._take_batch():
            try:
                await asyncio.to_thread(self._write, batch)
            except StoreError:
                self._put_back(batch)
                raise
        if time.monotonic() >= self._prune_at or self._written_bytes > _PRUNE_BYTES:
            await asyncio.to_thread(self._events.prune)
            self._prune_at = time.monotonic() + _PRUNE_SECONDS
            self._written_bytes = 0

    def _keep(self, pending: _Pending) -> None:
        self._pending.append(pending)
        self._size += pending.size
        while len(self._pending) > _MAX_PENDING_EVENTS or self._size > _MAX_PENDING_BYTES:
            self._size -= self._pending.popleft().size

    def _take_batch(self) -> list[_Pending]:
        batch: list[_Pending] = []
        size = 0
        while self._pending and size < _MAX_BATCH_BYTES:
            batch.append(self._pending.popleft())
            size += batch[-1].size
        self._size -= size
        return batch

    def _put_back(self, batch: Sequence[_Pending]) -> None:
        later = [*self._pending]
        self._pending.clear()
        self._size = 0
        # In order, so that the oldest of all are dropped.
        for pending in (*batch, *later):
            self._keep(pending)
        self._wake.set()

    def _write(self, batch: Sequence[_Pending]) -> None:
        sealed = _seal(batch)
        if sealed:
            self._events.append(sealed)
            self._written_bytes += sum(len(event.data) for event in sealed)


def _seal(batch: Sequence[_Pending]) -> list[StoredEvent]:
    # A stream that already has its answer needs no description of its request.
    answered = {each.event.token for each in batch if each.event.is_answer}
    ciphers: dict[str, EventCipher] = {}
    sealed: list[StoredEvent] = []
    for each in batch:
        event, origin = each.event, each.origin
        opened = _open_event(each, is_answered=event.token in answered)
        # A session that was refused never gets an id.
        if opened is None or not origin.session:
            continue
        if event.token not in ciphers:
            ciphers[event.token] = EventCipher(
                event.token, session=origin.session, principal=origin.principal
            )
        sealed.append(ciphers[event.token].seal(opened))
    return sealed


def _open_event(pending: _Pending, *, is_answered: bool) -> OpenEvent | None:
    event = pending.event
    if event.packed:
        kind = EventKind.ANSWER if event.is_answer else EventKind.MESSAGE
        return OpenEvent(event.number, kind, event.packed)
    key, method = read_request(pending.origin.request)
    if key is None or is_answered:
        return None
    return OpenEvent(event.number, EventKind.REQUEST, _describe(key, method))


def _describe(key: object, method: object) -> bytes:
    """As much of a request as an error needs that answers it."""
    return json.dumps({"id": key, "method": method}).encode()
