"""Asking again, with growing pauses, when a service says that it may help."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from ..disclosure.target import Transport
from ..errors import ModelError
from .deltas import Delta, Restart
from .model import Model, ModelRequest


@dataclass(frozen=True, slots=True)
class Backoff:
    """How often and how long to wait; a pause the service asks for is kept up to the longest."""

    attempts: int = 4
    first_seconds: float = 0.5
    factor: float = 2.0
    longest_seconds: float = 60.0
    jitter: float = 0.25

    def delay_seconds(self, attempt: int, *, asked: float | None, chance: float) -> float:
        """Seconds before the next try; `chance` in [0, 1) spreads many callers apart."""
        grown = self.first_seconds * self.factor ** (attempt - 1)
        wanted = grown * (1 + self.jitter * chance) if asked is None else asked
        return min(wanted, self.longest_seconds)


class RetryingModel:
    """Any model, asked again after transient failures; each new try begins with a Restart."""

    def __init__(
        self,
        model: Model,
        *,
        backoff: Backoff | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._model = model
        self._backoff = backoff or Backoff()
        self._sleep = sleep
        self._random = random.Random()  # noqa: S311 - spreads retries, guards nothing

    @property
    def name(self) -> str:
        """The model's name at its service."""
        return self._model.name

    @property
    def provider(self) -> str:
        """The dialect of its tools."""
        return self._model.provider

    @property
    def transport(self) -> Transport:
        """How requests travel."""
        return self._model.transport

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta]:
        """Ask until it works, the failure is final, or the tries are used up."""
        attempt = 1
        while True:
            try:
                async with aclosing(self._model.stream(request)) as stream:
                    async for delta in stream:
                        yield delta
            except ModelError as error:
                if not error.is_transient or attempt >= self._backoff.attempts:
                    raise
                pause = self._backoff.delay_seconds(
                    attempt, asked=error.wait_seconds, chance=self._random.random()
                )
                attempt += 1
                yield Restart(attempt=attempt, reason=error.message, wait_seconds=pause)
                await self._sleep(pause)
            else:
                return

    async def close(self) -> None:
        """Let go of connections."""
        await self._model.close()
