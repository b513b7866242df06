"""Token costs of tools and rules per request, compared with loading all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from toolscout.models.messages import CallResult, Message
from toolscout.models.model import ModelRequest
from toolscout.tokens import TokenCounter

SEARCH = "tool_search"
EXPECTED = {"A": 0.97, "C": 0.91}
"""The share that design E expects to save."""


@dataclass(frozen=True, slots=True)
class RequestCost:
    """The tokens of one request that tools cause, line by line.

    `queries` and `answers` are what searching left in the conversation, `rules` the part of the
    answers that says how to use the tools, and `memory` the notes about earlier turns.
    """

    search_tool: int
    loaded_tools: int
    instructions: int
    queries: int
    answers: int
    rules: int
    memory: int

    @property
    def total(self) -> int:
        """The sum of all lines."""
        return sum(asdict(self).values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationCost:
    """The requests of a conversation, and what one would cost with everything loaded.

    With everything loaded there is nothing to search for, so requests that only led to a search
    do not count there.
    """

    kind: str
    requests: tuple[RequestCost, ...]
    searches: int
    baseline: RequestCost

    @property
    def everything(self) -> int:
        """The tokens of one request with everything loaded."""
        return self.baseline.total

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
    search = [tool for tool in request.tools if tool["name"] == SEARCH]
    search_tokens = by.count(_json(search)) if search else 0
    answers = [_answer(r) for m in request.messages for r in m.results if r.name == SEARCH]
    rules = sum(by.count(rules) for _, rules in answers)
    return RequestCost(
        search_tool=search_tokens,
        loaded_tools=by.count(_json(request.tools)) - search_tokens,
        instructions=by.count(request.instructions),
        queries=sum(_query_tokens(message, by) for message in request.messages),
        answers=sum(by.count(text) for text, _ in answers) - rules,
        rules=rules,
        memory=sum(by.count(m.text) for m in request.messages if m.role == "system"),
    )


def _query_tokens(message: Message, by: TokenCounter) -> int:
    return sum(by.count(f"{c.name}{c.arguments}") for c in message.calls if c.name == SEARCH)


def _answer(result: CallResult) -> tuple[str, str]:
    """The answer to a search as text, and the rules in it."""
    value = result.result.value
    return result.result.text, value["rules"] if isinstance(value, dict) else ""


def _json(tools: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps([dict(tool) for tool in tools], ensure_ascii=False, separators=(",", ":"))
