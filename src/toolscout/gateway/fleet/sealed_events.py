"""Encrypt stream events so that only the client with their event id can read them."""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ...errors import require
from ...store.stream_events import StoredEvent

_NONCE_BYTES = 12


class EventKind(bytes, Enum):
    """What an event is: the request of its stream, a message, or the answer to the request."""

    REQUEST = b"q"
    MESSAGE = b"m"
    ANSWER = b"a"


@dataclass(frozen=True, slots=True)
class OpenEvent:
    """An event before it is encrypted."""

    number: int
    kind: EventKind
    data: bytes


class EventCipher:
    """Encrypts the events of one stream, for one session of one principal.

    The token of the stream is a secret that only its gateway and its client have. The store gets
    neither the token nor the key, so a reader of the database cannot read the events.
    """

    def __init__(self, token: str, *, session: str, principal: str) -> None:
        aead: Any = require("cryptography.hazmat.primitives.ciphers.aead", extra="mcp")
        self._aes = aead.AESGCM(_derive(token, b"toolscout event key"))
        self._context = json.dumps([session, principal]).encode()
        self.stream = stream_name(token)

    def seal(self, event: OpenEvent) -> StoredEvent:
        """Encrypt an event."""
        data = self._aes.encrypt(_nonce(event.number), event.kind + event.data, self._context)
        return StoredEvent(self.stream, event.number, data)

    def unseal(self, events: Sequence[StoredEvent]) -> list[OpenEvent] | None:
        """Decrypt events; None if they belong to another session or principal, or were changed."""
        exceptions = require("cryptography.exceptions", extra="mcp")
        found: list[OpenEvent] = []
        for event in events:
            try:
                data: bytes = self._aes.decrypt(_nonce(event.number), event.data, self._context)
            except exceptions.InvalidTag:
                return None
            found.append(OpenEvent(event.number, EventKind(data[:1]), data[1:]))
        return found


def stream_name(token: str) -> str:
    """The name of a stream in the store, which does not give away its token."""
    return _derive(token, b"toolscout event stream").hex()


def _derive(token: str, purpose: bytes) -> bytes:
    return hmac.digest(token.encode(), purpose, "sha256")


def _nonce(number: int) -> bytes:
    # Each key encrypts each number once: it belongs to one stream.
    return number.to_bytes(_NONCE_BYTES, "big")
