"""What tools and rules cost in each request, counted, beside having all of them all the time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolscout.models.messages import Message
from toolscout.models.model import ModelRequest
from toolscout.tokens import TokenCounter

EXPECTED = {"A": 0.97, "C": 0.91}
"""What design E expects to save."""


@dataclass(frozen=True, slots=True)
class Weight:
    """Tokens of one request that are there for the tools' sake.

    `found` is what searching itself put into the conversation: searches, their answers with the
    rules, and reminders.
    """

    tools: int
    instructions: int
    found: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.tools + self.instructions + self.found


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A conversation's requests, and what each would have cost with everything loaded.

    With everything loaded there is nothing to search for, so requests that only led to a search
    are not charged to it.
    """

    kind: str
    weights: tuple[Weight, ...]
    searches: int
    everything: int

    @property
    def last(self) -> float:
        """The share saved in the last request."""
        return 1 - self.weights[-1].total / self.everything

    @property
    def overall(self) -> float:
        """The share saved over all requests."""
        spent = sum(weight.total for weight in self.weights)
        return 1 - spent / (self.everything * (len(self.weights) - self.searches))


def weigh(request: ModelRequest, *, by: TokenCounter) -> Weight:
    """Count one request."""
    return Weight(
        tools=by.count(_json(request.tools)),
        instructions=by.count(request.instructions),
        found=sum(_found(message, by) for message in request.messages),
    )


def _found(message: Message, by: TokenCounter) -> int:
    searches = (c for c in message.calls if c.name == "tool_search")
    answers = (r for r in message.results if r.name == "tool_search")
    told = message.text if message.role == "system" else ""
    return (
        sum(by.count(f"{c.name}{c.arguments}") for c in searches)
        + sum(by.count(r.result.text) for r in answers)
        + by.count(told)
    )


def _json(tools: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps([dict(tool) for tool in tools], ensure_ascii=False, separators=(",", ":"))
