"""Try a search as any caller, and see why tools are ranked where they are; try a call."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from starlette.responses import Response

from ...catalog.tool import Tool
from ...errors import CallRefusedError, UnknownToolError
from ...evals.tool_rank import RANK_PROBLEMS, ToolRank, rank_tool
from ...gateway.access import AccessRule
from ...gateway.access_reasons import explain_access
from ...gateway.identity.roles import Identity
from ...search.hit import Hit
from ...toolbox.call_record import CallRecord
from ...toolbox.permissions import (
    ApprovalDecision,
    ApprovalRequest,
    approval_reason,
    ask_unless_safe,
)
from ..callers import caller_fields, known_principals, read_caller
from ..comparison import EMBEDDERS, PROFILES, ComparedEngines, Trial, choose_profile, run_trial
from ..html import Child, Html, tag
from ..page import ConsolePage, get, post
from ..schema_form import read_arguments, render_fields
from ..visit import Visit
from ..widgets import code, facts, field, json_block, select, table, text_input

PATH = "/console/playground"
_DEFAULT_LIMIT = 5
_MAX_LIMIT = 50
_MAX_RESULT_CHARS = 100_000
_CONFIRM = "confirmed"
_engines = ComparedEngines()


@dataclass(frozen=True, slots=True)
class _Question:
    """What the form of the page asks for."""

    query: str
    caller: Identity
    limit: int
    tool: str
    sides: tuple[tuple[str, str], ...]
    """Profile and embedder of each side."""

    @classmethod
    def read(cls, query: Mapping[str, str]) -> _Question:
        limit = query.get("limit", "")
        first = _read_side(query, "")
        second = _read_side(query, "2")
        is_compared = query.get("compare") == "on"
        return cls(
            query=query.get("query", "").strip(),
            caller=read_caller(query),
            limit=min(_MAX_LIMIT, max(1, int(limit))) if limit.isdigit() else _DEFAULT_LIMIT,
            tool=query.get("tool", "").strip(),
            sides=(first, second) if is_compared else (first,),
        )


def _read_side(query: Mapping[str, str], suffix: str) -> tuple[str, str]:
    profile, embedder = query.get(f"profile{suffix}", ""), query.get(f"embedder{suffix}", "")
    return profile if profile in PROFILES else "", embedder if embedder in EMBEDDERS else ""


async def show_playground(visit: Visit) -> Response:
    """The form, and what the search finds for this caller."""
    asked = _Question.read(visit.query)
    gateway = visit.gateway
    rule = gateway.setup.rule_for(asked.caller)
    principals = await asyncio.to_thread(known_principals, gateway)
    parts: list[Child] = [_render_form(visit, asked, principals)]
    if asked.query:
        # Each side in a thread: the first search of a caller indexes what it may see.
        trials = [await asyncio.to_thread(_try_side, visit, asked, rule, s) for s in asked.sides]
        parts.append(tag("div", {"class": "sides"}, map(_render_trial, trials)))
    if asked.query and asked.tool:
        parts.append(await asyncio.to_thread(_explain_tool, visit, asked, rule))
    return visit.show("Playground", *parts)


def _try_side(
    visit: Visit, asked: _Question, rule: AccessRule | None, side: tuple[str, str]
) -> Trial:
    name, embedder = side
    engine = _engines.get(visit.gateway, rule, embedder)
    profile = choose_profile(visit.gateway, name)
    return run_trial(engine, profile, asked.query, limit=asked.limit, embedder=embedder)


# The form


def _render_form(visit: Visit, asked: _Question, principals: tuple[str, ...]) -> Html:
    own = visit.gateway.box.profile.name
    query = text_input("query", asked.query, size=40, required=True, autofocus=not asked.query)
    sides = (*asked.sides, ("", ""))[:2]
    return tag(
        "form",
        {"method": "get", "action": PATH, "role": "search"},
        tag("label", {"class": "field wide"}, tag("span", None, "Query"), query),
        caller_fields(asked.caller, principals),
        field("Hits", text_input("limit", str(asked.limit), type="number", min=1, max=_MAX_LIMIT)),
        field("Why not this tool", text_input("tool", asked.tool, size=20)),
        _render_side_fields(sides[0], "", own),
        tag(
            "label",
            {"class": "field"},
            tag("span", None, "Compare with"),
            tag("input", {"type": "checkbox", "name": "compare", "checked": len(asked.sides) > 1}),
        ),
        _render_side_fields(sides[1], "2", own),
        tag("button", {"class": "main"}, "Search"),
    )


def _render_side_fields(side: tuple[str, str], suffix: str, own: str) -> tuple[Html, Html]:
    number = f" {suffix}" if suffix else ""
    profiles = [("", f"as configured ({own})"), *((name, name) for name in PROFILES)]
    return (
        field(f"Profile{number}", select(f"profile{suffix}", profiles, side[0])),
        field(f"Embedder{number}", select(f"embedder{suffix}", EMBEDDERS.items(), side[1])),
    )


# The answer


def _render_trial(trial: Trial) -> Html:
    results = trial.results
    style = {"likely": "good", "unsure": "warn"}.get(results.verdict or "", "bad")
    # Judged results have no hits where nothing fits, but the names are near.
    near = ", ".join(results.near)
    return tag(
        "section",
        {"class": "card", "aria-label": f"{trial.profile}, embedder {trial.embedder}"},
        tag("h2", None, f"Profile {trial.profile}, embedder {trial.embedder}"),
        facts(
            [
                ("verdict", tag("span", {"class": style}, results.verdict)),
                ("confidence", f"{results.confidence:.2f}"),
                ("reply", f"{trial.reply_tokens:,} tokens" if trial.reply else "no search tool"),
                ("took", f"{results.took_ms:.1f} ms"),
                ("near", near),
                ("notes", " ".join(results.notes)),
            ]
        ),
        table(
            "Hits",
            ("Tool", "Score", "Why"),
            ((_tool_link(h.name), f"{h.score:.3f}", _render_reasons(h)) for h in results.hits),
            empty="Nothing fits.",
        ),
        tag("details", None, tag("summary", None, "The reply that the model reads"),
            code(trial.reply)) if trial.reply else None,
    )  # fmt: skip


def _render_reasons(hit: Hit) -> Html:
    reasons = [
        tag(
            "li",
            None,
            tag("strong", None, reason.arm),
            f" {reason.score:+.3f}",
            f" in {reason.field}" if reason.field else "",
            f": {', '.join(reason.words)}" if reason.words else "",
        )
        for reason in hit.why
    ]
    rest = hit.score - sum(reason.score for reason in hit.why)
    if abs(rest) >= 0.0005:
        text = f" {rest:+.3f}: its server, missing words, diversity"
        reasons.append(tag("li", None, tag("strong", None, "other"), text))
    return tag("ul", {"class": "reasons"}, reasons)


def _tool_link(name: str) -> Html:
    return tag("a", {"href": f"{PATH}/tools/{quote(name, safe='')}"}, name)


def _explain_tool(visit: Visit, asked: _Question, rule: AccessRule | None) -> Html:
    engine = _engines.get(visit.gateway, rule, asked.sides[0][1])
    found = rank_tool(engine, asked.query, asked.tool)
    return tag(
        "section",
        {"class": "card", "aria-label": "Rank of the tool"},
        tag("h2", None, "Why not ", tag("code", None, asked.tool)),
        _render_rank(found) if not found.problem else tag("p", None, RANK_PROBLEMS[found.problem]),
        _render_access(visit, asked) if found.problem == "unknown" else None,
    )


def _render_rank(found: ToolRank) -> Child:
    if found.rank is None:
        return tag("p", None, "No ranker has anything to say about this query.")
    rows = (
        (
            arm.arm,
            arm.rank if arm.rank is not None else "not found",
            f"{arm.score:+.3f}",
            f"{arm.best:+.3f}",
            arm.field,
            ", ".join(arm.words),
        )
        for arm in found.arms
    )
    columns = ("Ranker", "Rank", "Score", "Best score", "Field", "Words")
    place = f"Rank {found.rank:,} of {found.tools:,} tools, with a score of {found.score:.3f}."
    return tag("p", None, place), table("Rank by ranker", columns, rows)


def _render_access(visit: Visit, asked: _Question) -> Child:
    tool = visit.gateway.box.catalog.get(asked.tool)
    if tool is None:
        return tag("p", None, "It is not in the catalog: it may be held for approval.")
    reason = explain_access(visit.gateway.setup.settings.policies, asked.caller, tool)
    return tag("p", None, reason.text)


# A tool, and a call of it


def find_tool(visit: Visit) -> Tool:
    """The tool that the address names, if the admin may see it."""
    name = visit.request.path_params["name"]
    rule = visit.gateway.setup.rule_for(visit.identity)
    tool = visit.gateway.box.visible_catalog(rule).get(name)
    if tool is None:
        raise UnknownToolError(f"There is no tool {name!r} that you may use.", hint="Search again.")
    return tool


async def show_tool(visit: Visit) -> Response:
    """A tool with its definition, and a form to call it."""
    return _show_tool(visit, find_tool(visit))


def _show_tool(visit: Visit, tool: Tool, outcome: Child = None) -> Response:
    schema = tool.parameters.value
    return visit.show(
        tool.name,
        tag("p", {"class": "description"}, tool.description or "It has no description."),
        outcome,
        tag("h2", None, "Call it"),
        tag(
            "form",
            {"method": "post", "action": f"{PATH}/tools/{quote(tool.name, safe='')}"},
            visit.csrf_field(),
            render_fields(schema),
            _render_confirmation(tool),
            tag("button", {"class": "main"}, "Run"),
        ),
        tag("p", {"class": "muted"}, f"It runs as {visit.identity.name or 'an anonymous caller'}."),
        tag("h2", None, "Definition"),
        facts([("server", tool.server), ("category", tool.category), ("hints", _hints(tool))]),
        json_block(schema),
    )


def _hints(tool: Tool) -> str:
    hints = tool.annotations
    if hints is None:
        return "none"
    names = ("read_only", "destructive", "idempotent", "open_world")
    return ", ".join(f"{n}: {getattr(hints, n)}" for n in names if getattr(hints, n) is not None)


def _render_confirmation(tool: Tool) -> Child:
    if ask_unless_safe(tool) != "ask":
        return None
    label = tag("span", None, f"Run it although {approval_reason(tool)}")
    box = tag("input", {"type": "checkbox", "name": _CONFIRM, "value": "yes", "required": True})
    return tag("label", {"class": "field"}, label, box)


async def call_tool(visit: Visit) -> Response:
    """Run the tool as the admin, under the admin's own policies; the journal has the call."""
    tool = find_tool(visit)
    is_confirmed = visit.form.get(_CONFIRM) == "yes"
    if ask_unless_safe(tool) == "ask" and not is_confirmed:
        raise CallRefusedError(
            f"{tool.name} was not run: {approval_reason(tool)}.", hint="Confirm it in the form."
        )

    def approve(_: ApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision(is_confirmed, "" if is_confirmed else "it was not confirmed")

    arguments = read_arguments(tool.parameters.value, visit.form)
    record = await visit.gateway.clients.call_as(
        visit.identity, tool.name, arguments, approver=approve
    )
    return _show_tool(visit, tool, _render_outcome(record, arguments))


def _render_outcome(record: CallRecord, arguments: Mapping[str, object]) -> Html:
    text = record.full.text
    cut = f" The first {_MAX_RESULT_CHARS:,} characters:" if len(text) > _MAX_RESULT_CHARS else ""
    style = "bad" if record.result.is_error else "good"
    outcome = tag("strong", {"class": style}, record.outcome)
    return tag(
        "section",
        {"class": "card", "aria-label": "Result", "role": "status"},
        tag("h2", None, "Result"),
        tag("p", None, outcome, f" after {record.took_ms:,.0f} ms.{cut}"),
        code(text[:_MAX_RESULT_CHARS]),
        tag("details", None, tag("summary", None, "Arguments"), json_block(arguments)),
    )


PAGE = ConsolePage(
    "Playground",
    "/playground",
    (
        get("", show_playground),
        get("/tools/{name}", show_tool),
        post("/tools/{name}", call_tool),
    ),
)
