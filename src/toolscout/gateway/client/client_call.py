"""One client call: who calls, what it is for, and what the gateway adds to its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

import mcp_types as types

from ...catalog.result import Content, Result
from ...disclosure.nothing_fits import NOTHING_FITS, UNSURE_HEADING
from ...disclosure.profile import Profile
from ...disclosure.resolution import UNKNOWN_TOOL_PREFIX
from ...disclosure.search_arguments import read_search_arguments, read_tool_names
from ...errors import ToolscoutError
from ...search.query import parse_all
from ...sources.mcp.client_channel import CURRENT_CHANNEL
from ...toolbox.absent_sources import note_absent
from ...toolbox.permissions import ApprovalDecision, ApprovalRequest
from ...toolbox.server_content import RuleAccess
from ..access import AccessRule
from ..upstream.held_tools import HeldNotice
from ..upstream.upstream_side import UpstreamSide
from .sessions import Principal

# Marks the `request_state` of an upstream's question, so that the answer is sent back to it.
UPSTREAM_PREFIX = "upstream:"
TOOL_META = "toolscout/tool"
_OTHERS_HEADING = "Available, but they fit less well:"


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """Who calls, and what this caller may use: decided once for every request."""

    caller: Principal
    rule: AccessRule | None

    @property
    def access(self) -> RuleAccess:
        """What the caller may reach of servers."""
        return RuleAccess(self.rule)


@dataclass(frozen=True, slots=True)
class ClientCall:
    """A client's call of a tool, as it was received."""

    request: ClientRequest
    name: str
    arguments: Mapping[str, Any]

    def uses_dispatcher(self, profile: Profile) -> bool:
        """Whether the tool is called through `call_tool`."""
        dispatcher = profile.tool_for("call")
        return dispatcher is not None and self.name == dispatcher.name

    def inner_tool(self, profile: Profile) -> str:
        """The name of the tool that the call is for."""
        inner = self.arguments.get("name") if self.uses_dispatcher(profile) else None
        return str(inner or self.name)

    def unwrap(self, profile: Profile) -> ClientCall:
        """The call inside a `call_tool`, or this call itself."""
        arguments = self.arguments.get("arguments")
        if not self.uses_dispatcher(profile) or not isinstance(arguments, Mapping):
            return self
        return ClientCall(
            self.request, self.inner_tool(profile), cast("Mapping[str, Any]", arguments)
        )

    def target_tools(self, profile: Profile) -> tuple[str, ...]:
        """The tools that the call names, to run, describe, load or select them."""
        tool = next((m for m in profile.metatools if m.name == self.name), None)
        if tool is None or tool.role == "call":
            return (self.inner_tool(profile),)
        with suppress(ToolscoutError):  # wrong arguments are reported by the call itself
            if tool.role in ("describe", "load"):
                return read_tool_names(tool, self.arguments)
            if tool.role == "search":
                queries = parse_all(self.search_queries(profile))
                return tuple(name for query in queries for name in query.select)
        return ()

    def search_queries(self, profile: Profile) -> tuple[str, ...]:
        """The queries of a search; none if its arguments are wrong."""
        tool = profile.tool_for("search")
        if tool is None:
            return ()
        with suppress(ToolscoutError):
            return tuple(read_search_arguments(profile, tool, self.arguments).queries)
        return ()


async def ask_user(approval: ApprovalRequest) -> ApprovalDecision:
    """Ask the user through the client that called."""
    client = CURRENT_CHANNEL.get()
    if client is None:
        return ApprovalDecision(is_approved=False, reason="no user can be asked")
    answer = await client.answer(
        types.ElicitRequest(
            params=types.ElicitRequestFormParams(
                message=f"Run {approval.tool.name}? {approval.why}.",
                requested_schema={"type": "object", "properties": {}},
            )
        )
    )
    # Only an explicit "accept" approves; a client that cannot ask its user does not.
    if isinstance(answer, types.ErrorData):
        return ApprovalDecision(
            is_approved=False,
            reason=f"it needs approval, and the client answered: {answer.message.rstrip('.')}",
        )
    return ApprovalDecision(
        is_approved=isinstance(answer, types.ElicitResult) and answer.action == "accept"
    )


def append_absent_notice(result: Result, missing: Mapping[str, str]) -> Result:
    """Add to a search result which servers were not searched, each with the reason."""
    if not missing:
        return result
    note = Content(text=note_absent(missing))
    return replace(result, content=(*result.content, note), raw=None)


def add_held_notice(result: Result, notice: HeldNotice, *, is_alone: bool) -> Result:
    """Add to a search result which tools are held for approval; `is_alone` if it found nothing."""
    if not notice.text:
        return result
    # If nothing else was found there is nothing else to say: "no tool fits" would mislead. Neither
    # may weak hits be called the best that there is.
    content = () if is_alone else result.content
    if notice.names_tools:
        content = [
            replace(c, text=_without_held(c.text.replace(UNSURE_HEADING, _OTHERS_HEADING), notice))
            for c in content
        ]
    note = Content(text=notice.text)
    # Before hits that may fit less well; but a program reads JSON from the first block.
    parts = (*content, note) if result.structured else (note, *content)
    return replace(result, content=parts, raw=None)


def _without_held(text: str, notice: HeldNotice) -> str:
    """A reply that does not say "nothing fits" about a query that held tools fit."""
    lines: list[str] = []
    for line in text.split("\n"):
        left = line
        if line.startswith(f"{NOTHING_FITS} "):
            for query in map(repr, notice.queries):
                for listed in (f"{query}, ", f", {query}", f" {query}"):
                    left = left.replace(listed, "", 1) if listed in left else left
        lines += [] if left == f"{NOTHING_FITS}." else [left]
    return "\n".join(lines)


def suggest_held_tools(
    result: Result, names: Sequence[str], upstream: UpstreamSide, rule: AccessRule | None
) -> Result:
    """Add the held tools with nearly the name that was reported as unknown."""
    unknown = [n for n in names if f"{UNKNOWN_TOOL_PREFIX}{n[:100]!r}" in result.text]
    near = [each for n in unknown for each in upstream.upstreams.held_tools.suggest(n, rule)]
    if not near:
        return result
    note = Content(text=" ".join(dict.fromkeys(each.suggestion for each in near)))
    return replace(result, content=(*result.content, note), raw=None)


def tag_result(result: Result, *, tool: str = "") -> Result:
    """Mark a result with its tool, or a question so that the answer can be routed back."""
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
    """The state that an upstream sent with its question, without the gateway's prefix."""
    if state is None or not state.startswith(UPSTREAM_PREFIX):
        return state
    return state.removeprefix(UPSTREAM_PREFIX) or None
