"""Seeding: observations from a journal, from pairs of request and tools, or from an export."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from ..events import DiscoveryResultEvent, Event, ToolCallEvent
from ..search.engine import Engine
from ..store.log_contract import LogRow
from .observation import (
    Observation,
    bound_scores,
    content_id,
    hash_principal,
    parse_observation,
    tool_keys,
)
from .turns import BEST_SHOWN, SearchTurn, Turns
from .usage import UsageLift, attach_usage

SEED_PRINCIPAL = "seed"
"""Who counts as the caller of a seeded request that names nobody."""


@dataclass(slots=True)
class Seeds:
    """Observations, and why others could not be made."""

    rows: list[Observation] = field(default_factory=list[Observation])
    problems: list[str] = field(default_factory=list[str])


def read_journal(rows: Iterable[LogRow], engine: Engine, *, accepts_unnamed: bool) -> Seeds:
    """What a journal teaches about the tools of an engine.

    Older rows do not name the model of their vector. They count only if `accepts_unnamed`.
    """
    seeds = Seeds()
    usage = attach_usage(engine)
    if usage is None:
        return seeds
    embedder, keys = usage.embedder, tool_keys(engine.catalog)
    default = embedder.id if accepts_unnamed else ""
    turns = Turns(dimensions=lambda: embedder.dimensions)
    other_models = 0

    def add(ended: Iterable[SearchTurn]) -> None:
        for turn in ended:
            found = turn.observations(model=embedder.id, time=turn.last)
            seeds.rows += [row for o in found if (row := o.resolve(keys)) is not None]

    for row in rows:
        event = _to_event(row, default_model=default)
        if isinstance(event, DiscoveryResultEvent) and event.vector:
            is_mine = event.embedder == embedder.id
            is_whole = not len(event.vector) % (2 * embedder.dimensions)
            if not (is_mine and is_whole):
                other_models += 1
                continue
        if event is not None:
            add(turns.read(event))
    add(turns.finish())
    if other_models:
        seeds.problems.append(f"{other_models} searches of another or unknown model were left out.")
    return seeds


def _to_event(row: LogRow, *, default_model: str) -> Event | None:
    envelope: dict[str, Any] = {
        "id": row.id,
        "time": row.time,
        "session": row.session,
        "principal": row.principal,
        "client": row.client,
    }
    if row.kind == "call" and row.outcome == "ok":
        return ToolCallEvent(**envelope, tool=row.tool)
    if row.kind != "search" or row.outcome != "ok":
        return None
    data: dict[str, Any] = json.loads(row.data)
    hits = [(str(name), score) for name, score in data.get("hits", ())]
    scored = [(name, float(score)) for name, score in hits if score is not None]
    return DiscoveryResultEvent(
        **envelope,
        tool=row.tool,
        names=tuple(name for name, _ in hits),
        scores=tuple(score for _, score in scored) if len(scored) == len(hits) else (),
        near=tuple(map(str, data.get("near", ()))),
        vector=row.vector,
        embedder=str(data.get("embedder") or default_model),
    )


def read_lines(lines: Iterable[str], engine: Engine) -> Seeds:
    """What lines of `{"request": …, "called": […]}`, or of an export, teach."""
    seeds = Seeds()
    usage = attach_usage(engine)
    if usage is None:
        return seeds
    usage.mode = "on"
    keys = tool_keys(engine.catalog)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            seeds.rows.append(_read_line(json.loads(line), engine, usage, keys))
        except ValueError as error:
            seeds.problems.append(f"Line {number} was left out: {error}.")
    return seeds


def _read_line(
    values: object, engine: Engine, usage: UsageLift, keys: Mapping[str, str]
) -> Observation:
    if not isinstance(values, dict):
        raise ValueError("it is not an object")  # noqa: TRY004 - one kind of error for bad lines
    row = cast("dict[str, Any]", values)
    embedder = usage.embedder
    if "vector" in row:
        if row.get("model") != embedder.id:
            raise ValueError(f"it was learned with {row.get('model')}, not with {embedder.id}")
        return parse_observation(row, dimensions=embedder.dimensions)
    request, called = row.get("request"), row.get("called")
    called = [called] if isinstance(called, str) else called
    if not isinstance(request, str) or not request.strip() or not isinstance(called, list):
        raise ValueError('write {"request": "…", "called": ["tool"]}')
    names = [_resolve_name(str(name), engine) for name in cast("list[object]", called)]
    principal = str(row.get("principal") or SEED_PRINCIPAL)
    found = _observe_request(engine, usage, request, names, principal).resolve(keys)
    assert found is not None
    # The same for the same line and definitions of tools, so that a file can be read twice.
    content = content_id(found.vector, found.principal, *sorted(found.called))
    return replace(found, id=content, turn=content)


def _resolve_name(name: str, engine: Engine) -> str:
    found = engine.catalog.resolve(name)
    if len(found) != 1:
        raise ValueError(f"{name!r} is ambiguous" if found else f"there is no tool {name!r}")
    return found[0]


def _observe_request(
    engine: Engine, usage: UsageLift, request: str, names: list[str], principal: str
) -> Observation:
    found = engine.search(request)
    trace = None
    vector = b""
    if found.vectors:
        vector = found.vectors[0].values.astype(np.float16).tobytes()
        trace = usage.find_trace(vector)
    if trace is None or not names:
        raise ValueError("it names no tool" if not names else "it has no words to compare")
    scores = [*trace.base_scores.items()][:BEST_SHOWN]
    return Observation(
        id="",
        turn="",
        time=time.time(),
        principal=hash_principal(principal),
        vector=vector,
        called={name: name for name in names},
        shown=bound_scores(dict(scores)),
    )
