"""Noticing that a memory works but never takes anything in."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from ..events import Event, Sink

_RUNS = 4096


class Silence:
    """A sink before another one: it passes everything on and adds what it noticed.

    At the end of a run, `memory_stats` tells how many results the memory took in, and
    `memory_silent` warns when there were some and it took in none.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._lock = Lock()
        self._counts: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def __call__(self, event: Event) -> None:
        """Pass an event on, and say more at the end of a run."""
        self._sink(event)
        match event.kind:
            case "tool_call":
                self._count(event.session, results=1)
            case "feature_failed" if event.facts.get("feature") == "memory":
                self._count(event.session, failures=1)
            case "run_end":
                self._tell(event.session)
            case _:
                pass

    def _count(self, session: str, *, results: int = 0, failures: int = 0) -> None:
        with self._lock:
            before = self._counts.get(session, (0, 0))
            self._counts[session] = (before[0] + results, before[1] + failures)
            while len(self._counts) > _RUNS:
                self._counts.popitem(last=False)

    def _tell(self, session: str) -> None:
        with self._lock:
            results, failures = self._counts.pop(session, (0, 0))
        facts = {"results": results, "processed": results - failures}
        if results:
            self._sink(Event("memory_stats", session, facts))
        if results and results == failures:
            self._sink(Event("memory_silent", session, facts))
