"""The tools and instructions that each client sees, cached until something in them changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import mcp_types as types

from ...disclosure.prompts import join_paragraphs
from ...disclosure.rendering import RenderedTool
from ...disclosure.view import View
from ...search.engine import Allow
from ...sources.mcp.wire import clean_definition
from ...toolbox.session import Session
from ...toolbox.toolbox import Toolbox
from ..operations.savings import Savings
from .sessions import LRUCache, Principal

_MAX_VIEWS = 4_000
_MAX_SHARED_VIEWS = 100
_MAX_DEFINITIONS = 20_000
_VIEW_TEXTS = ("text", "instructions", "slots", "instructions_without_slots", "notes")
SessionOpener = Callable[[], Awaitable[Session]]
OriginalLookup = Callable[[str], types.Tool | None]
"""Returns the definition that a server sent for a tool of the catalog."""


@dataclass(frozen=True, slots=True)
class ClientView:
    """A view as MCP definitions, and the state that it was built from."""

    tools: tuple[types.Tool, ...]
    instructions: str
    state: Hashable
    view: View


def _is_same_text(one: View, other: View) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in (*_VIEW_TEXTS, "names"))


class ViewCache:
    """Views by session; clients without a session share one view for each access rule."""

    def __init__(
        self,
        box: Toolbox,
        savings: Savings,
        *,
        get_original: OriginalLookup,
        shows_output_schemas: bool,
    ) -> None:
        self._box = box
        self._get_original = get_original
        self._shows_output_schemas = shows_output_schemas
        self._savings = savings
        self._views: LRUCache[Hashable, ClientView] = LRUCache(_MAX_VIEWS)
        self._shared: LRUCache[Hashable, ClientView] = LRUCache(_MAX_SHARED_VIEWS)
        # What each client listed last, to tell whether it has to be notified of a change.
        self._last_listed: LRUCache[str, ClientView] = LRUCache(_MAX_VIEWS)
        self._cleaned: LRUCache[str, tuple[types.Tool, types.Tool | None]] = LRUCache(
            _MAX_DEFINITIONS
        )
        self._generation = 0

    def invalidate(self) -> None:
        """Rebuild every view, because the configuration changed."""
        self._generation += 1

    async def get_view(
        self, caller: Principal, allow: Allow | None, open_session: SessionOpener
    ) -> ClientView:
        """What a client sees now, from the cache if nothing has changed."""
        keeps_session = caller.keeps_session
        key: Hashable = caller.session if keeps_session else ("transient", allow)
        known = self._views.get(key)
        # Without a session nothing is loaded: the view depends on the catalog and the rule alone,
        # and no session has to be opened to know that it is current.
        if known is not None and not keeps_session and known.state == self._catalog_state:
            return known
        session = await open_session()
        if keeps_session:
            return self.view_of(session)
        view = self._share(self._build_view(session, keeps_session=False))
        session.replace_view(view.view)
        self._views.put(key, view)
        return view

    def view_of(self, session: Session) -> ClientView:
        """What the client of a session sees by the state that is known here."""
        known = self._views.get(session.id)
        if known is not None and known.state == self._view_state(session):
            return known
        view = self._share(self._build_view(session, keeps_session=True))
        session.replace_view(view.view)
        self._views.put(session.id, view)
        return view

    def _share(self, view: ClientView) -> ClientView:
        """The view with the texts and tools of another client's, if these are equal.

        Most clients see the same tools, and their texts are most of the memory of a session.
        """
        known = self._shared.get(view.state)
        if known is None or known.tools != view.tools or not _is_same_text(known.view, view.view):
            self._shared.put(view.state, view)
            return view
        shared = {name: getattr(known.view, name) for name in (*_VIEW_TEXTS, "names", "rendered")}
        return ClientView(
            tools=known.tools,
            instructions=known.instructions,
            state=known.state,
            view=replace(view.view, **shared),
        )

    async def list_tools(
        self,
        caller: Principal,
        allow: Allow | None,
        open_session: SessionOpener,
        *,
        is_counted: bool,
    ) -> Sequence[types.Tool]:
        """The tools that a client sees; its first listing counts towards the savings."""
        view = await self.get_view(caller, allow, open_session)
        if is_counted and caller.session not in self._last_listed:
            texts = (view.view.text, view.view.instructions)
            await self._savings.record_listing(self._box.catalog, texts)
        if caller.keeps_session:
            self._last_listed.put(caller.session, view)
        return view.tools

    def detect_change(self, session: Session) -> bool:
        """Whether a client's list differs from what it listed last; reports each change once."""
        last = self._last_listed.get(session.id)
        if last is None or last.state == self._view_state(session):
            return False
        now = self._share(self._build_view(session, keeps_session=True))
        self._views.put(session.id, now)
        # Recorded as listed, so that one change causes one notification, even if the client is
        # slow to list again.
        self._last_listed.put(session.id, now)
        # The state also changes when a server adds a tool that this list does not show.
        return now.tools != last.tools

    def _view_state(self, session: Session) -> Hashable:
        return (*self._catalog_state, session.state.loaded, session.state.roster)

    @property
    def _catalog_state(self) -> tuple[int, int]:
        return (self._generation, self._box.catalog.version)

    def _tool_definition(self, rendered: RenderedTool) -> types.Tool:
        """A tool as its server defined it, sanitized, under the name and text of the view."""
        tool, name = types.Tool.model_validate(rendered.value), rendered.tool.name
        if not self._shows_output_schemas:
            tool.output_schema = None
        original = self._get_original(name)
        cleaned = self._clean_definition(name, original) if original is not None else None
        if cleaned is None:
            return tool
        from_view: dict[str, Any] = {
            "name": tool.name,
            "description": tool.description,
            "title": tool.title,
        }
        if not self._shows_output_schemas:
            from_view["output_schema"] = None
        if rendered.is_hidden:  # the view has a stub instead of the schema
            from_view["input_schema"] = tool.input_schema
        return cleaned.model_copy(update=from_view)

    def _clean_definition(self, name: str, original: types.Tool) -> types.Tool | None:
        # Cleaning walks the whole schema. A server that lists again sends a new object.
        known = self._cleaned.get(name)
        if known is None or known[0] is not original:
            known = (original, clean_definition(original))
            self._cleaned.put(name, known)
        return known[1]

    def _build_view(self, session: Session, *, keeps_session: bool) -> ClientView:
        view = session.view("mcp", with_memory=False)
        search = self._box.profile.tool_for("search")
        tools = [self._tool_definition(tool) for tool in view.rendered]
        # These are in the instructions too, but not every client passes them to its model, and
        # they are sent only once: a slot that changes reaches the model with the list of tools.
        roster = f"Available tools:\n{session.state.roster}" if session.state.roster else ""
        for tool in tools:
            if search is not None and tool.name == search.name:
                texts = (tool.description or "", roster, *(text for _, text in view.slots))
                tool.description = join_paragraphs(*texts)
        return ClientView(
            tools=tuple(tools),
            instructions=view.instructions,
            state=self._view_state(session) if keeps_session else self._catalog_state,
            view=view,
        )
