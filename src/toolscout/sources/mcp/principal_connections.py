"""Connections to one server, each with the login of one principal."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from ...errors import SourceError
from . import wire
from .connection import Connection
from .listing import ServerTools
from .login_request import LoginRequests
from .servers import Server
from .supervisor import ConnectionSupervisor


@dataclass(slots=True, eq=False)
class PrincipalConnection:
    """The connection of one principal, and what the server lists to them.

    The connection that everybody shares belongs to the empty name.
    """

    principal: str
    tools: ServerTools = field(default_factory=ServerTools)
    users: int = 0
    supervisor: ConnectionSupervisor = field(init=False)

    @property
    def definitions(self) -> Mapping[str, wire.MCPToolDefinition]:
        """The tools that the server offers on this connection."""
        return self.tools.definitions


BuildSupervisor = Callable[[PrincipalConnection], ConnectionSupervisor]


class PrincipalConnections:
    """At most so many connections, the least recently used of which makes room for another.

    Each closes itself when it is idle.
    """

    def __init__(self, server: Server, *, build: BuildSupervisor, logins: LoginRequests) -> None:
        self._server = server
        self._build = build
        self._logins = logins
        self._entries: dict[str, PrincipalConnection] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def in_flight(self) -> int:
        """How many calls run on these connections."""
        return sum(entry.supervisor.in_flight for entry in self._entries.values())

    @asynccontextmanager
    async def acquire(self, principal: str) -> AsyncGenerator[PrincipalConnection]:
        """The connection of a principal, which stays until the block ends."""
        await self._logins.require(principal)
        entry = self._find_or_create(principal)
        entry.users += 1
        try:
            yield entry
        finally:
            entry.users -= 1

    async def open(self, entry: PrincipalConnection) -> Connection:
        """Open a connection; if the server refuses its login, the error says how to log in."""
        try:
            return await entry.supervisor.ensure_connection()
        except SourceError as error:
            if entry.supervisor.breaker.needs_login:
                raise self._logins.error(entry.principal) from error
            raise

    async def list_with(self, principal: str) -> None:
        """Connect with the login of a principal, which lists the tools."""
        async with self.acquire(principal) as entry:
            await self.open(entry)

    def find(self, principal: str) -> PrincipalConnection | None:
        """The connection of a principal, if there is one."""
        return self._entries.get(principal)

    def wake(self, principal: str) -> None:
        """Connect for a principal in the background, if there is room."""
        with suppress(SourceError):
            self._find_or_create(principal).supervisor.wake()

    async def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        while self._entries:
            self._close_in_background(self._entries.popitem()[1])
        await asyncio.gather(*self._closing)

    def _find_or_create(self, principal: str) -> PrincipalConnection:
        if self._is_closed:
            raise SourceError(
                f"Server {self._server.name!r} is closed.",
                hint="It was stopped or its configuration changed: search again, then call.",
            )
        entry = self._entries.pop(principal, None)
        if entry is None:
            self._make_room()
            entry = PrincipalConnection(principal)
            entry.supervisor = self._build(entry)
        # The last of a dictionary is the one that was used last.
        self._entries[principal] = entry
        return entry

    def _make_room(self) -> None:
        if len(self._entries) < self._server.limits.principal_connections:
            return
        for principal, entry in self._entries.items():
            if not entry.users and not entry.supervisor.has_subscriptions:
                self._close_in_background(self._entries.pop(principal))
                return
        raise SourceError(
            f"Server {self._server.name!r} is in use by {len(self._entries)} other principals.",
            hint="The call has not run. Try again later.",
        )

    def _close_in_background(self, entry: PrincipalConnection) -> None:
        task = asyncio.create_task(entry.supervisor.close(), context=contextvars.Context())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
