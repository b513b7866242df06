"""Memory feature: extracts entities from results, and reports when extraction fails."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from ..catalog.problem import Problem
from ..catalog.result import Result
from ..catalog.sanitization import clean
from ..catalog.tool import Tool
from ..catalog.validation import Expectations, validate
from ..disclosure.feature import Feature, HealthStatus
from .entities import WINDOW, Entity, format_timestamp, merge_entities
from .extraction import ExtractionError, ExtractionResult, Extractor, extract, extract_or_raise
from .state import InvalidMemoryStateError, MemoryState, parse_state, record_use, render_state

_log = logging.getLogger(__name__)
_SUMMARY_CAP = 4_000
# So many results without one success are a warning before the end of the turn.
_SILENT_AFTER = 5


@dataclass(frozen=True, slots=True)
class Probe:
    """A sample result of a tool, and the entity that must be found in it."""

    tool: str
    result: Any
    type: str
    id: str


class Memory(Feature):
    """The memory of conversations, whose state is passed in and returned as text.

    `extractors` are functions for tools whose results no schema describes; `ignored` are names
    whose use is not counted, such as discovery tools; `health` runs the `probes`.
    Nothing here raises into a call: failures are counted, and logged once per tool.
    """

    health_key = "memory"

    def __init__(
        self,
        *,
        extractors: Mapping[str, Extractor] | None = None,
        ignored: Collection[str] = ("tool_search",),
        probes: Sequence[Probe] = (),
        window: int = WINDOW,
    ) -> None:
        self._extractors = dict(extractors or {})
        self._ignored = frozenset(ignored)
        self._probes = tuple(probes)
        self._window = window
        self._tools: dict[str, Tool] = {}
        self._lock = Lock()
        self._results = self._processed = 0
        self._failing: dict[str, str] = {}
        self._warned: set[str] = set()

    # Called by the toolbox for results and turns

    def observe(self, section: str | None, tool: Tool | str, result: Result, *, now: float) -> str:
        """The memory after one more result; a bare name is a tool no longer in the catalog."""
        state = self._read_state(section)
        name = tool if isinstance(tool, str) else tool.name
        extracted = self._extract(tool, result)
        self._count_result(name, extracted)
        timestamp = format_timestamp(now)
        entities = (replace(e, timestamp=e.timestamp or timestamp) for e in extracted.entities)
        outcome = "error" if result.is_error else "success"
        used = state.used
        if name not in self._ignored:
            used = record_use(used, name, timestamp=timestamp, outcome=outcome)
        return replace(
            state,
            entities=merge_entities(state.entities, entities, window=self._window),
            used=used,
            results=state.results + 1,
            processed=state.processed + (not extracted.problem),
        ).to_json()

    def finish(self, section: str | None) -> str | None:
        """The memory at the end of a turn; logs a warning if no result was processed."""
        if section is None:
            return None
        state = self._read_state(section)
        _log.debug("Processed %d of %d tool results.", state.processed, state.results)
        if state.results and not state.processed:
            self._warn_of_silence(state.results)
        return replace(state, results=0, processed=0).to_json()

    def summarise(self, section: str | None, summary: str) -> str:
        """The memory with a summary of the conversation so far."""
        return replace(
            self._read_state(section), summary=clean(summary, cap=_SUMMARY_CAP)
        ).to_json()

    # Queries

    def render(self, section: str | None, *, discovered: Sequence[str] = ()) -> str:
        """The memory as a section of the prompt; `discovered` are the session's loaded tools."""
        return render_state(self._read_state(section), discovered)

    def state(self, section: str | None) -> MemoryState:
        """The memory as a value; empty for a new session."""
        return self._read_state(section)

    def update_tools(self, tools: Iterable[Tool]) -> tuple[Problem, ...]:
        """Take over the tools; report extractions and extractors that do not match them."""
        self._tools = {tool.name: tool for tool in tools}
        affected = [t for t in self._tools.values() if t.extraction or t.name in self._extractors]
        report = validate(affected, Expectations(extractors=[*self._extractors]))
        return tuple(p for p in report.errors if p.code.startswith("extract"))

    def health(self) -> tuple[HealthStatus, dict[str, Any]]:
        """The status of extraction, by the probes and by the calls so far."""
        with self._lock:
            failing = dict(self._failing)
            results, processed = self._results, self._processed
        is_silent = results > 0 and processed == 0
        status: HealthStatus = "degraded" if failing or is_silent else "ok"
        probed: dict[str, str] = {}
        for probe in self._probes:
            verdict, message = self._run_probe(probe)
            probed[probe.tool] = message
            # The worst status counts: an error is never replaced by a milder one.
            status = verdict if verdict == "error" or status == "ok" else status
        return status, {
            "tools_with_extraction": sum(t.extraction is not None for t in self._tools.values()),
            "custom_extractors": len(self._extractors),
            "results": results,
            "processed": processed,
            "failing": failing,
            "is_silent": is_silent,
            "probes": probed,
        }

    # Internals

    def _read_state(self, section: str | None) -> MemoryState:
        try:
            return parse_state(section)
        except InvalidMemoryStateError as error:
            # Raising would fail every call of the conversation for data that is only a help.
            self._warn_once("", f"a stored memory cannot be read and starts empty: {error}")
            return MemoryState()

    def _extract(self, tool: Tool | str, result: Result) -> ExtractionResult:
        if isinstance(tool, str):
            return ExtractionResult(problem="no tool of this name is known")
        if result.is_error:
            return ExtractionResult()
        return extract(tool, result, self._extractors.get(tool.name))

    def _count_result(self, name: str, extracted: ExtractionResult) -> None:
        with self._lock:
            self._results += 1
            self._processed += not extracted.problem
            if extracted.problem:
                self._failing[name] = extracted.problem
            else:
                self._failing.pop(name, None)
            is_silent = self._results == _SILENT_AFTER and not self._processed
        if extracted.problem:
            self._warn_once(name, extracted.problem)
        if is_silent:
            self._warn_of_silence(_SILENT_AFTER)

    def _warn_of_silence(self, results: int) -> None:
        failing = "; ".join(f"{name}: {why}" for name, why in self._failing.items())
        _log.warning(
            "%d tool results arrived and none was processed: entity extraction may be broken (%s).",
            results,
            failing or "no tool is known to fail",
        )

    def _warn_once(self, name: str, problem: str) -> None:
        with self._lock:
            is_new = name not in self._warned
            self._warned.add(name)
        if is_new:
            _log.warning("No entities from %s: %s.", name or "a session", problem)

    def _run_probe(self, probe: Probe) -> tuple[HealthStatus, str]:
        tool = self._tools.get(probe.tool)
        if tool is None:
            return "degraded", "no such tool is known"
        try:
            entities = extract_or_raise(
                tool, Result.of(probe.result), self._extractors.get(probe.tool)
            )
        except ExtractionError as error:
            return "degraded", str(error)
        except Exception as error:  # noqa: BLE001 - the report is about exactly such failures
            return "error", f"{type(error).__name__}: {error}"
        is_found = [e.key for e in entities] == [(probe.type, probe.id)]
        return ("ok", "ok") if is_found else ("degraded", f"found {_describe_entities(entities)}")


def _describe_entities(entities: Sequence[Entity]) -> str:
    return ", ".join(f"{e.type} {e.id}" for e in entities) or "nothing"
