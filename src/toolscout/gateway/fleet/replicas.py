"""Which gateways with the same store are running, and where they are reached."""

from __future__ import annotations

import asyncio
import secrets
from threading import Lock

from pydantic import BaseModel, ConfigDict, ValidationError

from ...config import Config
from ...store.contract import Store, StoreLimits
from ...store.factory import open_store

SPACE = "gateway_replicas"
"""The space of the store."""

HEARTBEAT_SECONDS = 5.0
"""How often a gateway writes that it is running."""

GONE_SECONDS = 20.0
"""A gateway whose last heartbeat is older than this is not running."""

_MAX_REPLICAS = 10_000
# How often a request that was passed on checks whether its gateway still runs.
_WATCH_SECONDS = 1.0


class _Entry(BaseModel):
    """What a gateway writes about itself."""

    model_config = ConfigDict(frozen=True)

    address: str


def new_replica_id() -> str:
    """A name for this process; a gateway that starts again has another one."""
    return secrets.token_hex(4)


class ReplicaRegistry:
    """Heartbeats in the store; the last known ones answer without it."""

    def __init__(self, store: Store, *, replica: str, address: str) -> None:
        self._store = store
        self._entry = _Entry(address=address).model_dump_json()
        self._lock = Lock()
        self._addresses: dict[str, str] = {}
        self._listed: frozenset[str] = frozenset()
        self._running: frozenset[str] = frozenset()
        self.replica = replica

    def beat(self) -> None:
        """Write that this gateway is running, and read which others are."""
        known = self._store.get(self.replica)
        # Nobody else writes this record. If it has just expired, the next heartbeat writes it.
        self._store.put(self.replica, self._entry, expected=known.version if known else 0)
        self._store.expire()
        found = {
            record.key: address
            for record in self._store.list(limit=_MAX_REPLICAS)
            if (address := _read_address(record.text))
        }
        with self._lock:
            self._addresses = found
            # One that is absent for the first time may be late only because the store was away.
            self._running = self._listed.union(found)
            self._listed = frozenset(found)

    def find_address(self, replica: str) -> str | None:
        """Where a gateway is reached; None if it is gone."""
        with self._lock:
            if replica in self._addresses:
                return self._addresses[replica]
        # It may have started since the last heartbeat.
        record = self._store.get(replica)
        address = _read_address(record.text) if record else None
        if address:
            with self._lock:
                self._addresses[replica] = address
                self._running |= {replica}
                self._listed |= {replica}
        return address

    async def wait_until_gone(self, replica: str) -> None:
        """Wait until a gateway has written no heartbeat for so long that it is gone."""
        while replica in self._running:  # noqa: ASYNC110 - heartbeats are read in a thread
            await asyncio.sleep(_WATCH_SECONDS)

    def forget(self, replica: str) -> None:
        """Look for a gateway in the store again, since it was not where it should be."""
        with self._lock:
            self._addresses.pop(replica, None)

    @property
    def replicas(self) -> tuple[str, ...]:
        """The gateways that were running at the last heartbeat."""
        with self._lock:
            return tuple(sorted(self._addresses))

    def leave(self) -> None:
        """Write that this gateway has stopped."""
        self._store.delete(self.replica)

    def close(self) -> None:
        """Release the store."""
        self._store.close()


def open_registry(config: Config, *, replica: str, address: str) -> ReplicaRegistry:
    """The heartbeats in the configured store."""
    limits = StoreLimits(cap=_MAX_REPLICAS, ttl_seconds=GONE_SECONDS)
    store = open_store(config, space=SPACE, limits=limits)
    return ReplicaRegistry(store, replica=replica, address=address)


def _read_address(text: str) -> str | None:
    try:
        return _Entry.model_validate_json(text).address
    except ValidationError:
        return None
