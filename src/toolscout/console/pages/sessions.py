"""Sessions: the turns of a conversation, and what its model sees now."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from ...store.log_contract import LogFilter
from ...tokens import default_counter
from ..html import Child, tag
from ..journal_view import filter_address, render_conversations, session_link
from ..page import ConsolePage, get
from ..session_reader import KnownSession, SessionView, build_view, read_record, read_unstored
from ..visit import Visit
from ..widgets import code, facts, moment, table
from .live import LIVE_PATH, journal_of, shows_texts

_MAX_SESSIONS = 100
_MAX_ROWS = 200


async def show_sessions(visit: Visit) -> Response:
    """The stored sessions, the last used first."""
    records = await visit.gateway.box.sessions(limit=_MAX_SESSIONS)
    found = await asyncio.to_thread(
        lambda: [read_record(visit.gateway, record) for record in records]
    )
    columns = ("Session", "Principal", "Program", "Last used", "Searches", "Loaded", "Called")
    note = f"The {_MAX_SESSIONS} that were used last." if len(found) == _MAX_SESSIONS else None
    return visit.show(
        "Sessions",
        tag("p", {"class": "muted"}, note) if note else None,
        table("Sessions", columns, map(_cells, found), empty="No session is stored yet."),
    )


def _cells(known: KnownSession) -> tuple[Child, ...]:
    state = known.state
    return (
        session_link(known.id),
        known.principal or "anonymous",
        known.client,
        moment(known.updated) if known.updated else "",
        len(state.searches) if state else known.problem,
        len(state.loaded) if state else "",
        len(state.uses) if state else "",
    )


async def show_session(visit: Visit) -> Response:
    """One session: what is in view, and its turns."""
    key = visit.request.path_params["id"]
    known = await _find_session(visit, key)
    shown = await asyncio.to_thread(build_view, visit.gateway, known)
    rows = await asyncio.to_thread(journal_of(visit).read, LogFilter(session=key), limit=_MAX_ROWS)
    more = filter_address(LIVE_PATH, {"session": key})
    return visit.show(
        f"Session {key[:12]}",
        _render_facts(known, shown),
        tag("h2", None, "In view"),
        _render_view(shown),
        _render_state(visit, known),
        tag("h2", None, "Turns"),
        render_conversations(rows, shows_texts=shows_texts(visit)),
        tag("p", None, tag("a", {"href": more}, "Follow it live")),
    )


async def _find_session(visit: Visit, key: str) -> KnownSession:
    record = await visit.gateway.box.stored_session(key)
    if record is not None:
        return await asyncio.to_thread(read_record, visit.gateway, record)
    return await asyncio.to_thread(read_unstored, visit.gateway, key)


def _render_facts(known: KnownSession, shown: SessionView | None) -> Child:
    return facts(
        [
            ("id", known.id),
            ("principal", known.principal or "anonymous"),
            ("program", known.client),
            ("last used", moment(known.updated) if known.updated else None),
            ("surface", shown.view.surface if shown else None),
            ("problem", known.problem),
        ]
    )


def _render_view(shown: SessionView | None) -> Child:
    if shown is None:
        return tag("p", {"class": "muted"}, "It is not stored, so its view is not known.")
    counter = default_counter()
    text = f"{shown.view.text}\n{shown.view.instructions}"
    return (
        tag("p", None, f"{counter.count(text):,} tokens with the instructions."),
        table("Tools in view", ("Tool", "Why"), shown.tools),
        tag("details", None, tag("summary", None, "Instructions"), code(shown.view.instructions)),
    )


def _render_state(visit: Visit, known: KnownSession) -> Child:
    state = known.state
    if state is None:
        return None
    searches = (
        tag("ol", None, (tag("li", None, text) for text in state.searches))
        if shows_texts(visit)
        else f"{len(state.searches)}"
    )
    return (
        tag("h2", None, "State"),
        facts(
            [
                ("loaded", ", ".join(state.loaded)),
                ("called", ", ".join(state.uses)),
                ("searches", searches),
            ]
        ),
    )


PAGE = ConsolePage("Sessions", "/sessions", (get("", show_sessions), get("/{id}", show_session)))
