"""Turns: which successful calls belong to which searches."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ..events import DiscoveryResultEvent, Event, ToolCallEvent
from ..store.contract import Clock
from .observation import Observation, bound_scores, hash_principal
from .usage import SearchTrace

WINDOW_SECONDS = 600.0
"""How long after a search a call may still belong to it."""

BEST_SHOWN = 10
_MAX_TURNS = 2_048
_MAX_SEARCHES = 8
_MAX_RECENT_CALLS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSearch:
    """One query of a turn: its vector, the names in the reply, their scores and ranks."""

    vector: bytes
    embedder: str
    listed: tuple[str, ...]
    scores: dict[str, float]
    learned: tuple[str, ...]


@dataclass(slots=True)
class SearchTurn:
    """Searches, and the tools that were called for them; `began` is of a clock that never jumps."""

    id: str
    session: str
    principal: str
    client: str
    last: float
    searches: list[TurnSearch] = field(default_factory=list[TurnSearch])
    listed: set[str] = field(default_factory=set[str])
    called: dict[str, None] = field(default_factory=dict[str, None])
    is_stateless: bool = False
    began: float = 0.0

    def called_for(self, search: TurnSearch) -> tuple[str, ...]:
        """The calls that a search is credited with.

        Those that its reply listed; a search that listed none of them was asked again in other
        words, and is credited with all.
        """
        return tuple(n for n in self.called if n in search.listed) or tuple(self.called)

    def observations(self, *, model: str, time: float) -> Iterator[Observation]:
        """What the searches of one model teach, by the names of tools."""
        for number, search in enumerate(self.searches):
            if search.embedder == model:
                names = self.called_for(search)
                shown = {*search.listed[:BEST_SHOWN], *names} & search.scores.keys()
                yield Observation(
                    # The same for the same search, so that a journal can be read twice.
                    id=f"{self.id}.{number}",
                    turn=self.id,
                    time=time,
                    principal=hash_principal(self.principal),
                    vector=search.vector,
                    called={name: name for name in names},
                    shown=bound_scores({name: search.scores[name] for name in sorted(shown)}),
                )


class Turns:
    """Reads events and returns the turns that are over.

    A turn is over when its conversation searches again after a call, and after a while. Programs
    that share a session, as those of one principal without sessions do, have turns of their own. A
    call from another session is found by its principal and program.
    """

    def __init__(
        self,
        *,
        dimensions: Callable[[], int],
        find_trace: Callable[[bytes], SearchTrace | None] = lambda _: None,
        ticks: Clock = time.monotonic,
    ) -> None:
        self._dimensions = dimensions
        self._find_trace = find_trace
        self._ticks = ticks
        self._open: OrderedDict[str, SearchTurn] = OrderedDict()
        self._recent: OrderedDict[str, tuple[float, tuple[str, ...]]] = OrderedDict()

    def read(self, event: Event) -> list[SearchTurn]:
        """Take over an event; the turns that it ends."""
        match event:
            case DiscoveryResultEvent() if not event.is_error:
                return [*self.expire(event.time), *self._add_search(event)]
            case ToolCallEvent() if not event.is_error:
                expired = self.expire(event.time)
                self._add_call(event)
                return expired
            case _:
                return []

    def expire(self, now: float) -> list[SearchTurn]:
        """The turns that are over because of their age; a clock that was set back ends them too."""
        ended: list[SearchTurn] = []
        for key, turn in list(self._open.items()):
            if abs(now - turn.last) <= WINDOW_SECONDS:
                break  # the others are younger
            del self._open[key]
            if turn.called:
                ended.append(turn)
        return ended

    def finish(self) -> list[SearchTurn]:
        """End all turns."""
        ended = [turn for turn in self._open.values() if turn.called]
        self._open.clear()
        return ended

    @property
    def has_calls(self) -> bool:
        """Whether an open turn has calls to learn from."""
        return any(turn.called for turn in self._open.values())

    def recent_calls(self, session: str, principal: str, client: str, now: float) -> list[str]:
        """The tools that a conversation has called lately."""
        for key in (_turn_key(session, client), _caller(principal, client)):
            last, names = self._recent.get(key, (0.0, ()))
            if names and abs(now - last) <= WINDOW_SECONDS:
                return [*names]
        return []

    def _add_search(self, event: DiscoveryResultEvent) -> Iterator[SearchTurn]:
        key = _turn_key(event.session, event.client)
        turn = self._open.get(key)
        listed = (*event.names, *event.near)
        if not event.vector:  # a look-up by name, which belongs to the searches before it
            if turn is not None:
                turn.listed.update(listed)
            return
        for other in [t for t in self._open.values() if _is_same_caller(t, event)]:
            is_over = other.session == event.session or other.is_stateless
            if is_over and other.called:
                del self._open[_turn_key(other.session, other.client)]
                turn = None if other is turn else turn
                yield other
        if turn is None:
            turn = SearchTurn(event.id, event.session, event.principal, event.client, event.time)
            turn.began = self._ticks()
            self._open[key] = turn
        turn.last = event.time
        turn.listed.update(listed)
        turn.searches = [*turn.searches, *self._split(event, listed)][-_MAX_SEARCHES:]
        self._open.move_to_end(key)
        if len(self._open) > _MAX_TURNS:
            _, oldest = self._open.popitem(last=False)
            if oldest.called:
                yield oldest

    def _split(self, event: DiscoveryResultEvent, listed: tuple[str, ...]) -> Iterator[TurnSearch]:
        """The queries of one search, each with the part of the reply that it found."""
        size = 2 * self._dimensions()
        vectors = [event.vector[i : i + size] for i in range(0, len(event.vector), size)]
        for vector in vectors:
            trace = self._find_trace(vector)
            scores = trace.base_scores if trace is not None else _reply_scores(event)
            found = tuple(name for name in listed if name in scores)
            if found:
                yield TurnSearch(
                    vector=vector,
                    embedder=event.embedder,
                    # Of several queries, the trace tells which of them found a tool.
                    listed=listed if len(vectors) == 1 else found,
                    scores={name: scores[name] for name in found},
                    learned=trace.learned_names if trace is not None else (),
                )

    def _add_call(self, event: ToolCallEvent) -> None:
        key = _turn_key(event.session, event.client)
        turn = self._open.get(key)
        if turn is not None and turn.searches:
            self._remember(key, event)
            if event.tool in turn.listed:
                turn.called[event.tool] = None
                turn.last = event.time
                self._open.move_to_end(key)
            return
        self._remember(_caller(event.principal, event.client), event)
        for other in self._open.values():
            is_free = other.is_stateless or not other.called
            if is_free and _is_same_caller(other, event) and event.tool in other.listed:
                other.called[event.tool] = None
                other.is_stateless = True

    def _remember(self, key: str, event: ToolCallEvent) -> None:
        last, names = self._recent.pop(key, (0.0, ()))
        kept = names if abs(event.time - last) <= WINDOW_SECONDS else ()
        names = dict.fromkeys((*(n for n in kept if n != event.tool), event.tool))
        self._recent[key] = event.time, tuple(names)[-_MAX_RECENT_CALLS:]
        if len(self._recent) > _MAX_TURNS:
            self._recent.popitem(last=False)


def _reply_scores(event: DiscoveryResultEvent) -> dict[str, float]:
    return dict(zip(event.names, event.scores, strict=False))


def _is_same_caller(turn: SearchTurn, event: Event) -> bool:
    return (turn.principal, turn.client) == (event.principal, event.client)


def _turn_key(session: str, client: str) -> str:
    return f"{session}\0{client}"


def _caller(principal: str, client: str) -> str:
    # A session's key never contains NUL.
    return f"\0{principal}\0{client}"
