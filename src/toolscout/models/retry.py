"""Retry transient failures of a model service with exponential backoff."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from ..disclosure.target import ModelTransport
from ..errors import ModelError
from .deltas import Delta, RetryDelta
from .model import Model, ModelRequest


@dataclass(frozen=True, slots=True)
class Backoff:
    """The number of attempts and the pauses between them.

    A pause that the service asks for is respected, up to `longest_seconds`.
    """

    attempts: int = 4
    first_seconds: float = 0.5
    factor: float = 2.0
    longest_seconds: float = 60.0
    jitter: float = 0.25

    def delay_seconds(
        self, attempt: int, *, requested_seconds: float | None, random_value: float
    ) -> float:
        """Seconds before the next attempt; `random_value` in [0, 1) scales the jitter."""
        # Jitter spreads many callers that failed at the same moment.
        backoff = self.first_seconds * self.factor ** (attempt - 1)
        jittered = backoff * (1 + self.jitter * random_value)
        delay = jittered if requested_seconds is None else requested_seconds
        return min(delay, self.longest_seconds)


class RetryingModel:
    """Any model, with retries of transient failures; each retry begins with a RetryDelta."""

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
        """The format of its tools."""
        return self._model.provider

    @property
    def transport(self) -> ModelTransport:
        """How requests travel."""
        return self._model.transport

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta]:
        """Send the request until it succeeds, fails for good, or the attempts are used up."""
        attempt = 1
        while True:
            try:
                # `aclosing`: if the caller leaves early, the inner stream closes at once and not
                # when the garbage collector finds it.
                async with aclosing(self._model.stream(request)) as stream:
                    async for delta in stream:
                        yield delta
            except ModelError as error:
                if not error.is_transient or attempt >= self._backoff.attempts:
                    raise
                pause = self._backoff.delay_seconds(
                    attempt,
                    requested_seconds=error.wait_seconds,
                    random_value=self._random.random(),
                )
                attempt += 1
                yield RetryDelta(attempt=attempt, reason=error.message, wait_seconds=pause)
                await self._sleep(pause)
            else:
                return

    async def close(self) -> None:
        """Close the connections."""
        await self._model.close()
