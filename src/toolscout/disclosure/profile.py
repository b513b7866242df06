"""A profile: the few choices that make one way of disclosing tools, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .matcher import LoadRule, Matcher, load_nothing
from .metatools import CALL_TOOL, Metatool, Role
from .prompts import PromptRenderer, no_prompt
from .reply import DefinitionRenderer, ErrorRenderer, ReplyRenderer, describe_full, plain_error
from .scope import Policy
from .surface import Surface, SurfaceChoice

Hiding = Literal["omit", "stub", "prompt"]
"""How a waiting tool is hidden: left out, its schema hollowed out, or only not described."""

OnEmpty = Literal["all", "browse", "none", "error"]
"""What a search for nothing gives: everything, the first few, nothing, or an error."""

OnUnloaded = Literal["execute", "reject", "load"]
"""What a call of a waiting tool does: run, be refused with its schema, or load it and say so."""

HintPart = Literal["categories", "names", "message"]

_EVERYTHING_WAITS = Policy()


@dataclass(frozen=True, slots=True, kw_only=True)
class DisclosureLimits:
    """How many: hits by default and at most, loaded tools, names in a hint; None is no limit."""

    hits: int | None = 5
    most: int | None = 50
    least: int = 1
    loaded: int = 0
    names: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class HintTemplate:
    """What is said when nothing matched: which parts, and the sentence (`{query}` is the query)."""

    parts: tuple[HintPart, ...] = ("message",)
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeSearch:
    """How the provider's own tool search is used where a profile's surface is `native`.

    `by` is whose ranking finds tools: ours through the provider's client-executed search, or the
    provider's. `variant` is Anthropic's kind of hosted search. `most` is how many hits of ours are
    loaded, since the model sees no others. A model that has neither falls back to our own
    discovery tools, or, with `everything`, gets all definitions.
    """

    by: Literal["us", "provider"] = "us"
    variant: Literal["bm25", "regex"] = "bm25"
    fallback: Literal["ours", "everything"] = "ours"
    most: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A named set of disclosure choices; vary one with `dataclasses.replace`."""

    name: str
    summary: str
    metatools: tuple[Metatool, ...]
    matcher: Matcher
    reply: ReplyRenderer
    policy: Policy = _EVERYTHING_WAITS
    hiding: Hiding = "omit"
    loading: LoadRule = load_nothing
    prompt: PromptRenderer = no_prompt
    limits: DisclosureLimits = DisclosureLimits()
    advice: HintTemplate = HintTemplate()
    on_empty: OnEmpty = "error"
    on_unloaded: OnUnloaded = "execute"
    is_strict: bool = True
    surface: SurfaceChoice = "load"
    native: NativeSearch = NativeSearch()
    roster_tokens: int = 0
    searches_waiting_only: bool = False
    lists_itself: bool = True
    describe: DefinitionRenderer = describe_full
    render_error: ErrorRenderer = plain_error
    expands_related: bool = False
    related_extra: int = 0
    aliases: tuple[tuple[str, str], ...] = ()
    stub_hint: str = ""
    forces_search: bool = False
    clears_on_compaction: bool = False

    def tool_for(self, role: Role) -> Metatool | None:
        """The discovery tool that plays a role here."""
        return next((m for m in self.metatools if m.role == role), None)

    def dispatcher(self) -> Metatool | None:
        """What runs a tool that is not in the list, where something can be found at all."""
        return self.tool_for("call") or (CALL_TOOL if self.metatools else None)

    def metatools_on(self, surface: Surface) -> tuple[Metatool, ...]:
        """The discovery tools that a surface shows."""
        return tuple(m for m in self.metatools if surface in m.shown)
