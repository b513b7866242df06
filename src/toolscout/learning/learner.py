"""The learner: turns events into observations, trains in the background, publishes the weights."""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from threading import Condition, Lock, Thread

import numpy as np

from ..catalog.tool import Tool
from ..embedders.arrays import Floats
from ..errors import StoreError
from ..events import Event, LearningFailureEvent, ShadowRankEvent, Sink, guard_sink, stamp
from ..store.contract import Clock, Store
from .buffer import ReplayBuffer
from .observation import Observation, hash_principal, tool_keys
from .resets import ResetWatch
from .summary import SHADOW_DEPTHS, LearningSummary, summarise
from .training import SAME_REQUEST, LearnedModel, train
from .turns import SearchTurn, Turns, TurnSearch
from .usage import UsageLift, UsageMode, UsageWeights, after_calls

_log = logging.getLogger(__name__)
# Another process may have learned something: the store is asked this often, if there are searches.
_POLL_SECONDS = 5.0
# While open turns have calls, their age is checked this often, without other traffic.
_TIMER_SECONDS = 2.0
# The worker rests this many times as long as it worked, so it takes a small share of one core.
_REST_FACTOR = 20.0
_MAX_REST_SECONDS = 10.0
# A principal that repeats a request and a call adds nothing, until this many rows came after it.
_RECENT_ROWS = 1_024
_MAX_PENDING = 1_000
# A report of the status waits no longer than this for changes that another process made.
_REFRESH_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningStatus:
    """What a learner knows and whether it works."""

    mode: UsageMode
    observations: int = 0
    tools: int = 0
    problems: tuple[str, ...] = ()


class Learner:
    """Learns which tools are called after which requests; a sink for the events of a toolbox.

    Everything slow happens in one background thread, which starts with the first call after a
    search or with state that is stored already. It also ends turns that nothing follows. If the
    store fails, the failure is reported, and searches continue with what was learned before.
    """

    def __init__(
        self,
        usage: UsageLift,
        open_store: Callable[[], Store],
        *,
        mode: UsageMode,
        has_state: Callable[[], bool] = lambda: True,
        sink: Sink | None = None,
        clock: Clock = time.time,
    ) -> None:
        usage.mode = mode
        self.mode: UsageMode = mode
        self._usage = usage
        self._open_store = open_store
        self._has_state = has_state
        self._emit = guard_sink(sink) if sink is not None else None
        self._clock = clock
        self._lock = Lock()
        self._turns = Turns(
            dimensions=lambda: usage.embedder.dimensions, find_trace=usage.find_trace
        )
        self._work = Condition()
        # With the monotonic time at which the turn began: a reset forgets open turns too.
        self._pending: list[tuple[float, Observation]] = []
        self._counts: Counter[str] = Counter()
        self._tools: Mapping[str, Tool] = {}
        self._keys: Mapping[str, str] = {}
        self._latest_tools: tuple[Tool, ...] = ()
        self._keyed_tools: tuple[Tool, ...] = ()
        self._has_new_tools = False
        self._thread: Thread | None = None
        self._is_closed = self._is_flushing = False
        self._next_poll = 0.0
        self._is_poll_due = self._has_open_calls = False
        self._store: Store | None = None
        self._buffer: ReplayBuffer | None = None
        self._model: LearnedModel | None = None
        self._rows: tuple[Observation, ...] = ()
        self._resets = ResetWatch(clock)
        self._problem = ""
        self._reported: set[str] = set()

    # What a toolbox calls

    def __call__(self, event: Event) -> None:
        """Read one event."""
        with self._lock:
            ended = self._turns.read(event)
            starts_timer = not self._has_open_calls and self._turns.has_calls
            self._has_open_calls |= starts_timer
        self._take(ended)
        if self._thread is not None and time.monotonic() >= self._next_poll:
            self._is_poll_due = True
        if starts_timer or self._is_poll_due:
            self._wake()

    def update_tools(self, tools: Iterable[Tool]) -> None:
        """Take over a changed catalog."""
        with self._work:
            self._latest_tools, self._has_new_tools = tuple(tools), True
        if self._thread is not None or self._has_state():
            self._wake()

    def search_context(
        self, session: str, principal: str, client: str
    ) -> AbstractContextManager[None]:
        """For searches of a conversation: they know which tools it has called lately."""
        with self._lock:
            recent = self._turns.recent_calls(session, principal, client, self._clock())
        return after_calls(recent)

    def refresh(self) -> None:
        """Take over what another process has changed, such as a reset; waits a moment at most."""
        try:
            is_due = self._buffer is not None and self._buffer.has_changed()
        except StoreError:  # the worker meets it too, and reports it
            return
        if is_due:
            self.flush(seconds=_REFRESH_SECONDS)

    def flush(self, *, ends_turns: bool = False, seconds: float | None = None) -> None:
        """Wait until everything observed is stored and learned; `ends_turns` ends open turns."""
        if ends_turns:
            with self._lock:
                ended = self._turns.finish()
            self._take(ended)
        if self._thread is None and not (self._pending or self._counts or self._has_state()):
            return
        with self._work:
            self._is_flushing = True
        self._wake()
        with self._work:
            self._work.wait_for(lambda: not self._is_flushing or self._is_closed, timeout=seconds)

    def erase(self, principal: str) -> int:
        """Remove the observations of one principal, and learn again without them; how many."""
        gone = hash_principal(principal)
        self.flush(ends_turns=True)
        return self._remove(lambda row: None if row.principal == gone else row)

    def reset_tool(self, name: str) -> int:
        """Forget what was learned for one tool; the number of observations with it."""
        self.flush()
        return self._remove(lambda row: row.without_tool(name))

    def _remove(self, change: Callable[[Observation], Observation | None]) -> int:
        if self._buffer is None:
            return 0
        # Its own reader: the worker may be using the other one.
        removed = self._buffer.fork().remove(change)
        self.flush()
        return removed

    def close(self) -> None:
        """Learn from the turns that are open, and stop."""
        self.flush(ends_turns=True)
        with self._work:
            self._is_closed = True
            self._work.notify_all()
        if self._thread is not None:
            self._thread.join()
        if self._store is not None:
            self._store.close()

    @property
    def status(self) -> LearningStatus:
        """What is known, and what is wrong."""
        problems = self._buffer.problems.values() if self._buffer is not None else ()
        return LearningStatus(
            mode=self.mode,
            observations=len(self._rows),
            tools=len(self._model.keys) if self._model is not None else 0,
            problems=tuple(p for p in (self._problem, *problems) if p),
        )

    def summarise(self) -> LearningSummary:
        """What was learned, also by other processes; it waits until that is learned here too."""
        self.flush()
        buffer, model = self._buffer, self._model
        counts = buffer.fork().counts() if buffer is not None else dict[str, int]()
        return summarise(self._rows, model or LearnedModel(), counts, problems=self.status.problems)

    # Observations

    def _take(self, ended: Iterable[SearchTurn]) -> None:
        rows: list[tuple[float, Observation]] = []
        for turn in ended:
            # By name, until the worker knows the keys of the present tools.
            found = turn.observations(model=self._usage.embedder.id, time=self._clock())
            rows += [(turn.began, row) for row in found]
            for search in turn.searches if self.mode == "shadow" else ():
                self._compare_ranks(search, turn.called_for(search))
        if rows:
            with self._work:
                # While a store fails, the newest are kept.
                self._pending = [*self._pending, *rows][-_MAX_PENDING:]
            self._wake()

    def _compare_ranks(self, search: TurnSearch, names: Iterable[str]) -> None:
        base = sorted(search.scores, key=lambda name: (-search.scores[name], name))
        for name in names:
            if name not in base:
                continue
            ranks = {"base": base.index(name) + 1}
            ranks["learned"] = 1 + (
                search.learned.index(name) if name in search.learned else len(search.learned)
            )
            with self._work:
                self._counts["shadow_calls"] += 1
                for order, rank in ranks.items():
                    self._counts.update(f"{order}@{d}" for d in SHADOW_DEPTHS if rank <= d)
            if self._emit is not None:
                event = ShadowRankEvent(tool=name, base=ranks["base"], learned=ranks["learned"])
                self._emit(stamp(event, clock=self._clock))

    # The worker

    def _wake(self) -> None:
        with self._work:
            if self._thread is None and not self._is_closed:
                self._thread = Thread(target=self._run, name="toolscout-learning", daemon=True)
                self._thread.start()
            self._work.notify_all()

    def _run(self) -> None:
        while not self._is_closed:
            if not self._wait_for_work():
                continue
            started = time.monotonic()
            is_flushing = self._is_flushing
            try:
                self._learn()
                self._problem = ""
            except StoreError as error:
                self._report(str(error))
            except Exception as error:  # noqa: BLE001 - a mistake here must not end learning for good
                _log.exception("Learning from use failed.")
                self._report(repr(error))
            with self._work:
                self._is_flushing = self._is_flushing and not is_flushing
                self._work.notify_all()
                rest = min(_REST_FACTOR * (time.monotonic() - started), _MAX_REST_SECONDS)
                self._work.wait_for(self._is_urgent, timeout=rest)

    def _wait_for_work(self) -> bool:
        """End old turns, then wait; False if it is time to look for old turns again."""
        with self._lock:
            ended = self._turns.expire(self._clock())
            has_open_calls = self._has_open_calls = self._turns.has_calls
        self._take(ended)
        with self._work:
            self._work.wait_for(
                lambda: self._has_work() or self._has_open_calls != has_open_calls,
                timeout=_TIMER_SECONDS if has_open_calls else None,
            )
            return self._has_work()

    def _is_urgent(self) -> bool:
        return self._is_closed or self._is_flushing

    def _has_work(self) -> bool:
        is_due = bool(self._pending or self._counts) or self._has_new_tools
        return is_due or self._is_urgent() or self._is_poll_due

    def _learn(self) -> None:
        buffer = self._get_buffer()
        self._next_poll, self._is_poll_due = time.monotonic() + _POLL_SECONDS, False
        is_changed = self._model is None
        has_changed = buffer.has_changed()
        if buffer.bound_times(self._clock()) or has_changed:
            self._rows, is_changed = buffer.read(), True
        self._resets.observe(*buffer.last_reset())
        has_new_tools = self._take_tools()
        if self._save(buffer):
            self._rows, is_changed = buffer.read(), True
        if self._model is None or is_changed:
            self._model = train(self._rows)
        if is_changed or has_new_tools:
            self._publish(self._model)
        for problem in buffer.problems.values():
            self._report_once(problem)

    def _get_buffer(self) -> ReplayBuffer:
        if self._buffer is None:
            self._store = self._store or self._open_store()
            embedder = self._usage.embedder
            self._buffer = ReplayBuffer(
                self._store, model=embedder.id, dimensions=embedder.dimensions
            )
        return self._buffer

    def _take_tools(self) -> bool:
        """Compute the keys of the present tools, once there is something to learn; if so."""
        with self._work:
            tools, self._has_new_tools = self._latest_tools, False
        if tools is self._keyed_tools or not (self._rows or self._pending):
            return False
        self._keyed_tools = tools
        self._keys = tool_keys(tools)
        self._tools = {self._keys[tool.name]: tool for tool in tools}
        return True

    def _save(self, buffer: ReplayBuffer) -> bool:
        """Store what was observed; if that fails, it is tried again with the next observation."""
        with self._work:
            pending, counts = self._pending, self._counts
            self._pending, self._counts = [], Counter()
        resolved = [o.resolve(self._keys) for began, o in pending if began > self._resets.ticks]
        rows = [row for row in resolved if row is not None]
        known = defaultdict[tuple[str, str], list[Floats]](list)
        for row in self._rows[-_RECENT_ROWS:]:
            _add_request(known, row)
        new = [row for row in rows if _add_request(known, row)]
        try:
            if new or counts:
                buffer.append(new, counts=counts)
        except StoreError:
            with self._work:
                self._pending = [*pending, *self._pending][-_MAX_PENDING:]
                self._counts += counts
            raise
        return bool(new or counts)

    def _publish(self, model: LearnedModel) -> None:
        places = [place for place, key in enumerate(model.keys) if key in self._tools]
        names = {key: tool.name for key, tool in self._tools.items()}
        following = {
            names[first]: {names[key]: lift for key, lift in others.items() if key in names}
            for first, others in model.following.items()
            if first in names
        }
        tools = [self._tools[model.keys[place]] for place in places]
        weights = UsageWeights.of(tools, model.rows[places], model.typical[places], following)
        self._usage.weights = weights if tools else None

    def _report(self, problem: str) -> None:
        self._problem = problem
        self._report_once(problem)

    def _report_once(self, problem: str) -> None:
        if problem in self._reported:
            return
        self._reported.add(problem)
        _log.warning("Learning from use: %s", problem)
        if self._emit is not None:
            self._emit(stamp(LearningFailureEvent(why=problem), clock=self._clock))


def _add_request(known: dict[tuple[str, str], list[Floats]], row: Observation) -> bool:
    """Remember a request; False if its principal has made such a request with the same calls."""
    vector = row.unit_vector
    is_new = False
    for key in row.called:
        before = known[row.principal, key]
        is_new |= not before or float((np.stack(before) @ vector).max()) < SAME_REQUEST
        before.append(vector)
    return is_new
