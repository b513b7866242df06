"""Which server a name stands for, so that two of one name are not taken for one another."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from ...sources.mcp.servers import Server

_LONGEST_PLACE = 200


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """A name, a hash of what is run or reached under it, and that in words without secrets.

    A renewed secret makes no other server of it; another argument, folder or address does.
    """

    server: str
    key: str
    place: str

    @classmethod
    def of(cls, server: Server) -> ServerIdentity:
        """The identity of a server as it is configured."""
        run = [server.redact(part) for part in (server.command, *server.args)]
        is_local = server.transport == "stdio"
        facts = [*run, server.redact(server.cwd)] if is_local else [server.location]
        key = hashlib.sha256(json.dumps([is_local, *facts]).encode()).hexdigest()[:12]
        place = " ".join(run) if is_local else server.location
        return cls(server.name, key, place[:_LONGEST_PLACE])
