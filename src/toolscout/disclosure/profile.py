"""A profile: the choices that make up one way to disclose tools, with its discovery tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..catalog.filters import Filter
from ..catalog.schema import Schema
from ..catalog.tool import Annotations, Tool, normalise_name
from .matcher import LoadRule, Matcher, load_nothing
from .prompts import PromptRenderer, no_prompt
from .reply import DefinitionRenderer, ErrorRenderer, ReplyRenderer, describe_full, plain_error
from .scope import Policy
from .surface import Surface, SurfaceChoice

Role = Literal["search", "load", "unload", "list", "describe", "call"]
"""What a discovery tool does, whatever a profile calls it."""

ALL_SURFACES: tuple[Surface, ...] = ("load", "dispatch", "native")
"""Every surface but `direct`, which shows all tools and needs no discovery."""

# Names from the default profile and the published designs. A model that knows one of them from
# elsewhere, or from an older transcript, is understood in every profile.
_ROLE_BY_NAME: Mapping[str, Role] = {
    "tool_search": "search",
    "search_tools": "search",
    "add_tool": "load",
    "load_tools": "load",
    "remove_tool": "unload",
    "unload_tools": "unload",
    "show_all_tools": "list",
    "list_tools": "list",
    "describe_tools": "describe",
    "call_tool": "call",
}


@dataclass(frozen=True, slots=True)
class Metatool:
    """A discovery tool of a profile: its role, its definition, and the surfaces that show it.

    Without surfaces it is in no list, but a call of it is answered.
    """

    role: Role
    tool: Tool
    surfaces: tuple[Surface, ...] = ALL_SURFACES

    @property
    def name(self) -> str:
        """The name the model calls it by."""
        return self.tool.name


def metatool(
    role: Role,
    name: str,
    description: str,
    parameters: Mapping[str, Any],
    *,
    surfaces: tuple[Surface, ...] = ALL_SURFACES,
    title: str = "",
) -> Metatool:
    """Define a discovery tool; it is never deferred."""
    # Load, unload and call change the session or the world, so they carry no hints.
    is_read_only = role in ("search", "list", "describe")
    tool = Tool(
        name=name,
        title=title,
        description=description,
        parameters=Schema.of(parameters),
        defer="never",
        annotations=Annotations(read_only=True, idempotent=True) if is_read_only else None,
    )
    return Metatool(role, tool, surfaces)


def object_schema(
    *required: str, closed: bool = False, **properties: Mapping[str, Any]
) -> dict[str, Any]:
    """A JSON Schema for an object with these properties."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: dict(value) for name, value in properties.items()},
    }
    if required:
        schema["required"] = [*required]
    if closed:
        schema["additionalProperties"] = False
    return schema


def role_for_name(name: str) -> Role | None:
    """The role of a name that any design uses for a discovery tool, in any case style."""
    return _ROLE_BY_NAME.get(normalise_name(name))


CALL_TOOL = metatool(
    "call",
    "call_tool",
    "Runs a tool that tool_search found. If the arguments do not fit, the answer shows the schema.",
    object_schema(
        "name",
        "arguments",
        name={"type": "string", "description": "The tool's exact name."},
        arguments={"type": "object", "description": "Its arguments, as its schema says."},
    ),
    surfaces=("dispatch",),
)
"""Runs tools that are not in the tool list: on dispatch, and where a provider's list is full."""

Hiding = Literal["omit", "stub", "prompt"]
"""How a deferred tool is hidden: omitted, listed with a stub schema, or only not described."""

OnEmpty = Literal["all", "browse", "none", "error"]
"""What an empty query returns: everything, the first few tools, nothing, or an error."""

OnUnloaded = Literal["execute", "reject", "load"]
"""What a call of a deferred tool does: run, be refused with the schema, or load the tool."""

SkillStyle = Literal["snake", "camel"]
"""How the tools for skills are named: `read_skill`, or `readSkill`."""

SkillMatching = Literal["ranked", "literal"]
"""How skills are found: by the engine as well, or only by a part of their own words."""

HintPart = Literal["categories", "names", "message"]
"""A part of the hint for a search without a match."""

OutputTools = Literal["as set", "unified", "all"]
"""The tools for large results: as the settings say, the unified one, or also its older names."""

_DEFER_ALL = Policy()
_EVERY_TOOL = Filter()


@dataclass(frozen=True, slots=True, kw_only=True)
class DisclosureLimits:
    """How many hits by default, at most and at least, loaded tools, and names in a hint.

    None means no limit; 0 loaded tools also means no limit.
    """

    hits: int | None = 5
    max_hits: int | None = 50
    min_hits: int = 1
    loaded: int = 0
    names: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class HintTemplate:
    """What a search without a match replies: which parts, and a message with `{query}` in it."""

    parts: tuple[HintPart, ...] = ("message",)
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeSearch:
    """How to use the provider's own tool search where the surface is `native`.

    `by` says whose ranking finds tools: ours, through the provider's client-executed search, or
    the provider's. `variant` is Anthropic's kind of hosted search. `max_loaded` is how many of
    our hits are loaded, since the model sees no others. For a model without native search,
    `fallback` chooses our own discovery tools, or all definitions.
    """

    by: Literal["us", "provider"] = "us"
    variant: Literal["bm25", "regex"] = "bm25"
    fallback: Literal["ours", "everything"] = "ours"
    max_loaded: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A named set of disclosure choices; vary one with `dataclasses.replace`.

    `selection` filters the tools that exist for its callers. `output_tools` other than `as set`
    stores large results unless the settings say that they are not stored.
    With `needs_deferred_tools` the discovery tools are shown only where there is something to load.
    With `runs_loaded_next_step` a tool that the model loads can be called from its next reply on,
    not in the same one. With `searches_empty_catalog` a search over no tools finds nothing, which
    is an error otherwise.
    With `runs_code` the model may call tools from a program, with `run_code`; with
    `gives_api_specs` it also reads them as OpenAPI documents, with `get_api_spec`.
    `remembers` and `rules` are the features that a toolbox with this profile has by itself: a
    memory of entities and used tools, and rules of use from folders or Markdown files.
    """

    name: str
    summary: str
    metatools: tuple[Metatool, ...]
    matcher: Matcher
    reply: ReplyRenderer
    policy: Policy = _DEFER_ALL
    selection: Filter = _EVERY_TOOL
    output_tools: OutputTools = "as set"
    hiding: Hiding = "omit"
    loading: LoadRule = load_nothing
    prompt: PromptRenderer = no_prompt
    limits: DisclosureLimits = DisclosureLimits()
    no_match_hint: HintTemplate = HintTemplate()
    on_empty: OnEmpty = "error"
    on_unloaded: OnUnloaded = "execute"
    is_strict: bool = True
    surface: SurfaceChoice = "load"
    native: NativeSearch = NativeSearch()
    roster_tokens: int = 0
    searches_deferred_only: bool = False
    searches_empty_catalog: bool = False
    needs_deferred_tools: bool = False
    runs_loaded_next_step: bool = False
    lists_itself: bool = True
    describe: DefinitionRenderer = describe_full
    render_error: ErrorRenderer = plain_error
    expands_related: bool = False
    related_extra: int = 0
    aliases: tuple[tuple[str, str], ...] = ()
    stub_hint: str = ""
    forces_search: bool = False
    skill_style: SkillStyle = "snake"
    skill_matching: SkillMatching = "ranked"
    clears_on_compaction: bool = False
    runs_code: bool = False
    gives_api_specs: bool = False
    remembers: bool = False
    rules: tuple[Path, ...] = ()

    def describe_unmatched_names(self, tools: Iterable[Tool]) -> str:
        """Which names in the options select none of the tools, in words; empty if all do."""
        selections = (self.policy.pinned, self.policy.deferred, self.selection)
        unmatched = [name for s in selections for name in s.unmatched_names(tools)]
        if not unmatched:
            return ""
        return f"No tool, server or category is named {', '.join(dict.fromkeys(unmatched))}."

    def tool_for(self, role: Role) -> Metatool | None:
        """The discovery tool with this role."""
        return next((m for m in self.metatools if m.role == role), None)

    def dispatcher(self) -> Metatool | None:
        """The tool that runs tools outside the list; None if the profile has no discovery."""
        # Any profile can meet a provider whose list is full, so all get `call_tool` as a fallback.
        return self.tool_for("call") or (CALL_TOOL if self.metatools else None)

    def metatools_on(self, surface: Surface) -> tuple[Metatool, ...]:
        """The discovery tools that a surface shows."""
        return tuple(m for m in self.metatools if surface in m.surfaces)
