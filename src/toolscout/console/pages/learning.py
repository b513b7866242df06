"""What search has learned from calls, tool by tool, and a reset for each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.responses import Response

from ...errors import QueryError
from ...gateway.gateway import Gateway
from ...learning.summary import LearnedTool, LearningSummary, ShadowFigures, summarise
from ...learning.training import LearnedModel
from ...store.factory import has_store, is_store_kept
from ...toolbox.learning_settings import open_replay_buffer
from ..html import Child, Html, tag
from ..page import ConsolePage, act, get
from ..visit import Visit
from ..widgets import facts, field, moment, table, text_input

PATH = "/console/learning"
_MAX_TOOLS = 200
_MODES = {
    "on": "on: calls are learned, and searches use what was learned.",
    "shadow": "shadow: calls are learned, and searches do not use it. Its gain is measured.",
    "off": "off: nothing is learned, and searches do not use what was learned before.",
}
_NO_VECTORS = "Learning compares requests by their vectors, and embedder is none."
_NOTHING = "Nothing was learned yet. Calls after searches are learned unless learning is off."


async def show_learning(visit: Visit) -> Response:
    """The mode, the gain that shadow mode measured, and every tool."""
    summary = await asyncio.to_thread(_read_summary, visit.gateway)
    wanted = visit.query.get("tool", "").strip()
    if summary is None:
        return visit.show("Learning", _describe_mode(visit), tag("p", None, _NO_VECTORS))
    counts = [("observations", summary.observations), ("principals", summary.principals)]
    return visit.show(
        "Learning",
        _describe_mode(visit),
        [tag("p", {"class": "error"}, problem) for problem in summary.problems],
        facts([*counts, ("tools", len(summary.tools))]),
        tag("h2", None, "Gain"),
        _render_gain(summary.shadow),
        tag("h2", None, "Tools"),
        _render_tools(visit, summary.tools, wanted) if summary.tools else tag("p", None, _NOTHING),
        visit.login_hint(),
    )


def _read_summary(gateway: Gateway) -> LearningSummary | None:
    """What was learned; None without vectors."""
    learner, config = gateway.box.learner, gateway.setup.config
    if learner is not None:
        return learner.summarise()
    embedders = gateway.box.engine_for(None).embedders
    if not embedders:
        return None
    if not (is_store_kept(config) and has_store(config)):
        return summarise((), LearnedModel(), {})
    # Learning is off: what was learned before lifts nothing, and may still be reset.
    with open_replay_buffer(config, embedders[0]) as buffer:
        rows, counts = buffer.read(), buffer.counts()
        return summarise(rows, LearnedModel(), counts, problems=buffer.problems.values())


def _describe_mode(visit: Visit) -> Html:
    return tag("p", None, "Learning is ", _MODES[visit.gateway.setup.config.learning])


def _render_gain(shadow: ShadowFigures) -> Child:
    if not shadow.calls:
        text = 'Not measured. With learning = "shadow", each call after a search is compared.'
        return tag("p", {"class": "muted"}, text)
    rows = [
        ("without past use", *map(_percent, shadow.without.values())),
        ("with past use", *map(_percent, shadow.learned.values())),
        ("gain", *(_gain(shadow, depth) for depth in shadow.without)),
    ]
    columns = ("", *(f"Recall at {depth}" for depth in shadow.without))
    return (
        tag("p", None, f"Of {shadow.calls:,} calls of a tool that a search had listed."),
        table("Gain", columns, rows),
    )


def _percent(share: float) -> Html:
    return tag("span", {"class": "number"}, f"{share:.1%}")


def _gain(shadow: ShadowFigures, depth: int) -> Html:
    points = (shadow.learned[depth] - shadow.without[depth]) * 100
    style = "good" if points > 0 else "bad" if points < 0 else "muted"
    return tag("strong", {"class": style}, f"{points:+.1f} points")


def _render_tools(visit: Visit, tools: Sequence[LearnedTool], wanted: str) -> Child:
    found = [tool for tool in tools if wanted.lower() in tool.name.lower()]
    columns = ("Tool", "Observations", "Principals", "Last use", "Lift, at most", "Forget")
    rows = [
        (
            tool.name,
            tool.observations,
            tool.principals,
            moment(tool.last_used),
            tool.lift,
            _render_reset(visit, tool) if visit.may_act else None,
        )
        for tool in found[:_MAX_TOOLS]
    ]
    more = f"The {_MAX_TOOLS} most used of {len(found):,}." if len(found) > _MAX_TOOLS else None
    form = {"method": "get", "action": PATH, "role": "search", "aria-label": "Filter"}
    return (
        tag(
            "form",
            form,
            field("Part of a name", text_input("tool", wanted, size=30)),
            tag("button", {"class": "main"}, "Show"),
        ),
        tag("p", {"class": "muted"}, more) if more else None,
        table("Tools", columns, rows, empty="No tool matches."),
    )


def _render_reset(visit: Visit, tool: LearnedTool) -> Html:
    # Two steps: what is forgotten does not come back.
    summary = tag("summary", {"aria-label": f"Reset {tool.name}"}, "Reset")
    button = visit.button("Forget it for good", f"{PATH}/reset", tool=tool.name)
    return tag("details", None, summary, button)


async def reset_tool(visit: Visit) -> Response:
    """Forget what was learned for one tool, in all gateways that share the store."""
    name = visit.form.get("tool", "")
    removed = await asyncio.to_thread(_forget, visit.gateway, name)
    if not removed:
        raise QueryError(f"Nothing was learned for {name!r}.", hint="It may be forgotten already.")
    noun = "observation" if removed == 1 else "observations"
    return visit.go_to(PATH, notice=f"Forgotten: {removed:,} {noun} of {name}.")


def _forget(gateway: Gateway, name: str) -> int:
    learner, config = gateway.box.learner, gateway.setup.config
    if learner is not None:
        return learner.reset_tool(name)
    embedders = gateway.box.engine_for(None).embedders
    if not embedders or not (is_store_kept(config) and has_store(config)):
        return 0
    with open_replay_buffer(config, embedders[0]) as buffer:
        return buffer.remove(lambda row: row.without_tool(name))


PAGE = ConsolePage("Learning", "/learning", (get("", show_learning), act("/reset", reset_tool)))
