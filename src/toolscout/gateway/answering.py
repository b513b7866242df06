"""One call and its answer: what is written down about it, and what is added to it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import mcp_types as types

from ..catalog.result import Content, Result
from ..catalog.sources.mcp.exchange import CURRENT
from ..disclosure.asking import names_in, read_search
from ..disclosure.profile import Profile
from ..errors import CallRefused, SourceError, ToolscoutError, UnknownTool
from ..events import Event
from ..search.query import parse_all
from ..toolbox.approval import Answer, Approval
from .audit import shape
from .policies import Rule
from .sessions import Who
from .trust import refusal
from .upstreams import Upstreams

UPSTREAM = "upstream:"
TOOL_META = "toolscout/tool"


@dataclass(frozen=True, slots=True)
class Asked:
    """A client's call, and what happened while it ran."""

    caller: Who
    name: str
    arguments: Mapping[str, Any]
    happened: list[Event] = field(default_factory=list[Event])
    started: float = field(default_factory=time.perf_counter)

    @property
    def ran(self) -> Mapping[str, Any]:
        """What the toolbox says of the tool that really ran; nothing if none did."""
        found = [e.facts for e in self.happened if e.kind == "tool_call"]
        return found[-1] if found else {}

    @property
    def has_found(self) -> bool:
        """Whether a search found anything."""
        found = (e.facts for e in self.happened if e.kind == "tool_discovery_result")
        return any(facts.get("names") for facts in found)

    def is_bridged(self, profile: Profile) -> bool:
        """Whether the tool is called through another."""
        bridge = profile.tool_for("call")
        return bridge is not None and self.name == bridge.name

    def inner(self, profile: Profile) -> str:
        """The name of the tool that was meant."""
        named = self.arguments.get("name") if self.is_bridged(profile) else None
        return str(named or self.name)

    def named(self, profile: Profile) -> tuple[str, ...]:
        """The tools that a call is about, as far as it names them: to be run, described, found."""
        tool = next((m for m in profile.metatools if m.name == self.name), None)
        if tool is None or tool.role == "call":
            return (self.inner(profile),)
        with suppress(ToolscoutError):  # what is wrong with the arguments is told by the call
            if tool.role in ("describe", "load"):
                return names_in(tool, self.arguments)
            if tool.role == "search":
                queries = parse_all(read_search(profile, tool, self.arguments).queries)
                return tuple(name for query in queries for name in query.select)
        return ()

    def row(self, profile: Profile, outcome: str) -> dict[str, Any]:
        """The line of the audit log: always the inner tool, never the bridge to it."""
        given = self.arguments
        if self.is_bridged(profile):
            beside = {k: v for k, v in given.items() if k not in ("name", "arguments")}
            given = given.get("arguments") or beside
        return {
            "principal": self.caller.principal or "anonymous",
            "session": self.caller.session[:12],
            "tool": str(self.ran.get("tool") or self.inner(profile)),
            "server": self.ran.get("server", ""),
            "arguments": shape(given),
            "outcome": outcome,
            "took_ms": round((time.perf_counter() - self.started) * 1_000, 1),
        }


async def ask_user(approval: Approval) -> Answer:
    """Ask the user through the client that called."""
    front = CURRENT.get()
    if front is None:
        return Answer(is_approved=False, reason="nobody can be asked")
    said = await front.answer(
        types.ElicitRequest(
            params=types.ElicitRequestFormParams(
                message=f"Run {approval.tool.name}? {approval.why}.",
                requested_schema={"type": "object", "properties": {}},
            )
        )
    )
    if isinstance(said, types.ErrorData):
        return Answer(is_approved=False, reason=f"it needs a yes, but {said.message}")
    return Answer(is_approved=isinstance(said, types.ElicitResult) and said.action == "accept")


def noted(result: Result, missing: Sequence[str]) -> Result:
    """A search's answer, with the servers that it could not look into."""
    if not missing:
        return result
    note = f"Not searched, still starting or out of reach: {', '.join(missing)}."
    return replace(result, content=(*result.content, Content(text=note)), raw=None)


def waited_for(result: Result, held: int, *, is_empty: bool) -> Result:
    """The answer of a search that found nothing, with how much waits for a yes."""
    if not held:
        return result
    tools = "1 tool is held back until" if held == 1 else f"{held} tools are held back until"
    note = f"{tools} approved. Whoever runs the gateway can see them: toolscout pins list --held"
    # Where nothing else is there, that is the whole answer.
    content = () if is_empty else result.content
    return replace(result, content=(*content, Content(text=note)), raw=None)


def awaited(names: Sequence[str], upstreams: Upstreams, rule: Rule | None) -> list[str]:
    """The servers that tools are still to come from, as far as the caller may know of them."""
    late = dict.fromkeys(server for name in names for server in upstreams.late(name))
    return [n for n in late if rule is None or rule.admits_server(n)]


def explained(
    result: Result, names: Sequence[str], upstreams: Upstreams, rule: Rule | None
) -> Result:
    """A refusal that knows why a tool is not there: it waits for a yes, or for its server."""
    if result.code in (SourceError.code, UnknownTool.code):
        held = [(name, server) for name in names if (server := upstreams.holder(name, rule))]
        if held:
            told = "\n".join(str(refusal(*each)) for each in held)
            return Result.error(told, code=CallRefused.code)
    if result.code == SourceError.code:
        return result
    late = awaited(names, upstreams, rule)
    upstreams.wake(*late)
    notes: list[Content] = []
    for server in late:
        why = upstreams.sources[server].inner.state.reason
        hope = f"cannot be used: {why}" if why else "is still starting: try again later."
        notes.append(Content(text=f"Its server {server} {hope}"))
    return replace(result, content=(*result.content, *notes), raw=None) if notes else result


def marked(result: Result, *, tool: str = "") -> Result:
    """A server's answer, marked with the tool that gave it; its question, so that it returns."""
    match result.raw:
        case types.InputRequiredResult() as raw:
            state = f"{UPSTREAM}{raw.request_state or ''}"
            return Result(raw=raw.model_copy(update={"request_state": state}))
        case types.CallToolResult() as raw if tool:
            meta = {**(raw.meta or {}), TOOL_META: tool}
            return replace(result, raw=raw.model_copy(update={"meta": meta}))
        case _:
            return result


def continued(state: str | None) -> str | None:
    """The state a server gave with its question, without our mark."""
    if state is None or not state.startswith(UPSTREAM):
        return state
    return state.removeprefix(UPSTREAM) or None
