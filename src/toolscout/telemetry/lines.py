"""Events as plain lines for a terminal: one line for each search, call and server change."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from ..catalog.sanitization import error_line, escape_hidden
from ..disclosure.nothing_fits import NOTHING_FITS
from ..events import (
    ApprovalEvent,
    ApprovalNeededEvent,
    CatalogChangeEvent,
    ConfigAppliedEvent,
    DiscoveryResultEvent,
    Event,
    FeatureFailureEvent,
    LearningFailureEvent,
    OffloadEvent,
    PinDecisionEvent,
    SourceFailureEvent,
    StoreFailureEvent,
    ToolCallEvent,
    ToolHeldEvent,
    ToolNotFoundEvent,
    ToolRefusedEvent,
    UpstreamConfiguredEvent,
    UpstreamEvent,
    UpstreamFailedEvent,
    UpstreamIdleEvent,
    UpstreamLostEvent,
    UpstreamReadyEvent,
    UpstreamRemovedEvent,
    UpstreamStartingEvent,
    VectorsLoadingEvent,
    VectorsReadyEvent,
)
from ..program import command_line
from ..sources.server_status import status_after
from .logs import log_level

LOGGER = "toolscout.lines"
"""The logger that lines go to."""

_MAX_LINE_CHARS = 300
_MAX_QUERY_CHARS = 80
_MAX_NAMES = 3
# The source of the gateway's own tools for prompts and resources.
_CONTENT = "mcp content"


_UNKNOWN_REASON = "see the reply"
REASONS = {
    "": "the tool is not available here",
    "answer_needed": "it asks the user a question",
    "approval_needed": "held for approval",
    "call": "the tool reported an error",
    "cancelled": "cancelled",
    "catalog": "its definition cannot be used",
    "closed": "the gateway is stopping",
    "config": "the configuration is wrong",
    "embedder": "the embedder failed",
    "expired": "the answer came too late",
    "interrupted": "interrupted",
    "invalid_arguments": "the arguments do not fit",
    "invalid_catalog": "its definition cannot be used",
    "missing_extra": "an optional part is not installed",
    "model": "a model service failed",
    "not_loaded": "the tool is not loaded yet",
    "over_limit": "over a limit of the gateway",
    "query": "the query cannot be read",
    "refused": "not approved, or not allowed",
    "program": "the program ended with an error",
    "repeated": "the same call as before",
    "schema": "its schema is invalid",
    "source": "its server failed",
    "starting": "servers that may have it are still starting",
    "store": "stored data cannot be read or written",
    "timeout": "no answer in time",
    "toolscout": "an error inside Toolscout",
    "unknown_content": "there is no such prompt or resource",
    "unknown_tool": "there is no such tool",
}
"""What each code of an outcome means, in words for a person."""
_HELD = "held for approval"
_LONG_SECONDS = 1.0
_DISABLED = " is disabled."
_STANDINGS = {"shadow": "it uses the name of another tool"}


class EventLines:
    """A sink that logs one line for each event that is worth one.

    A server that fails gets a line when it begins to fail, and not for every retry. `known` are
    problems of sources that were reported before.
    """

    def __init__(
        self,
        logger: logging.Logger | None = None,
        *,
        shows_queries: bool = True,
        known: Collection[str] = (),
    ) -> None:
        self._logger = logger or logging.getLogger(LOGGER)
        self._shows_queries = shows_queries
        self._known = frozenset(known)
        self._failing: set[str] = set()
        self._held: Counter[str] = Counter()
        self._is_semantic = False

    def __call__(self, event: Event) -> None:
        """Log one event."""
        event = self._count_held(event)
        if self._is_news(event) and (
            line := render_event(event, shows_queries=self._shows_queries)
        ):
            self._logger.log(log_level(event.kind), "%s", line)

    def _count_held(self, event: Event) -> Event:
        """The event; a change that only removes tools which are held now counts no removal."""
        if isinstance(event, ToolHeldEvent) and event.standing != "new":
            self._held[event.server] += 1
        if not isinstance(event, CatalogChangeEvent) or not event.removed:
            return event
        # The pins log one line about all held tools of a server. Another count, of those that were
        # in the catalog before, would look like a contradiction.
        held = min(event.removed, self._held.pop(event.source, 0))
        return replace(event, removed=event.removed - held)

    def _is_news(self, event: Event) -> bool:
        match event:
            case UpstreamStartingEvent():  # not for every retry of a server that fails
                return event.server not in self._failing
            case UpstreamFailedEvent():
                is_news = event.server not in self._failing
                self._failing.add(event.server)
                return is_news
            case UpstreamReadyEvent() | UpstreamRemovedEvent() | UpstreamConfiguredEvent():
                self._failing.discard(event.server)
                return True
            case SourceFailureEvent():  # follows the failure of its server, and repeats it
                return event.source not in self._failing and event.why not in self._known
            case CatalogChangeEvent():  # none if all removed tools are held
                return bool(event.added or event.changed or event.removed)
            case ToolHeldEvent():  # the pins log one line for all tools of a server
                return False
            case VectorsReadyEvent() if event.done == event.total:
                # Once it is ready, only vectors that took a while are worth a line.
                is_news = not self._is_semantic or event.took_seconds >= _LONG_SECONDS
                self._is_semantic = True
                return is_news
            case _:
                return True


def render_event(event: Event, *, shows_queries: bool = True) -> str:
    """An event as one line; empty for kinds that only detail another."""
    # Facts may quote a server or a model, with line breaks or terminal escapes: escaped.
    return escape_hidden(_render(event, shows_queries=shows_queries), cap=_MAX_LINE_CHARS)


def _render(event: Event, *, shows_queries: bool) -> str:
    match event:
        case DiscoveryResultEvent():
            return _render_search(event, shows_queries=shows_queries)
        case ToolCallEvent() | ToolRefusedEvent() | ToolNotFoundEvent():
            return _render_call(event)
        case ApprovalEvent() | ApprovalNeededEvent():
            return _render_approval(event)
        case UpstreamEvent():
            return _render_upstream(event)
        case CatalogChangeEvent():
            return _render_catalog_change(event)
        case _:
            return _render_other(event)


def _render_search(event: DiscoveryResultEvent, *, shows_queries: bool) -> str:
    if not event.queries:
        failure = _search_failure(event) if event.is_error else ""
        outcome = failure or _join(event.names) or NOTHING_FITS.lower()
        return f"{event.tool}: {outcome} ({event.took_ms:.0f} ms)"
    texts = ", ".join(f'"{_shorten(q)}"' for q in event.queries[:_MAX_NAMES])
    query = f" {texts}" if shows_queries else ""
    if event.is_error:
        return f"search{query}: {_search_failure(event)} ({event.took_ms:.0f} ms)"
    if not event.names:
        return f"search{query}: {_explain_no_hit(event)} ({event.took_ms:.0f} ms)"
    verdict = f"{event.verdict}, " if event.verdict else ""
    facts = f"{verdict}confidence {event.confidence:.2f}, {event.took_ms:.0f} ms"
    return f"search{query}: {_join(event.names)} ({facts})"


def _explain_no_hit(event: DiscoveryResultEvent) -> str:
    """That nothing fits, unless search is not ready yet."""
    causes = ["semantic search is still loading"] if event.is_loading else []
    if event.starting:
        verb = "is" if len(event.starting) == 1 else "are"
        causes.append(f"{_join(event.starting)} {verb} still starting")
    return f"nothing found yet: {'; '.join(causes)}" if causes else NOTHING_FITS.lower()


def _search_failure(event: DiscoveryResultEvent) -> str:
    if event.starting:
        return f"failed: servers are still starting: {_join(event.starting)}"
    reason = _reason(event.code) if event.code else _UNKNOWN_REASON
    # Discovery tools refuse nothing but tools that are held for approval.
    return f"refused: {_HELD}" if event.code == "refused" else f"failed: {reason}"


def _shorten(query: str) -> str:
    return escape_hidden(query, cap=_MAX_QUERY_CHARS)


def _join(names: Sequence[str]) -> str:
    shown = ", ".join(_shorten(name) for name in names[:_MAX_NAMES])
    more = len(names) - _MAX_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def _render_call(event: ToolCallEvent | ToolRefusedEvent | ToolNotFoundEvent) -> str:
    tool = _shorten(event.tool)
    match event:
        case ToolCallEvent() if event.is_error and event.code == "refused":
            # A server refuses nothing itself: its tool has changed since the search.
            return f"call {tool}: refused: {_HELD} ({event.took_ms:.0f} ms)"
        case ToolCallEvent():
            outcome = f"failed: {_reason(event.code or 'call')}" if event.is_error else "ok"
            return f"call {tool}: {outcome} ({event.took_ms:.0f} ms)"
        case ToolRefusedEvent():
            # The reason of a refusal may quote arguments, so it is not shown itself.
            is_held = event.code == "refused" and _HELD in event.why
            reason = _HELD if is_held else _reason(event.code)
            if event.why.endswith(_DISABLED):
                reason = "its server is disabled"
            return f"call {tool}: refused: {reason}"
        case ToolNotFoundEvent():
            return f"call {tool}: refused: {_reason('unknown_tool')}"


def _reason(code: str) -> str:
    return REASONS.get(code, _UNKNOWN_REASON)


def _render_approval(event: ApprovalEvent | ApprovalNeededEvent) -> str:
    if isinstance(event, ApprovalNeededEvent):
        return f"call {_shorten(event.tool)}: held for approval"
    return f"call {_shorten(event.tool)}: {'approved' if event.approved else 'not approved'}"


def _render_upstream(event: UpstreamEvent) -> str:
    match event:
        case UpstreamConfiguredEvent():
            text = "configuration changed" if event.change == "changed" else event.change
        case UpstreamRemovedEvent():
            text = "disabled" if event.is_disabled else "removed"
        case UpstreamIdleEvent():
            text = f"{_status(event)}, stopped until it is needed"
        case UpstreamLostEvent():
            last = error_line(event.reason)
            text = f"{_status(event)} again, connection lost"
            text += f". It wrote: {last}" if last else ""
        case UpstreamFailedEvent():
            return _render_failure(event)
        case _:
            text = _status(event)
    return f"{event.server}: {text}" if text else ""


def _status(event: UpstreamEvent) -> str:
    """The status of the server after the event."""
    needs_login = isinstance(event, UpstreamFailedEvent) and event.needs_login
    change = event.kind.removeprefix("upstream_")
    return status_after(change, needs_login=needs_login) or ""


def _render_failure(event: UpstreamFailedEvent) -> str:
    start = f"{event.server}: {_status(event)}: "
    hint = f" (full log: {command_line('logs', event.server)})"
    # Cut here, so that a long error does not push out where to read the rest.
    room = max(0, _MAX_LINE_CHARS - len(start) - len(hint))
    return start + escape_hidden(event.reason, cap=room) + hint


def _render_catalog_change(event: CatalogChangeEvent) -> str:
    counts = (("added", event.added), ("changed", event.changed), ("removed", event.removed))
    (count, word), *others = [(count, word) for word, count in counts if count] or [(0, "changed")]
    first = f"{count} {'tool' if count == 1 else 'tools'} {word}"
    if event.source == _CONTENT:
        return _render_content_tools(event)
    source = "catalog" if not event.source else event.source
    return f"{source}: {', '.join([first, *(f'{count} {word}' for count, word in others)])}"


def _render_content_tools(event: CatalogChangeEvent) -> str:
    """A line about the gateway's own tools, which should not look like the change of a server."""
    if event.added:
        return "Prompts and resources can be found now, with get_prompt and get_resource."
    if event.changed:
        return "Prompts and resources changed."
    return "There are no more prompts, or no more resources."


def _render_other(event: Event) -> str:
    match event:
        case OffloadEvent():
            return f"result of {_shorten(event.tool)} stored: {event.before:,} characters"
        case ToolHeldEvent():
            why = _STANDINGS.get(event.standing, event.standing)
            return f"{event.server}: {_shorten(event.tool)} is held for approval ({why})"
        case PinDecisionEvent():
            who = f" by {_shorten(event.principal)}" if event.principal else ""
            return f"{event.server}: {_shorten(event.tool)} was {event.decision}{who}"
        case ConfigAppliedEvent():
            waiting = ", ".join(event.waiting)
            return "configuration: reloaded" + (f"; after a restart: {waiting}" if waiting else "")
        case FeatureFailureEvent():
            return f"{event.feature} failed during a call of {_shorten(event.tool)}"
        case SourceFailureEvent():
            return f"{event.source}: {event.why}"
        case StoreFailureEvent():
            return f"store: {event.why}"
        case LearningFailureEvent():
            return f"learning: {event.why}"
        case VectorsLoadingEvent() | VectorsReadyEvent():
            return _render_vectors(event)
        case _:
            return ""


def _render_vectors(event: VectorsLoadingEvent | VectorsReadyEvent) -> str:
    if isinstance(event, VectorsLoadingEvent):
        is_partial = 0 < event.done < event.total
        count = f" ({event.done:,} of {event.total:,} tools)" if is_partial else ""
        return f"Semantic search is still loading{count}; results are keyword-only."
    if event.done < event.total:
        missing = event.total - event.done
        return f"Semantic search is incomplete: {missing:,} of {event.total:,} vectors are missing."
    return f"Semantic search is ready: {event.done:,} vectors in {event.took_seconds:.1f} s."
