"""Searches, calls and approvals as they happen, and the journal behind them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from http import HTTPStatus

from starlette.responses import Response

from ...errors import QueryError
from ...store.log_contract import LogFilter, LogRow, LogStore
from ..activity import (
    PAGE_ROWS,
    find_sequence,
    fingerprint,
    parse_moment,
    read_filter,
    read_rows,
)
from ..html import Child, Html, tag
from ..journal_view import LIVE_PATH, filter_address, render_conversations, render_record
from ..page import ConsolePage, get
from ..visit import Visit
from ..widgets import field, select, text_input

_FIELDS = ("server", "tool", "principal", "outcome", "kind", "session")
_KINDS = ("search", "call", "read", "refusal", "approval", "server", "gap")
_OUTCOMES = ("ok", "error", "running", "unknown_tool", "refused", "approved", "denied", "needed")
_POLL_SECONDS = 0.5
# A comment now and then shows a proxy, and this server, that the browser is still there.
_KEEP_ALIVE_POLLS = 30
_MAX_VIEWERS = 32
_MAX_PARTS = 200
_OFF = 'Nothing is recorded: record = "off" in the settings.'


class _Viewers:
    """Counts open streams: each of them polls the journal."""

    def __init__(self) -> None:
        self.count = 0


_viewers = _Viewers()


def journal_of(visit: Visit) -> LogStore:
    """The rows of all workers and gateways that share the store."""
    return visit.gateway.operations.journal.store


def shows_texts(visit: Visit) -> bool:
    """Whether texts of requests may be shown."""
    return visit.gateway.setup.config.record == "full"


async def show_live(visit: Visit) -> Response:
    """The newest rows, which follow the journal, or an older page of it."""
    log, query = journal_of(visit), dict(visit.query)
    if until := query.pop("until", ""):
        moment = parse_moment(until)
        query["before"] = str(await asyncio.to_thread(find_sequence, log, moment))
    where = read_filter(query)
    rows = await asyncio.to_thread(read_rows, log, where)
    content = render_conversations(rows, shows_texts=shows_texts(visit))
    return visit.show(
        "Live",
        tag("p", {"class": "error"}, _OFF) if visit.gateway.setup.config.record == "off" else None,
        _render_filters(query, until),
        _render_list(query, content, is_live=not where.before),
        _render_paging(query, rows),
    )


def _render_filters(query: dict[str, str], until: str) -> Html:
    kinds = [("", "any"), *((kind, kind) for kind in _KINDS)]
    known = [tag("option", {"value": outcome}) for outcome in _OUTCOMES]
    return tag(
        "form",
        {"method": "get", "action": LIVE_PATH, "role": "search", "aria-label": "Filters"},
        field("Server", text_input("server", query.get("server", ""), size=12)),
        field("Tool", text_input("tool", query.get("tool", ""), size=18)),
        field("Principal", text_input("principal", query.get("principal", ""), size=12)),
        field("Outcome", text_input("outcome", query.get("outcome", ""), size=10, list="outcomes")),
        tag("datalist", {"id": "outcomes"}, known),
        field("Kind", select("kind", kinds, query.get("kind", ""))),
        field("Before (UTC)", text_input("until", until, type="datetime-local")),
        _hidden("session", query.get("session", "")),
        tag("button", {"class": "main"}, "Show"),
        tag("a", {"href": LIVE_PATH}, "Clear"),
    )


def _hidden(name: str, value: str) -> Child:
    return tag("input", {"type": "hidden", "name": name, "value": value}) if value else None


def _render_list(query: dict[str, str], content: Html, *, is_live: bool) -> Html:
    attributes = {"id": "rows"}
    if is_live:
        address = filter_address(f"{LIVE_PATH}/events", query)
        # Morphing keeps the focus and the place on the page.
        attributes |= {"hx-sse:connect": address, "hx-swap": "innerMorph"}
    return tag("div", attributes, content)


def _render_paging(query: dict[str, str], rows: tuple[LogRow, ...]) -> Child:
    links: list[Html] = []
    if "before" in query:
        newest = {**query, "before": ""}
        links.append(tag("a", {"href": filter_address(LIVE_PATH, newest)}, "Newest"))
    if len(rows) == PAGE_ROWS:
        older = {**query, "before": str(rows[-1].sequence)}
        links.append(tag("a", {"href": filter_address(LIVE_PATH, older), "rel": "next"}, "Older"))
    return tag("nav", {"class": "paging", "aria-label": "Older rows"}, links) if links else None


async def stream_rows(visit: Visit) -> Response:
    """The list again whenever it changes; rows of other workers are in the journal too."""
    if _viewers.count >= _MAX_VIEWERS:
        return visit.show_part(
            tag("p", {"class": "error"}, "Too many pages are open. Close some of them."),
            status=HTTPStatus.SERVICE_UNAVAILABLE,
        )
    where = replace(read_filter(dict(visit.query)), before=0)
    return visit.stream(_follow(visit, where))


async def _follow(visit: Visit, where: LogFilter) -> AsyncIterator[tuple[str, Html]]:
    log, seen, polls = journal_of(visit), "", 0
    _viewers.count += 1
    try:
        while True:
            rows = await asyncio.to_thread(read_rows, log, where)
            now = fingerprint(rows)
            if now != seen:
                seen = now
                yield "", render_conversations(rows, shows_texts=shows_texts(visit))
            elif polls % _KEEP_ALIVE_POLLS == 0:
                yield "", Html("")
            polls += 1
            await asyncio.sleep(_POLL_SECONDS)
    finally:
        _viewers.count -= 1


async def show_record(visit: Visit) -> Response:
    """One row with all its fields and parts."""
    log, key = journal_of(visit), visit.request.path_params["id"]
    row = next((r for r in await asyncio.to_thread(log.find, key) if r.id == key), None)
    if row is None:
        raise QueryError("The journal has no such row.", hint="Old rows are deleted.")
    parts = await asyncio.to_thread(
        log.read, LogFilter(parent=row.id), limit=_MAX_PARTS, is_newest_first=False
    )
    title = f"{row.kind.capitalize()}: {row.tool or row.server or row.id}"
    return visit.show(title, render_record(row, parts, shows_texts=shows_texts(visit)))


PAGE = ConsolePage(
    "Live",
    "/live",
    (get("", show_live), get("/events", stream_rows), get("/rows/{id}", show_record)),
)
