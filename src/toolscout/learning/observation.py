"""Observations: a request as a vector, the tools that were called for it, the scores of others."""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, cast

import numpy as np

from ..catalog.tool import Tool
from ..embedders.arrays import Floats

_KEY_BYTES = 8
# Scores of search are below 20, except of a tool whose name is in the request: 100 more.
_MAX_SCORE = 20.0
_MAX_STORED_SCORE = 1_000.0


def tool_keys(tools: Iterable[Tool]) -> dict[str, str]:
    """A key for each tool by its name: a hash of its server and its definition.

    The name is left out, so a renamed tool keeps what was learned and a changed one starts again.
    Only where a server has two tools of the same definition, the name tells them apart.
    """
    keys = {tool.name: _definition_key(tool) for tool in tools}
    shared = {key for key, count in Counter(keys.values()).items() if count > 1}
    return {name: _hash(key, name) if key in shared else key for name, key in keys.items()}


def _definition_key(tool: Tool) -> str:
    output = tool.output.text if tool.output is not None else ""
    return _hash(tool.server, tool.description, tool.title, tool.parameters.text, output)


def bound_scores(scores: Mapping[str, float]) -> dict[str, float]:
    """The scores to learn from: a match by name counts as certain, not as five times as much."""
    return {key: min(max(score, -_MAX_SCORE), _MAX_SCORE) for key, score in scores.items()}


def hash_principal(name: str) -> str:
    """The principal as it is stored."""
    return _hash("principal", name)


def content_id(vector: bytes, *parts: str) -> str:
    """An id for an observation that has none of its own: a hash of its content."""
    return _hash("content", vector.hex(), *parts)


def _hash(*parts: str) -> str:
    text = "\0".join(parts).encode(errors="surrogatepass")
    return hashlib.blake2b(text, digest_size=_KEY_BYTES).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One request that led to successful calls.

    `id` is unique, and `turn` is shared by the searches that led to the same calls. `called`
    has the names of the called tools by key, `shown` the scores of the tools that the request found
    by key, without what was learned. `vector` is the request in half precision; its text is
    not kept.
    """

    id: str
    turn: str
    time: float
    principal: str
    vector: bytes
    called: Mapping[str, str]
    shown: Mapping[str, float]

    @property
    def unit_vector(self) -> Floats:
        """The request as numbers."""
        return np.frombuffer(self.vector, np.float16).astype(np.float32)

    def resolve(self, keys: Mapping[str, str]) -> Observation | None:
        """The same by keys instead of names; None if no called tool exists any more."""
        called = {keys[name]: name for name in self.called if name in keys}
        if not called:
            return None
        shown = {keys[name]: score for name, score in self.shown.items() if name in keys}
        return replace(self, called=called, shown=shown)

    def without_tool(self, name: str) -> Observation | None:
        """The same without the calls of one tool; None if there were no others."""
        if name not in self.called.values():
            return self
        called = {key: other for key, other in self.called.items() if other != name}
        return replace(self, called=called) if called else None

    def to_json(self) -> dict[str, Any]:
        """The observation as plain values."""
        return {
            "id": self.id,
            "turn": self.turn,
            "time": round(self.time, 3),
            "principal": self.principal,
            "vector": b64encode(self.vector).decode("ascii"),
            "called": dict(self.called),
            "shown": {key: round(score, 3) for key, score in self.shown.items()},
        }


def by_age(row: Observation) -> tuple[float, str]:
    """The order of observations, the oldest first."""
    return row.time, row.id


def parse_observation(row: object, *, dimensions: int) -> Observation:
    """The observation that `to_json` wrote; raises ValueError for anything else."""
    if not isinstance(row, dict):
        raise ValueError("not an object")  # noqa: TRY004 - one kind of error for all bad rows
    values = cast("dict[str, Any]", row)
    try:
        observation = Observation(
            id=str(values["id"]),
            turn=str(values["turn"]),
            time=float(values["time"]),
            principal=str(values["principal"]),
            vector=b64decode(values["vector"], validate=True),
            called={str(key): str(name) for key, name in values["called"].items()},
            shown={str(key): float(score) for key, score in values["shown"].items()},
        )
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    _check_numbers(observation, dimensions)
    return replace(observation, shown=bound_scores(observation.shown))


def _check_numbers(row: Observation, dimensions: int) -> None:
    vector = row.unit_vector if len(row.vector) == 2 * dimensions else np.zeros(0)
    is_finite = isfinite(row.time) and all(abs(s) <= _MAX_STORED_SCORE for s in row.shown.values())
    if not row.called or not is_finite or not 0.9 < np.linalg.norm(vector) < 1.1:
        raise ValueError("it has no called tool, or numbers that are not possible")
