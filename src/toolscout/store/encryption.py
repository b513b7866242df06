"""Encrypt small secrets of the state with AES-256-GCM."""

from __future__ import annotations

import base64
import os
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import StoreError, require
from .state_key import StateKey, StateKeys

_NONCE_BYTES = 12


class UnreadableSecretError(StoreError):
    """A secret that none of the present keys decrypts, or that somebody changed."""


class _Envelope(BaseModel):
    """A secret as it is stored: which key it needs, and the ciphertext."""

    model_config = ConfigDict(frozen=True)

    encrypted: Literal["AES-256-GCM"] = "AES-256-GCM"
    key: str
    nonce: str
    data: str


class Cipher:
    """Encrypts and decrypts with the keys of a state folder, which may change meanwhile."""

    def __init__(self, keys: StateKeys) -> None:
        self.keys = keys
        self._known: dict[str, StateKey] = {}

    def encrypt(self, secret: bytes, *, context: str) -> bytes:
        """Encrypt a secret; it can be decrypted only in the same context, such as its place."""
        key = self.keys.read_or_create()
        nonce = os.urandom(_NONCE_BYTES)
        data = _aes(key).encrypt(nonce, secret, context.encode())
        envelope = _Envelope(key=key.id, nonce=_to_text(nonce), data=_to_text(data))
        return envelope.model_dump_json().encode()

    def decrypt(self, stored: bytes, *, context: str) -> bytes:
        """Decrypt a secret; UnreadableSecretError says why that is impossible."""
        try:
            envelope = _Envelope.model_validate_json(stored)
            nonce, data = base64.b64decode(envelope.nonce), base64.b64decode(envelope.data)
        except (ValidationError, ValueError) as error:
            raise UnreadableSecretError("It is damaged.") from error
        key = self._find_key(envelope.key)
        exceptions = require("cryptography.exceptions", extra="mcp")
        try:
            return _aes(key).decrypt(nonce, data, context.encode())
        except (exceptions.InvalidTag, ValueError) as error:
            raise UnreadableSecretError(
                "It was changed or moved since it was encrypted."
            ) from error

    def _find_key(self, key_id: str) -> StateKey:
        if key_id not in self._known:
            # Read again, as the keys may have been replaced since.
            keys = (*self.keys.read(), *self.keys.read_old())
            self._known = {key.id: key for key in keys}
        if key_id not in self._known:
            raise UnreadableSecretError(
                f"It is encrypted with the key {key_id}, which is not in {self.keys.place}.",
                hint="Bring that key back, or log in again.",
            )
        return self._known[key_id]


def is_encrypted(stored: bytes) -> bool:
    """Whether a file has an encrypted secret."""
    return b'"encrypted"' in stored[:32]


def _aes(key: StateKey) -> Any:
    # Imported here: it takes 50 ms, and most starts need no secret.
    aead = require("cryptography.hazmat.primitives.ciphers.aead", extra="mcp")
    return aead.AESGCM(key.bytes)


def _to_text(data: bytes) -> str:
    return base64.b64encode(data).decode()
