"""Request state that every gateway can read, and that names the one that made it."""

from __future__ import annotations

from .key_ring import SharedCodec

_SEPARATOR = b"\n"


class ReplicaStateCodec:
    """A codec of the MCP SDK whose tokens name a replica.

    The answer to a question belongs where the question came from: a call that waits is in the
    memory of one gateway, and a server that a gateway has started reads only its own state.
    """

    def __init__(self, codec: SharedCodec, *, replica: str) -> None:
        self._codec = codec
        self._replica = replica

    def seal(self, payload: bytes) -> str:
        """Encrypt the state, with the name of this replica."""
        return self._codec.seal(self._replica.encode() + _SEPARATOR + payload)

    def unseal(self, token: str) -> bytes:
        """Decrypt; raises InvalidRequestState for a token that no gateway has made."""
        return self._codec.unseal(token).partition(_SEPARATOR)[2]

    def find_replica(self, token: str) -> str:
        """The replica that made a token; empty if the token is not valid."""
        payload = self._codec.unseal_or_reload(token)
        return payload.partition(_SEPARATOR)[0].decode() if payload is not None else ""
