"""Loaded tools said again, after a compaction took the answers that had brought them.

Where an answer only refers to definitions that wait in the list, it is enough to refer to them
once more: a search in the model's name, and its answer. The list stays as it was sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..catalog.names import digest
from .history import tool_exchanges

CLOSING_TEXT = "These tools are loaded."
"""What the model says to its search, so that the user can speak next."""


@dataclass(frozen=True, slots=True)
class SyntheticSearch:
    """A search for tools by name and what answers it; names are those of the request's list."""

    search: str
    tools: tuple[str, ...]

    @property
    def id(self) -> str:
        """The id of the call: the same tools have the same one, others another."""
        return f"toolu_{digest(self.search, *self.tools, length=24)}"

    @property
    def arguments(self) -> dict[str, str]:
        """What is searched for."""
        return {"query": f"select:{','.join(self.tools)}"}

    @property
    def answer(self) -> str:
        """What was found, as the provider loads it."""
        return json.dumps(self._references(), separators=(",", ":"))

    def messages(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The search and its answer, in Anthropic's form."""
        asked = {"type": "tool_use", "id": self.id, "name": self.search, "input": self.arguments}
        found = {"type": "tool_result", "tool_use_id": self.id, "content": self._references()}
        return {"role": "assistant", "content": [asked]}, {"role": "user", "content": [found]}

    def _references(self) -> list[dict[str, str]]:
        return [{"type": "tool_reference", "tool_name": name} for name in self.tools]


def tool_references(messages: Sequence[object]) -> Iterator[str]:
    """The tools that messages bring by reference."""
    for exchange in tool_exchanges(messages):
        yield from exchange.references


def insert_search(messages: Sequence[Any], again: SyntheticSearch) -> list[Any]:
    """The messages with a search and its answer behind the first of them, which is the summary.

    Roles go on taking turns: where the user speaks next, the model says a word in between.
    """
    before, after = messages[:1], messages[1:]
    closing = {"role": "assistant", "content": CLOSING_TEXT}
    is_users = bool(after) and after[0]["role"] == "user"
    return [*before, *again.messages(), *([closing] if is_users else []), *after]
