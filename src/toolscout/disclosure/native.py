"""The providers' own tool search: which model has it, how it is asked for, how we answer it.

Exactly one mechanism is ever active: with one of these our own discovery tools are not sent,
but for the search that a model asks us to answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from .namespaces import MAX_HOSTED_TOOLS, namespace_description
from .profile import NativeSearch
from .rendering import RenderedTool
from .surface import Mechanism
from .target import Target, Transport

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
class ModelFamily:
    """Models that have native tool search from a version on, over some transports."""

    provider: str
    pattern: str
    since: tuple[int, int]
    transports: frozenset[Transport]
    client: Mechanism
    hosted: Mapping[str, Mechanism]

    def includes(self, target: Target) -> bool:
        """Whether the target is one of these models, reached in a way that carries it."""
        found = re.match(self.pattern, target.model)
        if not found or self.provider != target.provider.name:
            return False
        version = (int(found[1]), int(found[2] or 0))
        return version >= self.since and target.transport in self.transports


FAMILIES = (
    ModelFamily(
        provider="anthropic",
        pattern=r"claude-(?:opus|sonnet)-(\d{1,2})(?:-(\d{1,2}))?(?!\d)",
        since=(4, 5),
        transports=_CLOUDS,
        client="anthropic_client",
        hosted=_ANTHROPIC,
    ),
    ModelFamily(
        provider="anthropic",
        pattern=r"claude-(?:mythos|fable)-(\d{1,2})(?:-(\d{1,2}))?(?!\d)",
        since=(5, 0),
        transports=_CLOUDS,
        client="anthropic_client",
        hosted=_ANTHROPIC,
    ),
    ModelFamily(
        provider="openai-responses",
        pattern=r"gpt-(\d{1,2})(?:\.(\d{1,2}))?(?![\d.])(?!.*-nano)",
        since=(5, 4),
        transports=_AZURE,
        client="openai_client",
        hosted=_OPENAI,
    ),
)
"""The facts. Models that are not here, and all that come through a gateway, get our own search."""


def choose_mechanism(
    target: Target, wish: NativeSearch, *, tools: int, before: str = ""
) -> Mechanism:
    """What finds tools for a model; a catalog too large for a hosted search is searched by us.

    What was decided by that size at the start holds for the conversation: `before` is what it was.
    """
    family = next((f for f in FAMILIES if f.includes(target)), None)
    if family is None:
        return ""
    fits = tools <= MAX_HOSTED_TOOLS
    if before in (family.client, *family.hosted.values()):
        fits = before != family.client
    return family.hosted[wish.variant] if wish.by == "provider" and fits else family.client


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


def arrange_tools(
    name: Mechanism, written: Sequence[RenderedTool], *, search_at: int = 0
) -> list[dict[str, Any]]:
    """The tool list of a request: the written definitions, and what the mechanism adds.

    `search_at` is how many definitions stand before a hosted search, where it does not find its
    place by itself.
    """
    match name:
        case "" | "anthropic_client":
            return [w.value for w in written]
        case "anthropic_bm25" | "anthropic_regex":
            return _anthropic_hosted_tools(_HOSTED_NAMES[name], written, search_at)
        case "openai_hosted":
            return _openai_hosted_tools(written)
        case "openai_client":
            return _openai_client_tools(written)


def native_answer(name: Mechanism, written: Sequence[RenderedTool]) -> str:
    """What a search found, as JSON in the form that the provider loads tools from.

    For Anthropic the content of a tool result, for OpenAI the tools of a `tool_search_output`.
    Empty where the mechanism has no such form, or nothing was found: the words say so then.
    """
    if not written or name not in _ANSWER_FORMS:
        return ""
    return json.dumps(_ANSWER_FORMS[name](written), ensure_ascii=False, separators=(",", ":"))


def search_output(call_id: str, tools: str) -> dict[str, Any]:
    """The item that answers an OpenAI `tool_search_call`; `tools` is what `answer` gave."""
    return {
        "type": "tool_search_output",
        "call_id": call_id,
        "execution": "client",
        "status": "completed",
        "tools": json.loads(tools) if tools else [],
    }


def _anthropic_hosted_tools(
    name: str, written: Sequence[RenderedTool], at: int
) -> list[dict[str, Any]]:
    search = {"type": f"{name}_20251119", "name": name}
    values = [w.value for w in written]
    return [*values[:at], search, *values[at:]]


def _openai_hosted_tools(written: Sequence[RenderedTool]) -> list[dict[str, Any]]:
    """Full functions, a namespace a group, what has none, the search; then what came later.

    The search works from any place, so it keeps the one it has.
    """
    first = [w for w in written if not w.is_late]
    later = [w for w in written if w.is_late]
    return [*_group_by_namespace(first), {"type": "tool_search"}, *_group_by_namespace(later)]


def _group_by_namespace(written: Sequence[RenderedTool]) -> Iterator[dict[str, Any]]:
    """Definitions in their order, those of one namespace inside it."""
    for space, members in groupby(written, key=lambda w: w.space):
        if not space:
            yield from (w.value for w in members)
            continue
        inside = [*members]
        yield {
            "type": "namespace",
            "name": space,
            "description": namespace_description(inside[0].tool, space),
            "tools": [w.value for w in inside],
        }


def _openai_client_tools(written: Sequence[RenderedTool]) -> list[dict[str, Any]]:
    """What is in view, and a search that comes back to us; found tools arrive as messages."""
    return [
        _openai_search_tool(w) if w.is_search else w.value for w in written if not w.is_deferred
    ]


def _openai_search_tool(written: RenderedTool) -> dict[str, Any]:
    return {
        "type": "tool_search",
        "execution": "client",
        "description": written.value["description"],
        "parameters": written.value["parameters"],
    }


def _tool_references(written: Sequence[RenderedTool]) -> list[dict[str, Any]]:
    return [{"type": "tool_reference", "tool_name": w.value["name"]} for w in written]


def _tool_definitions(written: Sequence[RenderedTool]) -> list[dict[str, Any]]:
    return [{**w.value, "defer_loading": True} for w in written]


_ANSWER_FORMS: Mapping[Mechanism, Callable[[Sequence[RenderedTool]], list[dict[str, Any]]]] = {
    "anthropic_client": _tool_references,
    "openai_client": _tool_definitions,
}
