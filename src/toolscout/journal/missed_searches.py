"""Searches that missed, similar ones together: unsure ones, and those without a call afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ..disclosure.doubt import MIN_LIKELY
from ..embedders.arrays import Floats
from ..learning.turns import WINDOW_SECONDS
from ..search.analyzer import terms
from ..store.log_contract import LogFilter, LogRow, LogStore
from .reading import row_data

MAX_ROWS = 50_000
"""How many of the newest rows are read."""

MissReason = Literal["low confidence", "no call"]

_MAX_CLUSTERED = 2_000
# So long after a search its call may still come.
_GRACE_SECONDS = 60.0
# Requests for the same thing in other words have a cosine of 0.5 to 0.8 with the bundled embedder,
# and requests for other things nearly always less than 0.4.
_MIN_COSINE = 0.5
_MIN_SHARED_WORDS = 0.5
_MAX_TOOLS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """One search that missed; `names` are the tools in its reply, and `texts` its queries."""

    row: LogRow
    reason: MissReason
    confidence: float
    names: tuple[str, ...]
    texts: tuple[str, ...]
    query_chars: int
    queries: int
    embedder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MissCluster:
    """Searches that asked for about the same, the newest first."""

    misses: tuple[Miss, ...]

    @property
    def newest(self) -> LogRow:
        """The row of the newest search."""
        return self.misses[0].row

    @property
    def confidence(self) -> float:
        """The mean confidence."""
        return sum(miss.confidence for miss in self.misses) / len(self.misses)

    @property
    def sessions(self) -> int:
        """How many conversations asked."""
        return len({miss.row.session or miss.row.principal for miss in self.misses})

    @property
    def reasons(self) -> Mapping[str, int]:
        """How many searches missed for each reason."""
        return Counter[str](miss.reason for miss in self.misses)

    @property
    def texts(self) -> tuple[str, ...]:
        """The queries, the most frequent first; none where texts are not shown."""
        counts = Counter(text for miss in self.misses for text in miss.texts)
        return tuple(text for text, _ in counts.most_common())

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that these searches found most often."""
        counts = Counter(name for miss in self.misses for name in miss.names)
        return tuple(name for name, _ in counts.most_common(_MAX_TOOLS))


def read_misses(
    log: LogStore,
    *,
    now: float,
    shows_texts: bool,
    since: float | None = None,
    limit: int = MAX_ROWS,
) -> list[MissCluster]:
    """The misses among the newest rows of a journal, the largest cluster first."""
    rows = log.read(LogFilter(since=since), limit=limit)
    return cluster_misses(find_misses(rows, now=now, shows_texts=shows_texts))


# Find


@dataclass(slots=True)
class _Turn:
    """The searches of a conversation until it calls something and searches again."""

    searches: list[LogRow] = field(default_factory=list[LogRow])
    has_call: bool = False
    last: float = 0.0


def find_misses(rows: Iterable[LogRow], *, now: float, shows_texts: bool) -> list[Miss]:
    """The searches that missed, the newest first."""
    turns: dict[str, _Turn] = {}
    found: list[Miss] = []
    for row in sorted(rows, key=lambda row: row.sequence):
        if row.kind not in ("search", "call", "refusal"):
            continue
        key = row.session or f"{row.principal}\0{row.client}"
        turn = turns.get(key)
        is_search = row.kind == "search"
        is_over = turn is not None and row.time - turn.last > WINDOW_SECONDS
        if turn is None or is_over or (is_search and turn.has_call):
            found += _read_turn(turn, now=now, shows_texts=shows_texts)
            turn = turns[key] = _Turn()
        turn.last = row.time
        # A call that was refused is one too: its tool was found.
        turn.has_call |= not is_search
        if is_search and row.outcome == "ok":
            turn.searches.append(row)
    for turn in turns.values():
        found += _read_turn(turn, now=now, shows_texts=shows_texts)
    return sorted(found, key=lambda miss: -miss.row.sequence)


def _read_turn(turn: _Turn | None, *, now: float, shows_texts: bool) -> Iterator[Miss]:
    if turn is None:
        return
    is_without_call = not turn.has_call and now - turn.last > _GRACE_SECONDS
    for row in turn.searches:
        data = row_data(row)
        # Other discovery tools have rows too, and no query.
        if not data.get("queries"):
            continue
        confidence = float(data.get("confidence", 0.0))
        if confidence >= MIN_LIKELY and not is_without_call:
            continue
        yield Miss(
            row=row,
            reason="low confidence" if confidence < MIN_LIKELY else "no call",
            confidence=confidence,
            names=tuple(str(name) for name, _ in data.get("hits", ()))
            or tuple(map(str, data.get("near", ()))),
            texts=tuple(map(str, data.get("query_texts", ()))) if shows_texts else (),
            query_chars=int(data.get("query_chars", 0)),
            queries=int(data["queries"]),
            embedder=str(data.get("embedder", "")),
        )


# Cluster


def cluster_misses(misses: Sequence[Miss]) -> list[MissCluster]:
    """Similar misses together: by their vectors, else by their words, else by what they found."""
    newest = misses[:_MAX_CLUSTERED]
    vectors = _read_vectors(newest)
    groups: list[list[Miss]] = []
    for model in dict.fromkeys(m.embedder for m in newest if m.row.id in vectors):
        rows = [m for m in newest if m.embedder == model and m.row.id in vectors]
        groups += _cluster_vectors(rows, [vectors[m.row.id] for m in rows])
    rest = [m for m in newest if m.row.id not in vectors]
    groups += _cluster_words([m for m in rest if m.texts])
    groups += _cluster_names([m for m in rest if not m.texts])
    clusters = [
        MissCluster(misses=tuple(sorted(group, key=lambda miss: -miss.row.sequence)))
        for group in groups
    ]
    return sorted(clusters, key=lambda c: (-len(c.misses), -c.newest.sequence))


def _read_vectors(misses: Sequence[Miss]) -> dict[str, Floats]:
    """A unit vector for each search that has one; that of several queries is their mean."""
    # A row does not say how long a vector is; rows with one query show it.
    widths = {m.embedder: len(m.row.vector) for m in misses if m.queries == 1 and m.row.vector}
    found: dict[str, Floats] = {}
    for miss in misses:
        width = widths.get(miss.embedder, 0)
        if width and miss.row.vector and not len(miss.row.vector) % width:
            values = np.frombuffer(miss.row.vector, np.float16).astype(np.float32)
            mean = values.reshape(-1, width // 2).mean(axis=0)
            length = float(np.linalg.norm(mean))
            if np.isfinite(length) and length > 0:
                found[miss.row.id] = mean / np.float32(length)
    return found


def _cluster_vectors(misses: Sequence[Miss], vectors: Sequence[Floats]) -> list[list[Miss]]:
    """Each miss joins the cluster to which it is most similar on average, or begins one."""
    if not misses:
        return []
    matrix = np.stack(vectors)
    cosines = matrix @ matrix.T
    # A row for each cluster: the sum of the similarities of its members to every miss.
    sums = np.zeros_like(cosines)
    sizes = np.zeros(len(misses), np.float32)
    groups: list[list[Miss]] = []
    for number, miss in enumerate(misses):
        count = len(groups)
        means = sums[:count, number] / sizes[:count]
        place = int(means.argmax()) if count else 0
        if not count or means[place] < _MIN_COSINE:
            place = count
            groups.append([])
        groups[place].append(miss)
        sums[place] += cosines[number]
        sizes[place] += 1
    return groups


def _cluster_words(misses: Sequence[Miss]) -> list[list[Miss]]:
    groups: list[tuple[set[str], list[Miss]]] = []
    for miss in misses:
        words = set(terms(" ".join(miss.texts)))
        for known, group in groups:
            if len(words & known) >= _MIN_SHARED_WORDS * max(1, len(words | known)):
                group.append(miss)
                break
        else:
            groups.append((words, [miss]))
    return [group for _, group in groups]


def _cluster_names(misses: Sequence[Miss]) -> list[list[Miss]]:
    """Searches whose best tool is the same, where nothing else is known of them."""
    groups: dict[str, list[Miss]] = {}
    for miss in misses:
        groups.setdefault(miss.names[0] if miss.names else "", []).append(miss)
    return [*groups.values()]
