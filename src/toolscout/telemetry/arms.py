"""How long each arm of the search takes, told by wrapping the arms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter

from ..events import Event, Sink
from ..search.ranking import Ranker, Ranking, Request


class Timed:
    """An arm that ranks as before and tells how long it took, as `search_arm` events."""

    def __init__(
        self, ranker: Ranker, sink: Sink, *, clock: Callable[[], float] = perf_counter
    ) -> None:
        self._ranker = ranker
        self._sink = sink
        self._clock = clock
        self._name = type(ranker).__name__.lower()

    def rank(self, request: Request) -> Ranking | None:
        """The arm's own ranking."""
        started = self._clock()
        try:
            return self._ranker.rank(request)
        finally:
            took = round((self._clock() - started) * 1000, 3)
            self._sink(Event("search_arm", facts={"arm": self._name, "took_ms": took}))


def timed(rankers: Iterable[Ranker], sink: Sink) -> tuple[Timed, ...]:
    """The same arms, timed: `Engine(rankers=timed([Exact(), BM25F(), Dense(e)], sink))`."""
    return tuple(Timed(ranker, sink) for ranker in rankers)
