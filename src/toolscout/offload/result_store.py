"""Result store: keeps large results outside the context and serves them in parts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ..catalog.result import Result
from ..catalog.tool import Tool
from ..disclosure.feature import CallerSession, Feature
from ..events import LargeOutputFailureEvent, Sink, current_parent, ignore, stamp
from ..tokens import TokenCounter, default_counter
from .folder import ResultFolder
from .limits import MAX_BYTES_PER_CHARACTER, OffloadLimits, may_be_large
from .offloader import Offloader, OffloadJob
from .output_tools import (
    OUTPUT_TOOLS,
    OutputArgumentsError,
    output_tool_definitions,
    parse_operation,
)
from .result_files import ResultFiles
from .result_reader import ResultReader


class ResultStore(Feature):
    """Stores large results in a folder or a database; without one it only enforces the cap.

    Nothing here raises into a call: a result that cannot be stored stays unchanged or, above the
    cap, is cut to its beginning and end with a note.
    """

    # The name of this class in version 0.1, which /health reports and monitoring may look for.
    health_key = "shelf"

    def __init__(
        self,
        folder: Path | str | ResultFiles | None,
        *,
        limits: OffloadLimits | None = None,
        counter: TokenCounter | None = None,
        show_aliases: bool = False,
        clock: Callable[[], float] = time.time,
        sink: Sink = ignore,
    ) -> None:
        self._limits = limits or OffloadLimits()
        self._counter = counter or default_counter()
        self.show_aliases = show_aliases
        self._clock = clock
        self._sink = sink
        files = (
            ResultFolder(Path(folder), self._limits) if isinstance(folder, str | Path) else folder
        )
        self._files = files
        self._reader = None if files is None else ResultReader(files, self._limits, self._counter)
        self._offloader = Offloader(
            self._files, limits=self._limits, counter=self._counter, clock=clock
        )
        self._last_sweep = clock()
        self._failure = ""

    @property
    def is_enabled(self) -> bool:
        """Whether results are stored."""
        return self._files is not None

    def tools(self) -> tuple[Tool, ...]:
        """The tools that read stored results, as a model sees them; none if it is disabled."""
        return output_tool_definitions(with_aliases=self.show_aliases) if self.is_enabled else ()

    def alias_tools(self) -> tuple[Tool, ...]:
        """The tools under their older names, for conversations that still use them."""
        visible = {tool.name for tool in self.tools()}
        return tuple(
            t
            for t in output_tool_definitions(with_aliases=True)
            if visible and t.name not in visible
        )

    async def call(
        self, session: CallerSession, tool: Tool, arguments: Mapping[str, Any]
    ) -> Result:
        """Run one of the tools; failures become error results."""
        if self._reader is None:
            return Result.error("No results are saved here.")
        try:
            request = parse_operation(tool.name, arguments)
        except OutputArgumentsError as error:
            return Result.error(str(error))
        return await self._reader.answer(session.id, request)

    async def keep(
        self, session: CallerSession, tool: Tool, result: Result, *, age_turns: int = 0
    ) -> Result:
        """Store a result that is too large for the context and return a notice, else return it."""
        limits = self._limits
        threshold = limits.threshold(tool.name, age_turns=age_turns) if self.is_enabled else None
        return await self._offload(result, OffloadJob(session.id, tool.name, threshold))

    async def keep_turn(
        self, session: CallerSession, results: Sequence[tuple[Tool, Result]]
    ) -> tuple[Result, ...]:
        """Do the same for all results of one turn, and store more until their total fits."""
        fitting = [await self.keep(session, tool, result) for tool, result in results]
        # Counting is slow: skip it if the upper bound fits (see MAX_BYTES_PER_CHARACTER).
        if (
            not self.is_enabled
            or sum(MAX_BYTES_PER_CHARACTER * len(result.text) for result in fitting)
            <= self._limits.turn_tokens
        ):
            return tuple(fitting)
        costs = [self._counter.count(result.text) for result in fitting]
        for index in sorted(range(len(fitting)), key=lambda i: -costs[i]):
            if sum(costs) <= self._limits.turn_tokens:
                break
            # A number of characters serves as a threshold in tokens: a notice shows so many
            # characters, so storing a result of fewer tokens would hardly save anything.
            threshold = self._limits.preview_characters
            job = OffloadJob(session.id, results[index][0].name, threshold)
            fitting[index] = await self._offload(fitting[index], job)
            costs[index] = self._counter.count(fitting[index].text)
        return tuple(fitting)

    def health(self) -> tuple[Literal["ok", "degraded"], dict[str, Any]]:
        """Its status: degraded from a failed write until one succeeds."""
        facts = {"is_enabled": self.is_enabled, "failure": self._failure}
        return "degraded" if self._failure else "ok", facts

    async def close(self) -> None:
        """Release the place of the results."""
        if self._files:
            await asyncio.to_thread(self._files.close)

    async def forget(self, session_id: str) -> int:
        """Delete the stored results of a session; return how many."""
        return await asyncio.to_thread(self._files.forget, session_id) if self._files else 0

    async def sweep(self) -> int:
        """Delete results that are too old or exceed the size limit; return how many."""
        self._last_sweep = self._clock()
        return await asyncio.to_thread(self._files.sweep, self._last_sweep) if self._files else 0

    async def _offload(self, result: Result, job: OffloadJob) -> Result:
        threshold = self._limits.cap_tokens if job.threshold is None else job.threshold
        # An answer of the reading tools has its own limit; storing it would never end.
        if job.tool in OUTPUT_TOOLS or not may_be_large(result, threshold):
            return result
        try:
            fitting = await asyncio.to_thread(self._offloader.offload, result, job)
        except Exception as error:  # noqa: BLE001 - a failure here must not lose the result
            reason = f"{type(error).__name__}: {error}"
            job.record_event(LargeOutputFailureEvent(tool=job.tool, error=reason))
            fitting = result
        for event in job.events:
            # The last event wins: a write that succeeds after a failure clears it.
            self._failure = event.error if isinstance(event, LargeOutputFailureEvent) else ""
            parent = current_parent()
            self._sink(stamp(event, session=job.session, parent=parent, clock=self._clock))
        # Here, since a library has no background task of its own, and only a large result adds
        # to the folder. Results that are small never reach this line.
        if self._files and self._clock() - self._last_sweep >= self._limits.sweep_seconds:
            await self.sweep()
        return fitting
