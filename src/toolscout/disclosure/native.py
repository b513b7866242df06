"""The providers' own tool search: which model has it, how it is asked for, how we answer it.

Exactly one mechanism is ever active: with one of these our own discovery tools are not sent,
but for the search that a model asks us to answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..catalog.names import wire_name
from .profile import Native
from .rendering import Written
from .surface import Mechanism
from .target import Target, Transport

MOST_HOSTED = 10_000
"""The most tools a hosted search takes."""

_CLOUDS: frozenset[Transport] = frozenset({"direct", "azure", "vertex"})
_AZURE: frozenset[Transport] = frozenset({"direct", "azure"})
_ANTHROPIC: Mapping[str, Mechanism] = {"bm25": "anthropic_bm25", "regex": "anthropic_regex"}
_HOSTED_NAMES: Mapping[Mechanism, str] = {
    "anthropic_bm25": "tool_search_tool_bm25",
    "anthropic_regex": "tool_search_tool_regex",
    "openai_hosted": "tool_search",
}
_OPENAI: Mapping[str, Mechanism] = {"bm25": "openai_hosted", "regex": "openai_hosted"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Models that have native tool search from a version on, over some transports."""

    provider: str
    pattern: str
    since: tuple[int, int]
    transports: frozenset[Transport]
    client: Mechanism
    hosted: Mapping[str, Mechanism]

    def has(self, target: Target) -> bool:
        """Whether the target is one of these models, reached in a way that carries it."""
        found = re.match(self.pattern, target.model)
        if not found or self.provider != target.provider.name:
            return False
        version = (int(found[1]), int(found[2] or 0))
        return version >= self.since and target.transport in self.transports


FAMILIES = (
    Family(
        provider="anthropic",
        pattern=r"claude-(?:opus|sonnet)-(\d{1,2})(?:-(\d{1,2}))?(?!\d)",
        since=(4, 5),
        transports=_CLOUDS,
        client="anthropic_client",
        hosted=_ANTHROPIC,
    ),
    Family(
        provider="anthropic",
        pattern=r"claude-(?:mythos|fable)-(\d{1,2})(?:-(\d{1,2}))?(?!\d)",
        since=(5, 0),
        transports=_CLOUDS,
        client="anthropic_client",
        hosted=_ANTHROPIC,
    ),
    Family(
        provider="openai-responses",
        pattern=r"gpt-(\d{1,2})(?:\.(\d{1,2}))?(?![\d.])(?!.*-nano)",
        since=(5, 4),
        transports=_AZURE,
        client="openai_client",
        hosted=_OPENAI,
    ),
)
"""The facts. Models that are not here, and all that come through a gateway, get our own search."""


def mechanism(target: Target, wish: Native, *, tools: int) -> Mechanism:
    """What finds tools for a model; a catalog too large for a hosted search is searched by us."""
    family = next((f for f in FAMILIES if f.has(target)), None)
    if family is None:
        return ""
    is_hosted = wish.by == "provider" and tools <= MOST_HOSTED
    return family.hosted[wish.variant] if is_hosted else family.client


def is_hosted(name: str) -> bool:
    """Whether the provider itself searches."""
    return name in _HOSTED_NAMES


def search_name(name: Mechanism, ours: str) -> str:
    """What a model knows the search by: the provider's name for its own, else ours."""
    return _HOSTED_NAMES.get(name, ours)


def can_be_forced(name: Mechanism) -> bool:
    """Whether a request can insist on the search: OpenAI has no way to name its own, and of a
    hosted one we would not see that it took place."""
    return name in ("", "anthropic_client")


def arrange(
    name: Mechanism, written: Sequence[Written], groups: Sequence[str]
) -> list[dict[str, Any]]:
    """The tool list of a request: the written definitions, and what the mechanism adds."""
    return _ARRANGE[name](written, groups)


def answer(name: Mechanism, written: Sequence[Written]) -> str:
    """What a search found, as JSON in the form that the provider loads tools from.

    For Anthropic the content of a tool result, for OpenAI the tools of a `tool_search_output`.
    Empty where the mechanism has no such form, or nothing was found: the words say so then.
    """
    if not written or name not in _ANSWERS:
        return ""
    return json.dumps(_ANSWERS[name](written), ensure_ascii=False, separators=(",", ":"))


def search_output(call_id: str, tools: str) -> dict[str, Any]:
    """The item that answers an OpenAI `tool_search_call`; `tools` is what `answer` gave."""
    return {
        "type": "tool_search_output",
        "call_id": call_id,
        "execution": "client",
        "status": "completed",
        "tools": json.loads(tools) if tools else [],
    }


def _ours(written: Sequence[Written], _: Sequence[str]) -> list[dict[str, Any]]:
    return [w.value for w in written]


def _anthropic_hosted(mechanism: Mechanism) -> Callable[..., list[dict[str, Any]]]:
    name = _HOSTED_NAMES[mechanism]
    search = {"type": f"{name}_20251119", "name": name}

    def arranged(written: Sequence[Written], _: Sequence[str]) -> list[dict[str, Any]]:
        return [dict(search), *(w.value for w in written)]

    return arranged


def _openai_hosted(written: Sequence[Written], groups: Sequence[str]) -> list[dict[str, Any]]:
    """Full functions first, then a namespace a group, then what has none, then the search."""
    full = [w.value for w in written if not w.is_deferred]
    loose = [w.value for w in written if w.is_deferred and not w.group]
    spaces = [
        {
            "type": "namespace",
            "name": wire_name(group),
            "description": f"Tools of {group}.",
            "tools": tools,
        }
        for group in groups
        if (tools := [w.value for w in written if w.is_deferred and w.group == group])
    ]
    return [*full, *spaces, *loose, {"type": "tool_search"}]


def _openai_client(written: Sequence[Written], _: Sequence[str]) -> list[dict[str, Any]]:
    """What is in view, and a search that comes back to us; found tools arrive as messages."""
    shown = [w.value for w in written if not w.is_deferred and not w.is_search]
    searches = [
        {
            "type": "tool_search",
            "execution": "client",
            "description": w.value["description"],
            "parameters": w.value["parameters"],
        }
        for w in written
        if w.is_search
    ]
    return [*searches, *shown]


def _references(written: Sequence[Written]) -> list[dict[str, Any]]:
    return [{"type": "tool_reference", "tool_name": w.value["name"]} for w in written]


def _definitions(written: Sequence[Written]) -> list[dict[str, Any]]:
    return [{**w.value, "defer_loading": True} for w in written]


_ARRANGE: Mapping[Mechanism, Callable[..., list[dict[str, Any]]]] = {
    "": _ours,
    "anthropic_bm25": _anthropic_hosted("anthropic_bm25"),
    "anthropic_regex": _anthropic_hosted("anthropic_regex"),
    "anthropic_client": _ours,
    "openai_hosted": _openai_hosted,
    "openai_client": _openai_client,
}
_ANSWERS: Mapping[Mechanism, Callable[[Sequence[Written]], list[dict[str, Any]]]] = {
    "anthropic_client": _references,
    "openai_client": _definitions,
}
