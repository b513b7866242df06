"""This process as one of the workers of a supervisor."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from dataclasses import dataclass, field

from .connection_counts import ConnectionCounts
from .replicas import new_replica_id

READY = b"\n"
"""What a worker sends to its supervisor once it accepts connections."""


@dataclass(frozen=True, slots=True)
class Worker:
    """The place of this process among the workers.

    `lead` is the replica of the first worker. It answers what is not MCP, such as logins with a
    browser, which are in the memory of one process. `control` is connected to the supervisor.
    `counts` has the open connections of all workers.
    """

    number: int
    lead: str
    control: socket.socket
    counts: ConnectionCounts
    replica: str = field(default_factory=new_replica_id)

    @classmethod
    def create(
        cls, number: int, lead: str, control: socket.socket, counts: ConnectionCounts
    ) -> Worker:
        """The first worker has the name that the others know; a restart does not change it."""
        if number == 0:
            return cls(number, lead, control, counts, lead)
        return cls(number, lead, control, counts)

    @property
    def is_lead(self) -> bool:
        """Whether this is the first worker."""
        return self.replica == self.lead

    def report_ready(self) -> None:
        """Tell the supervisor that this worker accepts connections."""
        # A supervisor that is gone is noticed by `wait_until_left`.
        with suppress(OSError):
            self.control.sendall(READY)

    async def wait_until_left(self) -> None:
        """Wait until the supervisor has ended, in whatever way."""
        self.control.settimeout(0)
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            while await loop.sock_recv(self.control, 1):
                pass
