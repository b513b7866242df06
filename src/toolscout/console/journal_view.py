"""How rows of the journal look: in a list by conversation and turn, and as a full record."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, cast
from urllib.parse import quote, urlencode

from ..journal.reading import current_outcome, row_values
from ..journal.rows import OPEN_KINDS
from ..store.log_contract import LogRow
from .activity import ActivityTurn, Conversation, group_rows, visible_data
from .html import Child, Html, join, tag
from .widgets import code, facts, json_block, moment, table

LIVE_PATH = "/console/live"
SESSIONS_PATH = "/console/sessions"
_SHOWN_HITS = 3
_MAX_QUERY_CHARS = 300
_SESSION_CHARS = 12
_GOOD = frozenset({"ok", "approved", "ready"})
_OPEN = frozenset({"running", "needed", "starting"})
_NOT_RECORDED = 'Texts are shown with record = "full" in the settings; this is their shape.'


def render_conversations(rows: Sequence[LogRow], *, shows_texts: bool) -> Html:
    """All conversations of a page."""
    if not rows:
        return tag("p", {"class": "empty"}, "No rows match.")
    return join(
        _render_conversation(conversation, shows_texts=shows_texts)
        for conversation in group_rows(rows)
    )


def _render_conversation(conversation: Conversation, *, shows_texts: bool) -> Html:
    turns = [_render_turn(turn, shows_texts=shows_texts) for turn in conversation.turns]
    # The id lets htmx recognise the part when it replaces the list.
    key = f"session-{conversation.session[:40] or 'none'}"
    return tag("section", {"class": "card", "id": key}, _render_heading(conversation), turns)


def _render_heading(conversation: Conversation) -> Html:
    if not conversation.session:
        return tag("h2", None, "Without a session")
    row = conversation.newest
    who = " · ".join(part for part in (row.principal or "anonymous", row.client) if part)
    return tag("h2", None, session_link(conversation.session), f" {who}")


def session_link(session: str) -> Html:
    """A link to the page of a session; its long id is cut."""
    address = f"{SESSIONS_PATH}/{quote(session, safe='')}"
    return tag("a", {"href": address, "title": session}, f"Session {session[:_SESSION_CHARS]}")


def _render_turn(turn: ActivityTurn, *, shows_texts: bool) -> Html:
    return _render_rows(turn.rows, shows_texts=shows_texts)


def _render_rows(rows: Sequence[LogRow], *, shows_texts: bool) -> Html:
    """Rows as a tree: the calls of a program are below the row of the program."""
    known = {row.id for row in rows}
    below: dict[str, list[LogRow]] = defaultdict(list)
    for row in rows:
        below[row.parent if row.parent in known else ""].append(row)

    def render(parent: str) -> Html:
        found = [
            _render_row(row, render(row.id) if row.id in below else None, shows_texts=shows_texts)
            for row in below[parent]
        ]
        return tag("ol", {"class": "turn"}, found)

    return render("")


def _render_row(row: LogRow, parts: Child = None, *, shows_texts: bool) -> Html:
    outcome = current_outcome(row, now=time.time())
    took = f"{row.took_ms:,.0f} ms" if row.took_ms is not None else None
    return tag(
        "li",
        {"class": f"row {row.kind}", "id": f"row-{row.id}"},
        tag("span", {"class": "when"}, moment(row.time)),
        tag("span", {"class": "badge"}, row.kind),
        tag("a", {"href": record_path(row)}, _name_row(row)),
        tag("span", {"class": outcome_class(outcome)}, _describe_outcome(row, outcome)),
        tag("span", {"class": "number muted"}, took),
        _summarise(row, visible_data(row, shows_texts=shows_texts)),
        parts,
    )


def _describe_outcome(row: LogRow, outcome: str) -> str:
    # The outcome of a failed call is the code of its error, such as `call` or `timeout`.
    is_failed = row.kind in OPEN_KINDS and outcome not in ("ok", "running", "unknown")
    return f"failed: {outcome}" if is_failed else outcome


def record_path(row: LogRow) -> str:
    """The address of the full record."""
    return f"{LIVE_PATH}/rows/{quote(row.id, safe='')}"


def _name_row(row: LogRow) -> str:
    return row.tool or row.server or row.kind


def outcome_class(outcome: str) -> str:
    """The colour of an outcome."""
    if outcome in _GOOD:
        return "good"
    return "warn" if outcome in _OPEN else "bad"


def _summarise(row: LogRow, data: dict[str, Any]) -> Child:
    match row.kind:
        case "search":
            return _summarise_search(data)
        case "server":
            text = data.get("reason") or ", ".join(
                f"{key}: {value}" for key, value in data.items() if isinstance(value, int | str)
            )
        case "approval" | "refusal" | "gap":
            text = data.get("why") or data.get("reason") or ""
        case _:
            arguments = data.get("arguments", data.get("shape"))
            text = _short(arguments) if arguments else ""
    return tag("span", {"class": "muted detail"}, str(text)[:_MAX_QUERY_CHARS]) if text else None


def _summarise_search(data: dict[str, Any]) -> Child:
    texts = data.get("query_texts")
    if texts:
        asked = " · ".join(f"“{text}”" for text in texts)[:_MAX_QUERY_CHARS]
    else:
        asked = f"{data.get('query_chars', 0)} characters"
    hits = data.get("hits", [])
    best = ", ".join(str(hit[0]) for hit in hits[:_SHOWN_HITS])
    more = f" and {len(hits) - _SHOWN_HITS} more" if len(hits) > _SHOWN_HITS else ""
    found = f"{best}{more}" if hits else "nothing"
    confidence = f"confidence {data.get('confidence', 0):.2f}"
    return tag("span", {"class": "detail"}, f"{asked} → {found} ", tag("em", None, confidence))


def _short(arguments: Any) -> str:
    if not isinstance(arguments, dict):
        return str(arguments)
    pairs = cast("dict[str, Any]", arguments)
    return ", ".join(f"{key}: {value}" for key, value in pairs.items())


# The full record


def render_record(row: LogRow, parts: Sequence[LogRow], *, shows_texts: bool) -> Html:
    """Everything that the journal has of one row."""
    data = visible_data(row, shows_texts=shows_texts)
    values = row_values(row, now=time.time())
    outcome = str(values["outcome"])
    columns = ("principal", "client", "tool", "server", "took_ms", "process", "parent", "id")
    pairs: list[tuple[str, Child]] = [
        ("time", moment(row.time)),
        ("outcome", tag("span", {"class": outcome_class(outcome)}, outcome)),
        ("session", session_link(row.session) if row.session else None),
        *((name, values[name]) for name in columns),
    ]
    others = [
        (key.replace("_", " "), _render_value(value))
        for key, value in data.items()
        if key not in ("hits", "arguments", "shape", "query_texts")
    ]
    return join(
        facts(pairs),
        _render_hits(data),
        _render_request(data, shows_texts=shows_texts),
        (tag("h2", None, "More"), facts(others)) if others else None,
        _render_parts(parts, shows_texts=shows_texts),
    )


def _render_value(value: Any) -> Child:
    if isinstance(value, str | int | float) or value is None:
        return value
    return (
        ", ".join(map(str, cast("list[Any]", value)))
        if isinstance(value, list)
        else json_block(value)
    )


def _render_hits(data: dict[str, Any]) -> Child:
    if "hits" not in data:
        return None
    rows = ((name, score) for name, score in data["hits"])
    found = table("Hits", ("Tool", "Score"), rows, empty="Nothing was found.")
    return tag("h2", None, "Hits"), found


def _render_request(data: dict[str, Any], *, shows_texts: bool) -> Child:
    texts = [tag("h2", None, "Queries"), map(code, data.get("query_texts", ()))]
    request = data.get("arguments", data.get("shape"))
    return (
        texts if data.get("query_texts") else None,
        (tag("h2", None, "Request"), json_block(request)) if request else None,
        None if shows_texts else tag("p", {"class": "muted"}, _NOT_RECORDED),
    )


def _render_parts(parts: Sequence[LogRow], *, shows_texts: bool) -> Child:
    if not parts:
        return None
    return tag("h2", None, "Parts"), _render_rows(parts, shows_texts=shows_texts)


def filter_address(path: str, query: dict[str, str]) -> str:
    """An address with the fields that are set."""
    chosen = {key: value for key, value in query.items() if value}
    return f"{path}?{urlencode(chosen)}" if chosen else path
