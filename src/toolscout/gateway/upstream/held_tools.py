"""Tools that are held for approval: found by name or by a search, with the command to approve."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property

import mcp_types as types
from pydantic import ValidationError

from ...catalog.catalog import Catalog
from ...catalog.tool import Tool, normalise_name
from ...disclosure.scope import is_allowed
from ...errors import CallRefusedError, ToolscoutError
from ...program import command_line, remote_command_line
from ...search.engine import Allow, Engine
from ...search.query import Query, parse_all
from ...sources.mcp import wire
from ...sources.mcp.servers import Server
from .held_ranking import HeldRanker
from .pins import Pin

# The command reaches a model and perhaps a shell, so it quotes only names that are plain. Another
# name could carry instructions or options.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_./][\w./-]{0,127}", re.ASCII)
_MAX_MENTIONS = 3
# Of more held tools than this, those that share the most words with a query are ranked.
_MAX_CANDIDATES = 20
# How alike a misspelled name is to the right one, from 0 to 1.
_MIN_LIKENESS = 0.8
_MAX_NAME_CHARS = 100
# A process has a handful of rules. Those of conversations that ended are dropped at this number.
_MAX_RULES = 64


def pins_command(
    action: str, server: str, *tools: str, write: Callable[..., str] = command_line
) -> str:
    """A `toolscout pins` command for tools, or for their server if a tool's name is unusual."""
    if not all(_PLAIN_NAME.fullmatch(tool) for tool in tools):
        return write("pins", "diff", server)
    return write("pins", action, server, *tools)


def needed_names(held: Sequence[Pin]) -> list[str]:
    """The tools that a command must name to approve all of these; often none."""
    # Without names, the command approves only new and changed tools.
    is_plain = all(pin.standing in ("new", "changed") for pin in held)
    return [] if is_plain else [pin.tool for pin in held]


def approved_tool(server: Server, pin: Pin | None, offered: Tool) -> Tool:
    """A held tool by its approved definition; as offered if no definition was approved."""
    # The new text is what nobody has read yet. It must not decide which searches mention the tool.
    if pin is not None and pin.definition:
        with suppress(ValidationError, ToolscoutError):
            item = types.Tool.model_validate(pin.definition)
            return replace(wire.define_tool(server, item).tool, name=offered.name)
    return offered


@dataclass(frozen=True, slots=True)
class HeldTool:
    """A tool that is held for approval; `server` is the server as `toolscout pins` calls it."""

    tool: Tool
    server: str

    @property
    def approve_command(self) -> str:
        """The command that approves the tool."""
        name = wire.tool_origin(self.tool)[0]
        return pins_command("approve", self.server, name, write=remote_command_line)

    @property
    def suggestion(self) -> str:
        """The tool as the one that a wrong name may mean."""
        return (
            f"Perhaps {self.tool.name}, which is held for approval. The operator of the gateway"
            f" can approve: {self.approve_command}"
        )

    def refusal(self) -> CallRefusedError:
        """The error for a call of the tool."""
        review = pins_command("diff", self.server, write=remote_command_line)
        return CallRefusedError(
            f"{self.tool.name} is held for approval.",
            hint=f"The operator of the gateway can review it ({review})"
            f" and approve it: {self.approve_command}",
        )


@dataclass(frozen=True, slots=True)
class HeldNotice:
    """What a search result says about held tools; `names_tools` if it says which ones fit.

    `line` is the same for the operator, also if the result has said it already. `queries` are those
    that held tools fit.
    """

    text: str = ""
    names_tools: bool = False
    line: str = ""
    queries: tuple[str, ...] = ()


class HeldTools:
    """The held tools of all servers; `labels` are the servers as `toolscout pins` calls them."""

    def __init__(self, tools: Mapping[str, Iterable[Tool]], labels: Mapping[str, str]) -> None:
        self._labels = labels
        self._restricted: dict[Allow, HeldTools] = {}
        self.catalog = Catalog()
        for server, held in tools.items():
            self.catalog = self.catalog.with_source(server, held)

    def restrict(self, allow: Allow | None) -> HeldTools:
        """The held tools that a caller may know, so that no answer depends on the others."""
        if allow is None:
            return self
        if not callable(allow):  # a list or set may change
            return self._restrict(allow)
        if allow not in self._restricted:
            if len(self._restricted) >= _MAX_RULES:
                self._restricted.clear()
            self._restricted[allow] = self._restrict(allow)
        return self._restricted[allow]

    def _restrict(self, allow: Allow) -> HeldTools:
        allowed: dict[str, list[Tool]] = {}
        for tool in self.catalog:
            if is_allowed(tool, allow):
                source = self.catalog.source_of(tool.name) or tool.server
                allowed.setdefault(source, []).append(tool)
        return HeldTools(allowed, self._labels)

    def find(self, name: str, allow: Allow | None) -> tuple[HeldTool, ...]:
        """The tools that a name may mean: with or without the server, in any case style."""
        found = (self.catalog[n] for n in self.catalog.resolve(name))
        return tuple(self._held(tool) for tool in found if is_allowed(tool, allow))

    def find_or_suggest(self, name: str, allow: Allow | None) -> tuple[HeldTool, ...]:
        """The tools that a name may mean, or else those with nearly this name."""
        return self.find(name, allow) or self.suggest(name, allow)

    def suggest(self, name: str, allow: Allow | None) -> tuple[HeldTool, ...]:
        """The tools whose names, with or without the server, differ from a name by a typo."""
        spelled: dict[str, dict[str, Tool]] = {}
        for tool in self.catalog:
            if is_allowed(tool, allow):
                for known in (tool.name, tool.local_name):
                    spelled.setdefault(_fold(known), {})[tool.name] = tool
        near = get_close_matches(_fold(name[:_MAX_NAME_CHARS]), spelled, n=1, cutoff=_MIN_LIKENESS)
        return tuple(self._held(tool) for key in near for tool in spelled[key].values())

    def explain(self, name: str, allow: Allow | None) -> CallRefusedError | None:
        """Why a name cannot be called, if it refers to held tools."""
        found = self.find(name, allow)
        if len(found) < 2:
            return found[0].refusal() if found else None
        names = ", ".join(held.tool.name for held in found)
        commands = "; ".join(held.approve_command for held in found[:_MAX_MENTIONS])
        return CallRefusedError(
            f"{name!r} may mean several tools that are held for approval: {names}.",
            hint=f"The operator of the gateway can approve one: {commands}",
        )

    def search(
        self,
        queries: Sequence[str],
        allow: Allow | None,
        *,
        found: Sequence[Tool],
        ranker: HeldRanker,
    ) -> tuple[HeldTool, ...]:
        """The tools that a search would have found beside, or instead of, the found ones."""
        held: dict[str, HeldTool] = {}
        with suppress(ToolscoutError):  # a malformed query; the search itself reports it
            for query in parse_all(queries):
                chosen = self._search_one(query, allow, found, ranker)
                held |= {each.tool.name: each for each in chosen}
        return tuple(held.values())

    def _search_one(
        self, query: Query, allow: Allow | None, found: Sequence[Tool], ranker: HeldRanker
    ) -> Iterable[HeldTool]:
        if query.is_empty:
            return ()
        if query.select:
            others = Catalog(found)
            absent = (name for name in query.select if not others.resolve(name))
            return (each for name in absent for each in self.find_or_suggest(name, allow))
        if not query.words:  # only filters, or a pattern: every tool that passes
            hits = self._engine.search(query.text, limit=len(self.catalog), allow=allow).hits
            return (self._held(hit.tool) for hit in hits)
        candidates = self._candidates(query.text, allow)
        chosen = ranker.select(query.text, candidates, found) if candidates else ()
        return (self._held(tool) for tool in chosen)

    def notice(
        self,
        queries: Sequence[str],
        allow: Allow | None,
        *,
        reply: str,
        listed: Collection[str],
        found: Sequence[Tool],
        ranker: HeldRanker,
        has_others: bool,
    ) -> HeldNotice:
        """One line about the held tools that a search would have found; empty if there are none.

        `listed` are the tools that the reply names, `found` those of them still in the catalog.
        If not `has_others`, all tools are held, and the line says at least how many there are.
        """
        by_query = {q: self.search([q], allow, found=found, ranker=ranker) for q in queries}
        # A tool may be held since the search began. The reply is about that moment.
        every = {each.tool.name: each for fitting in by_query.values() for each in fitting}
        chosen = [each for name, each in every.items() if name not in listed]
        # The reply to `select:NAME` has explained the tool already.
        held = [each for each in chosen if each.approve_command not in reply]
        if chosen:
            fitted = tuple(query for query, fitting in by_query.items() if fitting)
            text = _mention(held) if held else ""
            return HeldNotice(text, bool(held), line=_mention(chosen), queries=fitted)
        count = self._count_line(allow) if queries and not has_others and not listed else ""
        return HeldNotice(count, line=count)

    def _count_line(self, allow: Allow | None) -> str:
        """For a search where nothing can be found: a few tools by name, or how many there are."""
        held = [self._held(tool) for tool in self.catalog if is_allowed(tool, allow)]
        if len(held) > _MAX_MENTIONS:
            return (
                f"{len(held)} tools are held for approval. The operator of the gateway can see"
                f" them: {remote_command_line('pins', 'list', '--held')}"
            )
        return _mention(held) if held else ""

    def _candidates(self, query: str, allow: Allow | None) -> list[Tool]:
        allowed = [tool for tool in self.catalog if is_allowed(tool, allow)]
        if len(allowed) <= _MAX_CANDIDATES:
            return allowed
        with suppress(ToolscoutError):  # a malformed query; the search itself reports it
            hits = self._engine.search(query, limit=_MAX_CANDIDATES, allow=allow).hits
            return [hit.tool for hit in hits]
        return []

    @cached_property
    def _engine(self) -> Engine:
        # Without vectors: held tools are few, and their vectors are made once they are approved.
        return Engine(self.catalog)

    def _held(self, tool: Tool) -> HeldTool:
        return HeldTool(tool, self._labels.get(tool.server, tool.server))


def _fold(name: str) -> str:
    return normalise_name(name).replace("_", "")


def _mention(held: Sequence[HeldTool]) -> str:
    shown = held[:_MAX_MENTIONS]
    names = ", ".join(each.tool.name for each in shown)
    more = f" and {len(held) - len(shown)} more" if len(held) > len(shown) else ""
    commands = "; ".join(dict.fromkeys(each.approve_command for each in shown))
    return (
        f"Held for approval, so not listed: {names}{more}. The operator of the gateway can"
        f" approve: {commands}"
    )
