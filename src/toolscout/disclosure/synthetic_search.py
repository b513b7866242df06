"""A search in the model's name that restores references to loaded tools after a compaction.

With Anthropic an answer only refers to definitions that are deferred in the tool list. When a
compaction removes the answer, a search and a new answer refer to them again; the list stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..catalog.sanitization import compact_json
from ..catalog.tool import digest
from .history import tool_exchanges

CLOSING_TEXT = "These tools are loaded."
"""The model's comment on its search, where the user speaks next."""


@dataclass(frozen=True, slots=True)
class SyntheticSearch:
    """A search for tools by name, and its answer; names are those in the request."""

    search: str
    tools: tuple[str, ...]

    @property
    def id(self) -> str:
        """The id of the call, derived from the tools."""
        # A random id would change the bytes of every request after the same compaction.
        return f"toolu_{digest(self.search, *self.tools, length=24)}"

    @property
    def arguments(self) -> dict[str, str]:
        """The arguments of the search."""
        return {"query": f"select:{','.join(self.tools)}"}

    @property
    def answer(self) -> str:
        """The references, as JSON that the provider loads."""
        return compact_json(self._references())

    def messages(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The search and its answer, in Anthropic's format."""
        call = {"type": "tool_use", "id": self.id, "name": self.search, "input": self.arguments}
        result = {"type": "tool_result", "tool_use_id": self.id, "content": self._references()}
        return {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}

    def _references(self) -> list[dict[str, str]]:
        return [{"type": "tool_reference", "tool_name": name} for name in self.tools]


def tool_references(messages: Sequence[object]) -> Iterator[str]:
    """The tools that messages refer to."""
    for exchange in tool_exchanges(messages):
        yield from exchange.references


def insert_search(messages: Sequence[Any], search: SyntheticSearch) -> list[Any]:
    """The messages with a search and its answer after the first one, which is the summary."""
    # After the first message, because a request must begin with the user, every later compaction
    # keeps that message and so writes the same bytes, and it is far from the end, where a call
    # without its thinking block would be refused (docs/decisions/surfaces.md).
    before, after = messages[:1], messages[1:]
    # Roles must alternate: if the user speaks next, the model says something in between.
    closing = {"role": "assistant", "content": CLOSING_TEXT}
    is_users_turn = bool(after) and after[0]["role"] == "user"
    return [*before, *search.messages(), *([closing] if is_users_turn else []), *after]
