"""The calls that wait for a server: how many, for how long, and how many a minute it gets."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus

from ...catalog.result import Result
from ...errors import SourceError
from ...store.rate_limits import RateLimit
from .call_slot import CallSlot
from .servers import Server

# How soon to try again when a server is busy: nothing says how long its calls take.
_BUSY_SECONDS = 1.0
PATIENCE_SECONDS = 1.0
"""After so long a call continues to wait only if its turn will come in time."""


@dataclass(frozen=True, slots=True)
class ServerRefusal:
    """Why a server did not get a call, as an HTTP status, and how soon to try again."""

    status: int
    message: str
    retry_seconds: int


class ServerBusyError(SourceError):
    """A call that is over a limit of its server; it has not run."""

    code = "over_limit"

    def __init__(self, message: str, *, status: HTTPStatus, wait_seconds: float) -> None:
        seconds = max(1, math.ceil(wait_seconds))
        unit = "second" if seconds == 1 else "seconds"
        super().__init__(message, hint=f"The call has not run. Try again in {seconds} {unit}.")
        self.refusal = ServerRefusal(int(status), str(self), seconds)

    def to_result(self) -> Result:
        """The result of the call, with the refusal for a gateway that can answer with a status."""
        return replace(Result.error(str(self), code=self.code), raw=self.refusal)


@dataclass(frozen=True, slots=True)
class _Place:
    """A place in the queue: how many were ahead, and what the queue had counted then."""

    ahead: int
    left: int
    served: int


class ServerCallQueue:
    """Refuses calls that would wait too long; `running` says how many have a slot."""

    def __init__(self, server: Server, *, rate: RateLimit, running: Callable[[], int]) -> None:
        self._server = server
        self._rate = rate
        self._running = running
        self._waiting = 0
        self._served = 0
        self._left = 0

    def count_call(self) -> None:
        """Count a call; raises if the server has had all the calls of this minute."""
        name, per_minute = self._server.name, self._server.limits.calls_per_minute
        if wait_seconds := self._rate.take(f"server {name}", per_minute=per_minute):
            raise ServerBusyError(
                f"Server {name!r} gets at most {per_minute:g} calls a minute.",
                status=HTTPStatus.TOO_MANY_REQUESTS,
                wait_seconds=wait_seconds,
            )

    async def wait_for(self, slot: CallSlot, lock: asyncio.Semaphore | asyncio.Lock) -> None:
        """Wait for a slot; raises if too many calls wait, or this one would wait for too long."""
        limits = self._server.limits
        if lock.locked() and self._waiting >= limits.queue:
            raise self._busy_error(f"and {self._waiting} more are waiting")
        place = _Place(ahead=self._waiting, left=self._left, served=self._served)
        self._waiting += 1
        try:
            await self._take(slot, place)
            self._served += 1
        except TimeoutError as error:
            detail = f"and this one would wait for more than {limits.queue_seconds:g} seconds"
            raise self._busy_error(detail) from error
        finally:
            self._waiting -= 1
            self._left += 1

    async def _take(self, slot: CallSlot, place: _Place) -> None:
        """Take a slot, or give up as soon as it is clear that none comes in time."""
        limit, loop = self._server.limits.queue_seconds, asyncio.get_running_loop()
        async with asyncio.timeout(limit) as timeout:

            def give_up_if_slow() -> None:
                in_time = self._is_in_time(place, limit - PATIENCE_SECONDS)
                if not (in_time or timeout.expired()):
                    timeout.reschedule(loop.time())

            check = loop.call_later(PATIENCE_SECONDS, give_up_if_slow)
            try:
                await slot.take()
            finally:
                check.cancel()

    def _is_in_time(self, place: _Place, seconds: float) -> bool:
        """Whether a call gets its slot in time, at the pace since it began to wait."""
        per_second = (self._served - place.served) / PATIENCE_SECONDS
        ahead = place.ahead - (self._left - place.left)
        return ahead + 1 <= per_second * seconds

    def _busy_error(self, detail: str) -> ServerBusyError:
        # A call that ends at this very moment has kept this one waiting too.
        count = max(1, self._running())
        calls = "1 other call" if count == 1 else f"{count} other calls"
        return ServerBusyError(
            f"Server {self._server.name!r} is busy with {calls}, {detail}.",
            status=HTTPStatus.SERVICE_UNAVAILABLE,
            wait_seconds=_BUSY_SECONDS,
        )
