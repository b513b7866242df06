"""The shelf: large results go onto it, and come back in parts when asked for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ..catalog.result import Result
from ..catalog.tool import Tool
from ..events import Sink, ignore
from ..tokens import TokenCounter, default_counter
from .folder import ResultFolder
from .limits import OffloadLimits
from .offloader import Offloader, OffloadJob, may_be_large
from .output_tools import OUTPUT_TOOLS, BadArguments, output_tool_definitions, parse_operation
from .result_reader import ResultReader


class ResultStore:
    """Keeps large results out of the context; without a folder it only holds to the cap.

    Nothing here raises into a call: a result that cannot be kept stays as it is or, beyond the
    cap, leaves its two ends and a note.
    """

    def __init__(
        self,
        folder: Path | str | None,
        *,
        limits: OffloadLimits | None = None,
        counter: TokenCounter | None = None,
        show_aliases: bool = False,
        clock: Callable[[], float] = time.time,
        sink: Sink = ignore,
    ) -> None:
        self._limits = limits or OffloadLimits()
        self._counter = counter or default_counter()
        self._show_aliases = show_aliases
        self._clock = clock
        self._sink = sink
        self._folder = None if folder is None else ResultFolder(Path(folder), self._limits)
        self._answers = self._folder and ResultReader(self._folder, self._limits, self._counter)
        self._keeper = Offloader(
            self._folder, limits=self._limits, counter=self._counter, clock=clock
        )
        self._swept = clock()
        self._failure = ""

    @property
    def is_enabled(self) -> bool:
        """Whether results are kept at all."""
        return self._folder is not None

    def tools(self) -> tuple[Tool, ...]:
        """The tools that read results back, as a model sees them; none while nothing is kept."""
        return output_tool_definitions(with_aliases=self._show_aliases) if self.is_enabled else ()

    def alias_tools(self) -> tuple[Tool, ...]:
        """The older names that are answered although no model is told of them."""
        shown = {tool.name for tool in self.tools()}
        return tuple(
            t for t in output_tool_definitions(with_aliases=True) if shown and t.name not in shown
        )

    async def call(self, session: str, tool: Tool, arguments: Mapping[str, Any]) -> Result:
        """Answer a call of one of the tools; what goes wrong is told in the result."""
        if self._answers is None:
            return Result.error("No results are kept aside here.")
        try:
            request = parse_operation(tool.name, arguments)
        except BadArguments as error:
            return Result.error(str(error))
        return await self._answers.answer(session, request)

    async def keep(self, session: str, tool: Tool, result: Result, *, age_turns: int = 0) -> Result:
        """Put a result aside if it is too large for the context; else give it back as it is."""
        limits = self._limits
        threshold = limits.threshold(tool.name, age_turns=age_turns) if self.is_enabled else None
        return await self._offload(result, OffloadJob(session, tool.name, threshold))

    async def keep_turn(
        self, session: str, results: Sequence[tuple[Tool, Result]]
    ) -> tuple[Result, ...]:
        """The same for all results of one turn, so that together they fit as well."""
        kept = [await self.keep(session, tool, result) for tool, result in results]
        # No text has more tokens than bytes, so what is small need not be counted.
        if (
            not self.is_enabled
            or sum(4 * len(result.text) for result in kept) <= self._limits.turn_tokens
        ):
            return tuple(kept)
        costs = [self._counter.count(result.text) for result in kept]
        for index in sorted(range(len(kept)), key=lambda i: -costs[i]):
            if sum(costs) <= self._limits.turn_tokens:
                break
            case = OffloadJob(session, results[index][0].name, self._limits.preview_characters)
            kept[index] = await self._offload(kept[index], case)
            costs[index] = self._counter.count(kept[index].text)
        return tuple(kept)

    def health(self) -> tuple[Literal["ok", "degraded"], dict[str, Any]]:
        """How keeping is: degraded from a write that failed until one succeeds."""
        facts = {"is_enabled": self.is_enabled, "failure": self._failure}
        return "degraded" if self._failure else "ok", facts

    async def forget(self, session: str) -> int:
        """Remove all that a session has kept; say how many results that were."""
        return await asyncio.to_thread(self._folder.forget, session) if self._folder else 0

    async def sweep(self) -> int:
        """Remove what is too old or too much; say how many results that were."""
        self._swept = self._clock()
        return await asyncio.to_thread(self._folder.sweep, self._swept) if self._folder else 0

    async def _offload(self, result: Result, case: OffloadJob) -> Result:
        least = self._limits.cap_tokens if case.threshold is None else case.threshold
        if case.tool in OUTPUT_TOOLS or not may_be_large(result, least):
            return result
        try:
            kept = await asyncio.to_thread(self._keeper.offload, result, case)
        except Exception as error:  # noqa: BLE001 - whatever fails here, the call's outcome stays
            case.record_event("large_output_failed", error=f"{type(error).__name__}: {error}")
            kept = result
        for event in case.events:
            self._failure = str(event.facts.get("error", ""))
            self._sink(event)
        if self._folder and self._clock() - self._swept >= self._limits.sweep_seconds:
            await self.sweep()
        return kept
