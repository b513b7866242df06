"""Native tool search of providers: which models have it, how to request and to answer it.

Exactly one mechanism is active. With one of these our own discovery tools are not sent, except
the search that we answer for the provider.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ..catalog.sanitization import compact_json
from .namespaces import MAX_HOSTED_TOOLS, namespace_description
from .profile import NativeSearch
from .rendering import RenderedTool
from .surface import Mechanism
from .target import ModelTransport, Target

_ANTHROPIC_TRANSPORTS: frozenset[ModelTransport] = frozenset({"direct", "azure", "vertex"})
_OPENAI_TRANSPORTS: frozenset[ModelTransport] = frozenset({"direct", "azure"})
_ANTHROPIC_HOSTED: Mapping[str, Mechanism] = {
    "bm25": "anthropic_bm25",
    "regex": "anthropic_regex",
}
# OpenAI has one hosted search. The variant of the profile makes no difference there.
_OPENAI_HOSTED: Mapping[str, Mechanism] = {"bm25": "openai_hosted", "regex": "openai_hosted"}
_HOSTED_NAMES: Mapping[Mechanism, str] = {
    "anthropic_bm25": "tool_search_tool_bm25",
    "anthropic_regex": "tool_search_tool_regex",
    "openai_hosted": "tool_search",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFamily:
    """Models with native tool search: an id pattern, the first version, and the transports."""

    provider: str
    pattern: str
    since: tuple[int, int]
    transports: frozenset[ModelTransport]
    client: Mechanism
    hosted: Mapping[str, Mechanism]

    def includes(self, target: Target) -> bool:
        """Whether the target is one of these models, over a transport that supports it."""
        found = re.match(self.pattern, target.model)
        if not found or self.provider != target.provider.name:
            return False
        version = (int(found[1]), int(found[2] or 0))
        return version >= self.since and target.transport in self.transports


# From the documentation of the providers, as of November 2026 (docs/providers.md). A version has
# at most two digits per part, and the lookahead keeps a date such as `-20250514` from being read as
# one. Nano models of OpenAI have no tool search.
FAMILIES = (
    ModelFamily(
        provider="anthropic",
        pattern=r"claude-(?:opus|sonnet)-(\d{1,2})(?:-(\d{1,2}))?(?!\d)",
        since=(4, 5),
        transports=_ANTHROPIC_TRANSPORTS,
        client="anthropic_client",
        hosted=_ANTHROPIC_HOSTED,
    ),
    ModelFamily(
        provider="anthropic",
        pattern=r"claude-(?:mythos|fable)-(\d{1,2})(?:-(\d{1,2}))?(?!\d)",
        since=(5, 0),
        transports=_ANTHROPIC_TRANSPORTS,
        client="anthropic_client",
        hosted=_ANTHROPIC_HOSTED,
    ),
    ModelFamily(
        provider="openai-responses",
        pattern=r"gpt-(\d{1,2})(?:\.(\d{1,2}))?(?![\d.])(?!.*-nano)",
        since=(5, 4),
        transports=_OPENAI_TRANSPORTS,
        client="openai_client",
        hosted=_OPENAI_HOSTED,
    ),
)
"""Models with native search. All others, and all behind a gateway, get our discovery tools."""


def choose_mechanism(
    target: Target, native: NativeSearch, *, tools: int, previous: str = ""
) -> Mechanism:
    """The mechanism for a model; for a catalog too large for a hosted search, the client one."""
    family = next((f for f in FAMILIES if f.includes(target)), None)
    if family is None:
        return ""
    fits = tools <= MAX_HOSTED_TOOLS
    # The size decides at the start of a conversation only. Switching later, when the catalog
    # grows or shrinks past the limit, would change the tool list.
    if previous in (family.client, *family.hosted.values()):
        fits = previous != family.client
    return family.hosted[native.variant] if native.by == "provider" and fits else family.client


def is_hosted(mechanism: str) -> bool:
    """Whether the provider itself searches."""
    return mechanism in _HOSTED_NAMES


def search_name(mechanism: Mechanism, own_name: str) -> str:
    """The name of the search in a request: the provider's for a hosted one, else ours."""
    return _HOSTED_NAMES.get(mechanism, own_name)


def can_be_forced(mechanism: Mechanism) -> bool:
    """Whether a request can force the model to search."""
    # OpenAI's `tool_choice` cannot name its search. A hosted search does not report that it ran,
    # so it would be forced in every request.
    return mechanism in ("", "anthropic_client")


def arrange_tools(
    mechanism: Mechanism, tools: Sequence[RenderedTool], *, search_at: int = 0
) -> list[dict[str, Any]]:
    """The tool list of a request: the definitions, and the entry that the mechanism adds.

    `search_at` is the number of definitions before Anthropic's hosted search.
    """
    match mechanism:
        case "" | "anthropic_client":
            return [t.value for t in tools]
        case "anthropic_bm25" | "anthropic_regex":
            return _anthropic_hosted_tools(_HOSTED_NAMES[mechanism], tools, search_at)
        case "openai_hosted":
            return _openai_hosted_tools(tools)
        case "openai_client":
            return _openai_client_tools(tools)


def native_answer(mechanism: Mechanism, tools: Sequence[RenderedTool]) -> str:
    """Found tools as JSON in the format that the provider loads.

    For Anthropic it is the content of a tool result, for OpenAI the tools of a
    `tool_search_output`. Empty if nothing was found or the mechanism has no such format.
    """
    if not tools or mechanism not in _ANSWER_FORMATS:
        return ""
    return compact_json(_ANSWER_FORMATS[mechanism](tools))


def search_output(call_id: str, tools: str) -> dict[str, Any]:
    """The item that answers an OpenAI `tool_search_call`; `tools` is from `native_answer`."""
    return {
        "type": "tool_search_output",
        "call_id": call_id,
        "execution": "client",
        "status": "completed",
        "tools": json.loads(tools) if tools else [],
    }


def _anthropic_hosted_tools(
    name: str, tools: Sequence[RenderedTool], search_at: int
) -> list[dict[str, Any]]:
    # The date is the version of Anthropic's tool, as for its other server tools.
    search = {"type": f"{name}_20251119", "name": name}
    values = [t.value for t in tools]
    return [*values[:search_at], search, *values[search_at:]]


def _openai_hosted_tools(tools: Sequence[RenderedTool]) -> list[dict[str, Any]]:
    """Functions, namespaces and ungrouped tools of the first list, the search, late tools."""
    # OpenAI asks for the search entry to be in the list and does not say where. It keeps its
    # place, so that late tools do not move it (docs/decisions/surfaces.md).
    first = [t for t in tools if not t.is_late]
    late = [t for t in tools if t.is_late]
    return [*_group_by_namespace(first), {"type": "tool_search"}, *_group_by_namespace(late)]


def _group_by_namespace(tools: Sequence[RenderedTool]) -> Iterator[dict[str, Any]]:
    """Definitions in order, with neighbours of one namespace grouped inside it."""
    for namespace, group in groupby(tools, key=lambda t: t.namespace):
        if not namespace:
            yield from (t.value for t in group)
            continue
        members = [*group]
        yield {
            "type": "namespace",
            "name": namespace,
            "description": namespace_description(members[0].tool, namespace),
            "tools": [t.value for t in members],
        }


def _openai_client_tools(tools: Sequence[RenderedTool]) -> list[dict[str, Any]]:
    """The tools in view, with our search as the provider's client-executed one."""
    # Found tools arrive in messages, so deferred ones need no place in the list.
    return [_openai_search_tool(t) if t.is_search else t.value for t in tools if not t.is_deferred]


def _openai_search_tool(tool: RenderedTool) -> dict[str, Any]:
    return {
        "type": "tool_search",
        "execution": "client",
        "description": tool.value["description"],
        "parameters": tool.value["parameters"],
    }


def _tool_references(tools: Sequence[RenderedTool]) -> list[dict[str, Any]]:
    return [{"type": "tool_reference", "tool_name": t.value["name"]} for t in tools]


def _tool_definitions(tools: Sequence[RenderedTool]) -> list[dict[str, Any]]:
    return [{**t.value, "defer_loading": True} for t in tools]


_ANSWER_FORMATS: Mapping[Mechanism, Callable[[Sequence[RenderedTool]], list[dict[str, Any]]]] = {
    "anthropic_client": _tool_references,
    "openai_client": _tool_definitions,
}
