"""One call and its answer: what is written down about it, and what is added to it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import mcp_types as types

from ...catalog.result import Content, Result
from ...disclosure.profile import Profile
from ...disclosure.search_arguments import read_search_arguments, read_tool_names
from ...errors import CallRefused, SourceError, ToolscoutError, UnknownTool
from ...events import Event
from ...search.query import parse_all
from ...sources.mcp.client_channel import CURRENT_CHANNEL
from ...toolbox.permissions import ApprovalDecision, ApprovalRequest
from ..operations.audit import shape
from ..policies import AccessRule
from ..upstream.pinned_source import hold_refusal
from ..upstream.upstreams import Upstreams
from .sessions import Principal

UPSTREAM_PREFIX = "upstream:"
TOOL_META = "toolscout/tool"


@dataclass(frozen=True, slots=True)
class ClientCall:
    """A client's call, and what happened while it ran."""

    caller: Principal
    name: str
    arguments: Mapping[str, Any]
    happened: list[Event] = field(default_factory=list[Event])
    started: float = field(default_factory=time.perf_counter)

    @property
    def tool_call_facts(self) -> Mapping[str, Any]:
        """What the toolbox says of the tool that really ran; nothing if none did."""
        found = [e.facts for e in self.happened if e.kind == "tool_call"]
        return found[-1] if found else {}

    @property
    def has_results(self) -> bool:
        """Whether a search found anything."""
        found = (e.facts for e in self.happened if e.kind == "tool_discovery_result")
        return any(facts.get("names") for facts in found)

    def is_bridged(self, profile: Profile) -> bool:
        """Whether the tool is called through another."""
        bridge = profile.tool_for("call")
        return bridge is not None and self.name == bridge.name

    def inner_tool(self, profile: Profile) -> str:
        """The name of the tool that was meant."""
        named = self.arguments.get("name") if self.is_bridged(profile) else None
        return str(named or self.name)

    def target_tools(self, profile: Profile) -> tuple[str, ...]:
        """The tools that a call is about, as far as it names them: to be run, described, found."""
        tool = next((m for m in profile.metatools if m.name == self.name), None)
        if tool is None or tool.role == "call":
            return (self.inner_tool(profile),)
        with suppress(ToolscoutError):  # what is wrong with the arguments is told by the call
            if tool.role in ("describe", "load"):
                return read_tool_names(tool, self.arguments)
            if tool.role == "search":
                queries = parse_all(read_search_arguments(profile, tool, self.arguments).queries)
                return tuple(name for query in queries for name in query.select)
        return ()

    def audit_row(self, profile: Profile, outcome: str) -> dict[str, Any]:
        """The line of the audit log: always the inner tool, never the bridge to it."""
        given = self.arguments
        if self.is_bridged(profile):
            beside = {k: v for k, v in given.items() if k not in ("name", "arguments")}
            given = given.get("arguments") or beside
        return {
            "principal": self.caller.principal or "anonymous",
            "session": self.caller.session[:12],
            "tool": str(self.tool_call_facts.get("tool") or self.inner_tool(profile)),
            "server": self.tool_call_facts.get("server", ""),
            "arguments": shape(given),
            "outcome": outcome,
            "took_ms": round((time.perf_counter() - self.started) * 1_000, 1),
        }


async def ask_user(approval: ApprovalRequest) -> ApprovalDecision:
    """Ask the user through the client that called."""
    front = CURRENT_CHANNEL.get()
    if front is None:
        return ApprovalDecision(is_approved=False, reason="nobody can be asked")
    said = await front.answer(
        types.ElicitRequest(
            params=types.ElicitRequestFormParams(
                message=f"Run {approval.tool.name}? {approval.why}.",
                requested_schema={"type": "object", "properties": {}},
            )
        )
    )
    if isinstance(said, types.ErrorData):
        return ApprovalDecision(is_approved=False, reason=f"it needs a yes, but {said.message}")
    return ApprovalDecision(
        is_approved=isinstance(said, types.ElicitResult) and said.action == "accept"
    )


def append_absent_notice(result: Result, missing: Sequence[str]) -> Result:
    """A search's answer, with the servers that it could not look into."""
    if not missing:
        return result
    note = f"Not searched, still starting or out of reach: {', '.join(missing)}."
    return replace(result, content=(*result.content, Content(text=note)), raw=None)


def append_held_notice(result: Result, held: int, *, is_empty: bool) -> Result:
    """The answer of a search that found nothing, with how much waits for a yes."""
    if not held:
        return result
    tools = "1 tool is held back until" if held == 1 else f"{held} tools are held back until"
    note = f"{tools} approved. Whoever runs the gateway can see them: toolscout pins list --held"
    # Where nothing else is there, that is the whole answer.
    content = () if is_empty else result.content
    return replace(result, content=(*content, Content(text=note)), raw=None)


def late_servers(names: Sequence[str], upstreams: Upstreams, rule: AccessRule | None) -> list[str]:
    """The servers that tools are still to come from, as far as the caller may know of them."""
    late = dict.fromkeys(server for name in names for server in upstreams.absent_servers_for(name))
    return [n for n in late if rule is None or rule.admits_server(n)]


def explain_absent_tool(
    result: Result, names: Sequence[str], upstreams: Upstreams, rule: AccessRule | None
) -> Result:
    """A refusal that knows why a tool is not there: it waits for a yes, or for its server."""
    if result.code in (SourceError.code, UnknownTool.code):
        held = [
            (name, server) for name in names if (server := upstreams.server_holding(name, rule))
        ]
        if held:
            told = "\n".join(str(hold_refusal(*each)) for each in held)
            return Result.error(told, code=CallRefused.code)
    if result.code == SourceError.code:
        return result
    late = late_servers(names, upstreams, rule)
    upstreams.wake(*late)
    notes: list[Content] = []
    for server in late:
        why = upstreams.sources[server].inner.state.reason
        hope = f"cannot be used: {why}" if why else "is still starting: try again later."
        notes.append(Content(text=f"Its server {server} {hope}"))
    return replace(result, content=(*result.content, *notes), raw=None) if notes else result


def tag_result(result: Result, *, tool: str = "") -> Result:
    """A server's answer, marked with the tool that gave it; its question, so that it returns."""
    match result.raw:
        case types.InputRequiredResult() as raw:
            state = f"{UPSTREAM_PREFIX}{raw.request_state or ''}"
            return Result(raw=raw.model_copy(update={"request_state": state}))
        case types.CallToolResult() as raw if tool:
            meta = {**(raw.meta or {}), TOOL_META: tool}
            return replace(result, raw=raw.model_copy(update={"meta": meta}))
        case _:
            return result


def strip_upstream_prefix(state: str | None) -> str | None:
    """The state a server gave with its question, without our mark."""
    if state is None or not state.startswith(UPSTREAM_PREFIX):
        return state
    return state.removeprefix(UPSTREAM_PREFIX) or None
