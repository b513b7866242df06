"""What clients are shown: the view of their conversation, kept until something in it changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mcp_types as types

from ..catalog.sources.mcp.wire import presentable
from ..search.engine import Allow
from ..toolbox.box import Toolbox
from ..toolbox.handle import Handle
from .recent import Recent
from .savings import Savings
from .sessions import Who

_MOST = 4_000
_MOST_TOOLS = 20_000
Open = Callable[[], Awaitable[Handle]]
Original = Callable[[str], types.Tool | None]
"""The definition that a server sent for a tool of the catalog."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One view in the protocol's form, and the state it is the view of."""

    tools: tuple[types.Tool, ...]
    instructions: str
    state: Hashable


class Showing:
    """Views by conversation; those of clients without one are shared by what they may see."""

    def __init__(self, box: Toolbox, savings: Savings, *, original: Original) -> None:
        self._box = box
        self._original = original
        self._savings = savings
        self._views: Recent[Hashable, Shown] = Recent(_MOST)
        self._told: Recent[str, Shown] = Recent(_MOST)
        self._cleaned: Recent[str, tuple[types.Tool, types.Tool | None]] = Recent(_MOST_TOOLS)
        self._edition = 0

    def renew(self) -> None:
        """Make every view anew: what decides on it is no longer what it was."""
        self._edition += 1

    async def shown(self, caller: Who, allow: Allow | None, handle: Open) -> Shown:
        """What a client sees now; looking again costs nothing while nothing has changed."""
        key: Hashable = caller.session if caller.is_kept else ("passing", allow)
        known = self._views.get(key)
        if known is not None and not caller.is_kept and known.state == self._passing:
            return known
        opened = await handle()
        if known is not None and caller.is_kept and known.state == self._state(opened):
            return known
        shown = self._made(opened, is_kept=caller.is_kept)
        self._views.put(key, shown)
        return shown

    async def listed(
        self, caller: Who, allow: Allow | None, handle: Open, *, is_counted: bool
    ) -> Sequence[types.Tool]:
        """The tools of it; the first time a client asks, what it was spared is added up."""
        shown = await self.shown(caller, allow, handle)
        if is_counted and caller.session not in self._told:
            texts = [t.model_dump_json() for t in shown.tools]
            await self._savings.listed(self._box.catalog, texts)
        if caller.is_kept:
            self._told.put(caller.session, shown)
        return shown.tools

    def has_changed(self, handle: Handle) -> bool:
        """Whether a client's list is no longer what it was last shown; said once."""
        told = self._told.get(handle.id)
        if told is None or told.state == self._state(handle):
            return False
        now = self._made(handle, is_kept=True)
        self._views.put(handle.id, now)
        self._told.put(handle.id, now)
        return now.tools != told.tools

    def _state(self, handle: Handle) -> Hashable:
        return (*self._passing, handle.state.loaded, handle.state.roster)

    @property
    def _passing(self) -> tuple[int, int]:
        return (self._edition, self._box.catalog.version)

    def _defined(self, shown: Mapping[str, Any], name: str) -> types.Tool:
        """A tool as its server defined it, where it came from one; all of its text is cleaned."""
        tool = types.Tool.model_validate(shown)
        original = self._original(name)
        if original is None:
            return tool
        cleaned = self._presentable(name, original)
        if cleaned is None:
            return tool
        kept = {"name": tool.name, "description": tool.description, "title": tool.title}
        return cleaned.model_copy(update=kept)

    def _presentable(self, name: str, original: types.Tool) -> types.Tool | None:
        known = self._cleaned.get(name)
        if known is None or known[0] is not original:
            known = (original, presentable(original))
            self._cleaned.put(name, known)
        return known[1]

    def _made(self, handle: Handle, *, is_kept: bool) -> Shown:
        view = handle.view("mcp")
        search = self._box.profile.tool_for("search")
        tools = [self._defined(tool, view.real(tool["name"])) for tool in view.tools]
        roster = handle.state.roster
        for tool in tools:
            if search is not None and tool.name == search.name and roster:
                tool.description = f"{tool.description}\n\nWhat there is:\n{roster}"
        return Shown(
            tools=tuple(tools),
            instructions=view.instructions,
            state=self._state(handle) if is_kept else self._passing,
        )
