"""This gateway as one of several with the same store."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from urllib.parse import urlsplit

from mcp.server.request_state import RequestStateSecurity

from ...config import Config
from ...errors import StoreError
from ...store.factory import open_stream_events
from .internal_route import PURPOSE, PassOnClient
from .key_ring import SharedCodec, open_key_ring
from .replicas import HEARTBEAT_SECONDS, ReplicaRegistry, new_replica_id, open_registry
from .request_state import ReplicaStateCodec
from .shared_events import SharedEvents

log = logging.getLogger(__name__)
_WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - compared with, not bound to


class Fleet:
    """The identity, the shared keys and the heartbeat of this gateway."""

    def __init__(self, config: Config, *, replica: str = "") -> None:
        self._config = config
        self.replica = replica or new_replica_id()
        self._ring = open_key_ring(config)
        states = SharedCodec(self._ring, purpose="toolscout request state")
        self.states = ReplicaStateCodec(states, replica=self.replica)
        self.internal = SharedCodec(self._ring, purpose=PURPOSE)
        self.client = PassOnClient(self.internal)
        events = open_stream_events(config)
        self.events = SharedEvents(events) if events is not None else None
        self.registry: ReplicaRegistry | None = None
        self._beating: asyncio.Task[None] | None = None
        self._is_reached = True

    @property
    def state_security(self) -> RequestStateSecurity:
        """Seals request state so that every gateway can read it."""
        return RequestStateSecurity(codec=self.states)

    def listen_at(self, listener: socket.socket) -> ReplicaRegistry:
        """Tell other gateways that this one is reached at a socket."""
        address = _address_of(listener, self._config.store)
        self.registry = open_registry(self._config, replica=self.replica, address=address)
        return self.registry

    async def start(self) -> None:
        """Read the keys, and write the first heartbeat."""
        await self._beat()
        self._beating = asyncio.create_task(self._keep_beating())
        if self.events is not None:
            self.events.start()

    async def close(self) -> None:
        """Stop the heartbeat."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
        await self.client.close()
        if self.events is not None:
            await self.events.close()
        await asyncio.to_thread(self._leave)

    def _leave(self) -> None:
        if self.registry is not None:
            with suppress(StoreError):
                self.registry.leave()
            self.registry.close()
        self._ring.close()

    async def _keep_beating(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            await self._beat()

    async def _beat(self) -> None:
        try:
            await asyncio.to_thread(self._write_heartbeat)
            self._is_reached = True
        except StoreError as error:
            # Once, and not every five seconds.
            if self._is_reached:
                log.warning("Other gateways cannot find this one: %s", error)
            self._is_reached = False

    def _write_heartbeat(self) -> None:
        self._ring.load()
        if self.registry is not None:
            self.registry.beat()


def _address_of(listener: socket.socket, store: str) -> str:
    """The URL of a listening socket for other machines."""
    host, port = listener.getsockname()[:2]
    if host in _WILDCARDS:
        host = _own_address(store)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _own_address(store: str) -> str:
    """The address of this machine in the network of the store."""
    host = urlsplit(store).hostname or ""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Nothing is sent: this only chooses a network interface.
        probe.connect((host, 9))
        return str(probe.getsockname()[0])
    return socket.gethostname()
