"""What clients are shown: the view of their conversation, kept until something in it changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mcp_types as types

from ...search.engine import Allow
from ...sources.mcp.wire import clean_definition
from ...toolbox.session import Session
from ...toolbox.toolbox import Toolbox
from ..lru import LRUCache
from ..operations.savings import Savings
from .sessions import Principal

_MOST = 4_000
_MOST_TOOLS = 20_000
SessionOpener = Callable[[], Awaitable[Session]]
OriginalLookup = Callable[[str], types.Tool | None]
"""The definition that a server sent for a tool of the catalog."""


@dataclass(frozen=True, slots=True)
class ClientView:
    """One view in the protocol's form, and the state it is the view of."""

    tools: tuple[types.Tool, ...]
    instructions: str
    state: Hashable


class ViewCache:
    """Views by conversation; those of clients without one are shared by what they may see."""

    def __init__(self, box: Toolbox, savings: Savings, *, original: OriginalLookup) -> None:
        self._box = box
        self._original = original
        self._savings = savings
        self._views: LRUCache[Hashable, ClientView] = LRUCache(_MOST)
        self._told: LRUCache[str, ClientView] = LRUCache(_MOST)
        self._cleaned: LRUCache[str, tuple[types.Tool, types.Tool | None]] = LRUCache(_MOST_TOOLS)
        self._edition = 0

    def invalidate(self) -> None:
        """Make every view anew: what decides on it is no longer what it was."""
        self._edition += 1

    async def get_view(
        self, caller: Principal, allow: Allow | None, handle: SessionOpener
    ) -> ClientView:
        """What a client sees now; looking again costs nothing while nothing has changed."""
        key: Hashable = caller.session if caller.is_kept else ("passing", allow)
        known = self._views.get(key)
        if known is not None and not caller.is_kept and known.state == self._catalog_state:
            return known
        opened = await handle()
        if known is not None and caller.is_kept and known.state == self._view_state(opened):
            return known
        shown = self._build_view(opened, is_kept=caller.is_kept)
        self._views.put(key, shown)
        return shown

    async def list_tools(
        self, caller: Principal, allow: Allow | None, handle: SessionOpener, *, is_counted: bool
    ) -> Sequence[types.Tool]:
        """The tools of it; the first time a client asks, what it was spared is added up."""
        shown = await self.get_view(caller, allow, handle)
        if is_counted and caller.session not in self._told:
            texts = [t.model_dump_json() for t in shown.tools]
            await self._savings.record_listing(self._box.catalog, texts)
        if caller.is_kept:
            self._told.put(caller.session, shown)
        return shown.tools

    def has_changed(self, handle: Session) -> bool:
        """Whether a client's list is no longer what it was last shown; said once."""
        told = self._told.get(handle.id)
        if told is None or told.state == self._view_state(handle):
            return False
        now = self._build_view(handle, is_kept=True)
        self._views.put(handle.id, now)
        self._told.put(handle.id, now)
        return now.tools != told.tools

    def _view_state(self, handle: Session) -> Hashable:
        return (*self._catalog_state, handle.state.loaded, handle.state.roster)

    @property
    def _catalog_state(self) -> tuple[int, int]:
        return (self._edition, self._box.catalog.version)

    def _tool_definition(self, shown: Mapping[str, Any], name: str) -> types.Tool:
        """A tool as its server defined it, where it came from one; all of its text is cleaned."""
        tool = types.Tool.model_validate(shown)
        original = self._original(name)
        if original is None:
            return tool
        cleaned = self._clean_definition(name, original)
        if cleaned is None:
            return tool
        kept = {"name": tool.name, "description": tool.description, "title": tool.title}
        return cleaned.model_copy(update=kept)

    def _clean_definition(self, name: str, original: types.Tool) -> types.Tool | None:
        known = self._cleaned.get(name)
        if known is None or known[0] is not original:
            known = (original, clean_definition(original))
            self._cleaned.put(name, known)
        return known[1]

    def _build_view(self, handle: Session, *, is_kept: bool) -> ClientView:
        view = handle.view("mcp")
        search = self._box.profile.tool_for("search")
        tools = [self._tool_definition(tool, view.real_name(tool["name"])) for tool in view.tools]
        roster = handle.state.roster
        for tool in tools:
            if search is not None and tool.name == search.name and roster:
                tool.description = f"{tool.description}\n\nWhat there is:\n{roster}"
        return ClientView(
            tools=tuple(tools),
            instructions=view.instructions,
            state=self._view_state(handle) if is_kept else self._catalog_state,
        )
