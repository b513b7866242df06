"""Token costs of tools and rules per request, compared with loading all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolscout.models.messages import Message
from toolscout.models.model import ModelRequest
from toolscout.tokens import TokenCounter

EXPECTED = {"A": 0.97, "C": 0.91}
"""The share that design E expects to save."""


@dataclass(frozen=True, slots=True)
class RequestCost:
    """The tokens of one request that tools cause.

    `discovery` is what searching added to the conversation: searches, their answers with the
    rules, and reminders.
    """

    tools: int
    instructions: int
    discovery: int

    @property
    def total(self) -> int:
        """The sum of all parts."""
        return self.tools + self.instructions + self.discovery


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationCost:
    """The requests of a conversation, and what one would cost with everything loaded.

    With everything loaded there is nothing to search for, so requests that only led to a search
    do not count there.
    """

    kind: str
    requests: tuple[RequestCost, ...]
    searches: int
    everything: int

    @property
    def last(self) -> float:
        """The share saved in the last request."""
        return 1 - self.requests[-1].total / self.everything

    @property
    def overall(self) -> float:
        """The share saved over all requests."""
        spent = sum(request.total for request in self.requests)
        return 1 - spent / (self.everything * (len(self.requests) - self.searches))


def count_request(request: ModelRequest, *, by: TokenCounter) -> RequestCost:
    """Count the tokens of one request."""
    return RequestCost(
        tools=by.count(_json(request.tools)),
        instructions=by.count(request.instructions),
        discovery=sum(_discovery_tokens(message, by) for message in request.messages),
    )


def _discovery_tokens(message: Message, by: TokenCounter) -> int:
    searches = (c for c in message.calls if c.name == "tool_search")
    answers = (r for r in message.results if r.name == "tool_search")
    notice = message.text if message.role == "system" else ""
    return (
        sum(by.count(f"{c.name}{c.arguments}") for c in searches)
        + sum(by.count(r.result.text) for r in answers)
        + by.count(notice)
    )


def _json(tools: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps([dict(tool) for tool in tools], ensure_ascii=False, separators=(",", ":"))
