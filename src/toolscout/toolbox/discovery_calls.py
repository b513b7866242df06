"""Answers calls of discovery tools in a conversation, with rules of use for what was found."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..catalog.result import Content
from ..catalog.tool import Tool
from ..disclosure.discovery import DiscoveryOutcome, discover, role_of
from ..disclosure.session_state import SessionState
from ..events import (
    DiscoveryResultEvent,
    DiscoveryStartEvent,
    SearchEvent,
    ToolRefusedEvent,
    ToolsEnabledEvent,
    current_id,
)
from ..tokens import default_counter
from .call_context import CallContext
from .features import FeatureFailure


@dataclass(frozen=True, slots=True)
class DiscoveryReply:
    """The outcome of a discovery tool, and the tools that it made callable."""

    outcome: DiscoveryOutcome
    enabled: tuple[str, ...]
    rules: str = ""
    failures: tuple[FeatureFailure, ...] = ()


async def run_discovery(
    context: CallContext, name: str, arguments: Mapping[str, Any]
) -> DiscoveryReply:
    """Answer a discovery tool, save what it changed, and emit what happened."""
    context.emit(DiscoveryStartEvent(tool=name, arguments=arguments))
    started = time.perf_counter()
    is_call = role_of(context.profile, name, context.live.catalog) == "call"
    reply = await context.apply_move(
        lambda session: _apply_discovery(context, session, name, arguments), is_quick=is_call
    )
    context.emit_failures(reply.failures, tool=name)
    if is_call:
        if reply.outcome.call is None:  # without a tool that can be run: a refusal, not a search
            refusal = reply.outcome.result
            context.emit(ToolRefusedEvent(tool=name, code=refusal.code, why=refusal.text))
        return reply
    _emit_result(context, name, reply, took_ms=round((time.perf_counter() - started) * 1_000, 3))
    return reply


def _apply_discovery(
    context: CallContext, session: SessionState, name: str, arguments: Mapping[str, Any]
) -> tuple[SessionState, DiscoveryReply]:
    # Local to the move: it runs again on newer state if another writer saved first.
    sections, delivered = session, ""
    failures: tuple[FeatureFailure, ...] = ()

    def deliver_rules(tools: Sequence[Tool]) -> str:
        nonlocal sections, delivered, failures
        sections, delivered, failures = context.features.deliver(sections, tools)
        return delivered

    with context.search_context():
        outcome = discover(
            context.profile,
            name,
            arguments,
            session=session,
            engine=context.live.engine,
            catalog=context.live.catalog,
            allow=context.allow,
            rules=deliver_rules,
            held=context.explain,
            extras=[tool for _, tool in context.features.visible_tools.values()],
        )
    # An empty catalog is explained by the reply itself.
    is_search = any(isinstance(event, SearchEvent) for event in outcome.events)
    if is_search and context.live.catalog and (note := context.note_absent(context.allow)):
        content = (*outcome.result.content, Content(text=note))
        outcome = replace(outcome, result=replace(outcome.result, content=content))
    after = outcome.session
    after = _copy_changed_sections(session, sections, after)
    return after, DiscoveryReply(outcome, newly_loaded(session, after), delivered, failures)


def _copy_changed_sections(
    before: SessionState, delivered: SessionState, after: SessionState
) -> SessionState:
    """The state after discovery, with the sections that features changed meanwhile."""
    for name in {**before.sections, **delivered.sections}:
        text = delivered.sections.get(name)
        if text is None:
            after = after.without_section(name)
        elif text != before.sections.get(name):
            after = after.with_section(name, text)
    return after


def newly_loaded(before: SessionState, after: SessionState) -> tuple[str, ...]:
    """The tools that a change of the state has loaded."""
    if before.loaded == after.loaded:
        return ()
    return tuple(name for name in after.loaded if name not in before.loaded)


def _emit_result(context: CallContext, name: str, reply: DiscoveryReply, *, took_ms: float) -> None:
    outcome = reply.outcome
    search = next((e for e in outcome.events if isinstance(e, SearchEvent)), None)
    starting = outcome.starting
    if search and not outcome.result.is_error:
        starting = tuple(context.list_starting())
    context.emit(
        DiscoveryResultEvent(
            id=current_id(),
            tool=name,
            queries=search.queries if search else (),
            confidence=search.confidence if search else 0.0,
            names=tuple(t.name for t in outcome.found),
            scores=search.scores if search else (),
            near=search.near if search else (),
            vector=search.vector if search else b"",
            embedder=search.embedder if search else "",
            is_error=outcome.result.is_error,
            code=outcome.result.code if outcome.result.is_error else "",
            verdict=search.verdict if search else "",
            starting=starting,
            is_loading=search.is_loading if search else False,
            rules_tokens=default_counter().count(reply.rules) if reply.rules else 0,
            took_ms=took_ms,
        )
    )
    if outcome.loaded:
        context.emit(ToolsEnabledEvent(names=outcome.loaded))
