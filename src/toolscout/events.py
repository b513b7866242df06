"""Events: one frozen class for each kind of thing that happens, passed to a sink."""

from __future__ import annotations

import logging
import os
import time as system_time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from functools import cache
from threading import Lock
from typing import Annotated, Any, ClassVar, Literal, TypeVar

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened: an envelope that all events have, and the fields of its kind.

    Subclass it for your own kind: a frozen dataclass with a `kind`, passed to `session.emit`.
    """

    kind: ClassVar[str] = ""
    # What a user or a model wrote. Logs show only the shape of these fields.
    private: ClassVar[frozenset[str]] = frozenset({"arguments", "queries", "text", "vector"})
    # Fields that `facts` leaves out while they are empty: they mean nothing then.
    optional: ClassVar[frozenset[str]] = frozenset()

    time: Annotated[float, "seconds since the epoch"] = 0.0
    id: Annotated[str, "unique, and sorts by time"] = ""
    parent: Annotated[str, "the id of the event that this one is a part of"] = ""
    session: Annotated[str, "the conversation"] = ""
    principal: Annotated[str, "who called, by name"] = ""
    client: Annotated[str, "the program that called, by name"] = ""

    @property
    def facts(self) -> Mapping[str, Any]:
        """The fields of this kind by name, without the envelope."""
        facts = {name: getattr(self, name) for name in fact_names(type(self))}
        for name in self.optional:
            if not facts.get(name):
                del facts[name]
        return facts


ENVELOPE = tuple(field.name for field in fields(Event))
"""The names of the fields that every event has."""


@cache  # `fields` is too slow to be called for every event
def fact_names(kind: type[Event]) -> tuple[str, ...]:
    """The names of the fields that a class adds to the envelope."""
    return tuple(field.name for field in fields(kind) if field.name not in ENVELOPE)


E = TypeVar("E", bound=Event)
Sink = Callable[[Event], None]
"""Any function that takes an event. It must be quick and must not raise."""


class _IdSource:
    """Makes ids that are unique among processes and increase within one."""

    def __init__(self) -> None:
        self._renew()
        # A child process must not repeat the ids of its parent, nor wait for a lock that a thread
        # of the parent held. Windows has no fork.
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = Lock()
        self._last = 0
        self._process = os.urandom(3).hex()

    def next(self) -> str:
        """14 digits for the microsecond, and 6 for the process."""
        # The system's clock, even where a toolbox has another: ids of two toolboxes must differ.
        now = system_time.time_ns() // 1_000
        with self._lock:
            # Two events may share a microsecond, and the clock may be set back.
            self._last = max(now, self._last + 1)
            return f"{self._last:014x}{self._process}"


new_id: Callable[[], str] = _IdSource().next
"""Make an id for an event: 20 hexadecimal digits, in the order of time."""

# The ids of the run and the calls that the current task works for, the innermost last. A context
# variable, because calls run in parallel and a tool may itself start an agent.
_ANCESTORS: ContextVar[tuple[str, ...]] = ContextVar("ancestors", default=())


@contextmanager
def part_of(parent: str) -> Generator[None]:
    """Make the events of a conversation parts of the event with this id, while the block runs."""
    token = _ANCESTORS.set((*_ANCESTORS.get(), parent))
    try:
        yield
    finally:
        _ANCESTORS.reset(token)


def current_id() -> str:
    """The id of the run or call that the current task works for; empty outside of both."""
    ancestors = _ANCESTORS.get()
    return ancestors[-1] if ancestors else ""


def current_parent(id: str = "") -> str:  # noqa: A002 - as events call it
    """The id of the event that an event emitted now is a part of."""
    ancestors = _ANCESTORS.get()
    if id in ancestors:  # the event of the run or call itself: a part of what is around it
        ancestors = ancestors[: ancestors.index(id)]
    return ancestors[-1] if ancestors else ""


def stamp(
    event: E,
    *,
    session: str = "",
    principal: str = "",
    client: str = "",
    parent: str = "",
    clock: Callable[[], float] = system_time.time,
) -> E:
    """The event with empty fields of its envelope filled in; nothing is overwritten."""
    missing: dict[str, Any] = {}
    if not event.time:
        missing["time"] = clock()
    if not event.id:
        missing["id"] = new_id()
    if parent and not event.parent:
        missing["parent"] = parent
    if session and not event.session:
        missing["session"] = session
    if principal and not event.principal:
        missing["principal"] = principal
    if client and not event.client:
        missing["client"] = client
    return replace(event, **missing) if missing else event


def ignore(event: Event) -> None:
    """A sink that does nothing."""


def combine_sinks(*sinks: Sink) -> Sink:
    """One sink that passes events to several, in order."""

    def emit(event: Event) -> None:
        for sink in sinks:
            sink(event)

    return emit


def guard_sink(sink: Sink) -> Sink:
    """A sink whose failures are logged once and never reach the emitter."""
    failed = False

    def emit(event: Event) -> None:
        nonlocal failed
        try:
            sink(event)
        except Exception:  # noqa: BLE001 - a broken sink must never break a call
            # Once: a sink that fails tends to fail on every event.
            if not failed:
                _log.warning("A sink failed on %s and may miss events.", event.kind, exc_info=True)
            failed = True

    return emit


def stamp_sink(sink: Sink, *, clock: Callable[[], float] = system_time.time) -> Sink:
    """A sink that gives events their time and id, for emitters that set neither."""

    def emit(event: Event) -> None:
        sink(stamp(event, clock=clock))

    return emit


# Of a toolbox


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryStartEvent(Event):
    """A discovery tool was called."""

    kind: ClassVar[str] = "tool_discovery_start"

    tool: Annotated[str, "its name"]
    arguments: Annotated[Mapping[str, Any], "as the model gave them"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryResultEvent(Event):
    """A discovery tool answered."""

    kind: ClassVar[str] = "tool_discovery_result"
    optional: ClassVar[frozenset[str]] = frozenset(
        {"scores", "near", "vector", "embedder", "code", "verdict", "starting", "is_loading"}
    )

    tool: Annotated[str, "its name"]
    queries: Annotated[tuple[str, ...], "the query or queries"] = ()
    confidence: Annotated[float, "that the best tool is right, 0 to 1"] = 0.0
    names: Annotated[tuple[str, ...], "the tools found, best first"] = ()
    scores: Annotated[tuple[float, ...], "their scores, where they were ranked"] = ()
    near: Annotated[tuple[str, ...], "further names that the answer lists"] = ()
    vector: Annotated[bytes, "the queries as unit vectors of float16, one after another"] = b""
    embedder: Annotated[str, "the id of the model that made the vectors"] = ""
    is_error: Annotated[bool, "whether the search was refused"] = False
    code: Annotated[str, "of the error"] = ""
    verdict: Annotated[str, "`likely`, `unsure` or `nothing fits`, for a search"] = ""
    starting: Annotated[
        tuple[str, ...], "servers that were needed, or not searched, and are still starting"
    ] = ()
    is_loading: Annotated[bool, "whether semantic search was still loading"] = False
    rules_tokens: Annotated[int, "tokens of rules in the answer"] = 0
    took_ms: Annotated[float, "milliseconds"] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsEnabledEvent(Event):
    """Tools were loaded."""

    kind: ClassVar[str] = "tools_enabled"

    names: Annotated[tuple[str, ...], "in the order of loading"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsDisabledEvent(Event):
    """Tools were unloaded."""

    kind: ClassVar[str] = "tools_disabled"

    names: Annotated[tuple[str, ...], "in the order of the request"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolNotFoundEvent(Event):
    """A name that no tool has was called."""

    kind: ClassVar[str] = "tool_not_found"
    optional: ClassVar[frozenset[str]] = frozenset({"arguments"})

    tool: Annotated[str, "the name"]
    arguments: Annotated[Mapping[str, Any], "as the model gave them"] = field(
        default_factory=dict[str, Any]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRefusedEvent(Event):
    """A call was refused."""

    kind: ClassVar[str] = "tool_refused"
    optional: ClassVar[frozenset[str]] = frozenset({"code", "why", "arguments"})

    tool: Annotated[str, "its name"]
    code: Annotated[str, "the error code, where a rule refused it"] = ""
    why: Annotated[str, "the reason, where a rule refused it"] = ""
    arguments: Annotated[Mapping[str, Any], "as the model gave them"] = field(
        default_factory=dict[str, Any]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalNeededEvent(Event):
    """A call is held for approval, which can be given later."""

    kind: ClassVar[str] = "approval_needed"

    approval: Annotated[str, "the id to approve or refuse it with"]
    tool: Annotated[str, "its name"]
    why: Annotated[str, "why approval is needed"] = ""
    expires: Annotated[float, "seconds since the epoch"] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalEvent(Event):
    """A person or a policy decided about a call."""

    kind: ClassVar[str] = "approval"
    optional: ClassVar[frozenset[str]] = frozenset({"approval"})

    tool: Annotated[str, "its name"]
    approved: Annotated[bool, "the answer"]
    why: Annotated[str, "why approval was needed"] = ""
    approval: Annotated[str, "the id of the call that was held for it"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerNeededEvent(Event):
    """A tool asks the user something, and its call waits for the answer."""

    kind: ClassVar[str] = "answer_needed"

    question: Annotated[str, "the id to reply to it with"]
    tool: Annotated[str, "its name"]
    server: Annotated[str, "where it runs"] = ""
    expires: Annotated[float, "seconds since the epoch"] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStartEvent(Event):
    """A tool is about to run; its `parent` is the `id` of the event of its end."""

    kind: ClassVar[str] = "tool_call_start"

    tool: Annotated[str, "its name"]
    server: Annotated[str, "where it runs"] = ""
    arguments: Annotated[Mapping[str, Any], "as they are passed to the tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallEvent(Event):
    """A tool ran."""

    kind: ClassVar[str] = "tool_call"

    tool: Annotated[str, "its name"]
    server: Annotated[str, "where it runs"] = ""
    is_error: Annotated[bool, "whether it failed"] = False
    code: Annotated[str, "the error code; `cancelled` if the caller stopped waiting"] = ""
    took_ms: Annotated[float, "milliseconds"] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadEvent(Event):
    """A large result was replaced by a preview."""

    kind: ClassVar[str] = "offload"

    tool: Annotated[str, "its name"]
    before: Annotated[int, "characters of the result"]
    after: Annotated[int, "characters of the preview"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogChangeEvent(Event):
    """The catalog changed."""

    kind: ClassVar[str] = "catalog_changed"
    optional: ClassVar[frozenset[str]] = frozenset({"source"})

    source: Annotated[str, "the server or other source whose tools changed"] = ""
    added: Annotated[int, "new tools"] = 0
    changed: Annotated[int, "tools with another definition or other phrases"] = 0
    removed: Annotated[int, "tools that are gone"] = 0
    version: Annotated[int, "of the new catalog"] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorsLoadingEvent(Event):
    """Vectors are being computed, which takes a while; until then results are keyword-only."""

    kind: ClassVar[str] = "vectors_loading"

    done: Annotated[int, "tools that have vectors already"]
    total: Annotated[int, "all tools"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorsReadyEvent(Event):
    """Vectors were computed: semantic search is ready."""

    kind: ClassVar[str] = "vectors_ready"

    done: Annotated[int, "tools and words that got a vector"]
    total: Annotated[int, "all that needed one; more than `done` if an embedder failed"]
    took_seconds: Annotated[float, "seconds"] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFailureEvent(Event):
    """A source could not be listed, or not all of it."""

    kind: ClassVar[str] = "source_failed"

    source: Annotated[str, "its name"]
    why: Annotated[str, "the reason"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureFailureEvent(Event):
    """A feature failed during a call, which continued."""

    kind: ClassVar[str] = "feature_failed"

    feature: Annotated[str, "its role"]
    tool: Annotated[str, "the tool that was called"] = ""
    why: Annotated[str, "the error"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFailureEvent(Event):
    """A session could not be saved; it is saved with the next change."""

    kind: ClassVar[str] = "store_failed"

    why: Annotated[str, "the reason"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowRankEvent(Event):
    """In shadow mode, a tool was called: its ranks in the search before, without and with use."""

    kind: ClassVar[str] = "shadow_rank"

    tool: Annotated[str, "its name"]
    base: Annotated[int, "its rank in the reply, counted from 1"]
    learned: Annotated[int, "its rank if past use had counted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningFailureEvent(Event):
    """Learned state could not be used or stored; searches continue without it."""

    kind: ClassVar[str] = "learning_failed"

    why: Annotated[str, "the reason"]


# Of an agent's run


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStartEvent(Event):
    """An agent began to answer a message."""

    kind: ClassVar[str] = "run_start"

    messages: Annotated[int, "in the conversation so far"] = 0
    model: Annotated[str, "its name"] = ""
    provider: Annotated[str, "whose format it uses"] = ""
    profile: Annotated[str, "how tools are disclosed"] = ""
    tool_search: Annotated[bool, "whether tools are searched at all"] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStartEvent(Event):
    """A request to the model is about to be sent."""

    kind: ClassVar[str] = "step_start"

    step: Annotated[int, "counted from 0"]
    active: Annotated[tuple[str, ...], "the tools in view"] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallEvent(Event):
    """The model answered."""

    kind: ClassVar[str] = "model_call"

    step: Annotated[int, "counted from 0"]
    took_ms: Annotated[float, "milliseconds"] = 0.0
    reason: Annotated[str, "why the reply ended"] = ""
    model: Annotated[str, "its name"] = ""
    provider: Annotated[str, "whose format it uses"] = ""
    profile: Annotated[str, "how tools are disclosed"] = ""
    tool_search: Annotated[bool, "whether tools are searched at all"] = False
    input_tokens: Annotated[int, "tokens sent"] = 0
    output_tokens: Annotated[int, "tokens received"] = 0
    cached_tokens: Annotated[int, "tokens read from the provider's cache"] = 0
    written_tokens: Annotated[int, "tokens written to the provider's cache"] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRetryEvent(Event):
    """A model service was busy; the request is sent again."""

    kind: ClassVar[str] = "model_retry"

    attempt: Annotated[int, "the number of the next attempt"]
    why: Annotated[str, "the reason"]
    wait_seconds: Annotated[float, "the wait before it"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFailureEvent(Event):
    """A model service failed for good."""

    kind: ClassVar[str] = "model_failed"

    step: Annotated[int, "counted from 0"]
    why: Annotated[str, "the reason"]
    status: Annotated[int | None, "the HTTP status, if there is one"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionEvent(Event):
    """A long conversation was shortened."""

    kind: ClassVar[str] = "context_trimmed"

    before: Annotated[int, "messages before"]
    after: Annotated[int, "messages after"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatWarningEvent(Event):
    """The model repeated itself and got a note about it."""

    kind: ClassVar[str] = "stuck"

    step: Annotated[int, "counted from 0"]
    why: Annotated[str, "the note to the model"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummaryEvent(Event):
    """A run is over."""

    kind: ClassVar[str] = "run_end"
    optional: ClassVar[frozenset[str]] = frozenset({"error"})

    steps: Annotated[int, "requests to the model"] = 0
    searches: Annotated[int, "searches for tools"] = 0
    discovered: Annotated[int, "tools loaded"] = 0
    stopped_by: Annotated[str, "what ended it"] = ""
    took_ms: Annotated[float, "milliseconds"] = 0.0
    input_tokens: Annotated[int, "tokens sent"] = 0
    output_tokens: Annotated[int, "tokens received"] = 0
    cached_tokens: Annotated[int, "tokens read from the provider's cache"] = 0
    written_tokens: Annotated[int, "tokens written to the provider's cache"] = 0
    error: Annotated[str, "the error code, if it failed"] = ""


# Of MCP servers and the gateway


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamEvent(Event):
    """Something happened to the connection to an MCP server; the base of such kinds."""

    server: Annotated[str, "its name"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamConfiguredEvent(UpstreamEvent):
    """A server was added or enabled, or its configuration changed."""

    kind: ClassVar[str] = "upstream_configured"
    change: Annotated[Literal["added", "enabled", "changed"], "what happened to it"] = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamStartingEvent(UpstreamEvent):
    """A server takes more than a second to start, for example because it is downloaded."""

    kind: ClassVar[str] = "upstream_starting"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamReadyEvent(UpstreamEvent):
    """A server is connected."""

    kind: ClassVar[str] = "upstream_ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamFailedEvent(UpstreamEvent):
    """A server could not be reached; it is tried again later."""

    kind: ClassVar[str] = "upstream_failed"
    optional: ClassVar[frozenset[str]] = frozenset({"needs_login"})

    reason: Annotated[str, "the reason, with one line of the server's error output"]
    failures: Annotated[int, "failures in a row, this one included"] = 1
    needs_login: Annotated[bool, "whether it requires a login"] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamLostEvent(UpstreamEvent):
    """A connection to a server broke."""

    kind: ClassVar[str] = "upstream_lost"

    reason: Annotated[str, "the end of what the server wrote to its error output"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamIdleEvent(UpstreamEvent):
    """An idle server was stopped; the next use starts it."""

    kind: ClassVar[str] = "upstream_idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamRemovedEvent(UpstreamEvent):
    """A server left the configuration, or was disabled in it."""

    kind: ClassVar[str] = "upstream_removed"

    is_disabled: Annotated[bool, "whether it is still configured, but disabled"] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigAppliedEvent(Event):
    """An edited configuration was applied."""

    kind: ClassVar[str] = "config_applied"

    waiting: Annotated[tuple[str, ...], "settings that need a restart"] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolHeldEvent(Event):
    """A new, changed or shadowing tool is held for approval."""

    kind: ClassVar[str] = "tool_held"

    server: Annotated[str, "its server"]
    tool: Annotated[str, "its name"]
    standing: Annotated[str, "`new`, `changed` or `shadow`"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PinDecisionEvent(Event):
    """A person approved or revoked what a server offers as a tool."""

    kind: ClassVar[str] = "pin_decision"

    server: Annotated[str, "its server"]
    tool: Annotated[str, "its name"]
    decision: Annotated[str, "`approved` or `revoked`"]
    standing: Annotated[str, "`new`, `changed`, `shadow`, `revoked` or `approved`, before"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentReadStartEvent(Event):
    """A server is about to be asked for a prompt, a resource or completions, without a tool."""

    kind: ClassVar[str] = "content_read_start"

    method: Annotated[str, "the request of the protocol, such as `prompts/get`"]
    name: Annotated[str, "the prompt, the URI of the resource, or the URI template"]
    server: Annotated[str, "which has it"]
    arguments: Annotated[Mapping[str, Any], "as the client gave them"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentReadEvent(Event):
    """A client got a prompt, a resource or completions, or was refused it."""

    kind: ClassVar[str] = "content_read"
    optional: ClassVar[frozenset[str]] = frozenset({"arguments"})

    method: Annotated[str, "the request of the protocol, such as `prompts/get`"]
    name: Annotated[str, "the prompt, the URI of the resource, or the URI template"]
    server: Annotated[str, "which has it; empty if none has, or the caller may not use it"] = ""
    is_error: Annotated[bool, "whether it failed"] = False
    code: Annotated[str, "the error code; `cancelled` if the caller stopped waiting"] = ""
    took_ms: Annotated[float, "milliseconds"] = 0.0
    arguments: Annotated[Mapping[str, Any], "as the client gave them"] = field(
        default_factory=dict[str, Any]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRefusedEvent(Event):
    """A request of a client was refused because of a limit."""

    kind: ClassVar[str] = "request_refused"
    optional: ClassVar[frozenset[str]] = frozenset({"method", "tool", "arguments"})

    method: Annotated[str, "the request of the protocol; empty if it was not read"] = ""
    tool: Annotated[str, "the tool, prompt or resource that it was for"] = ""
    code: Annotated[str, "the error code"] = "over_limit"
    status: Annotated[int, "the HTTP status"] = 0
    why: Annotated[str, "which limit it was"] = ""
    times: Annotated[int, "how many such requests it stands for"] = 1
    arguments: Annotated[Mapping[str, Any], "as the client gave them"] = field(
        default_factory=dict[str, Any]
    )


# Of rules and large results


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesChangeEvent(Event):
    """Rules of use were added, changed or removed."""

    kind: ClassVar[str] = "rules_changed"

    rules: Annotated[tuple[str, ...], "their names"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesFailureEvent(Event):
    """A file of rules cannot be read; its last text stays in use."""

    kind: ClassVar[str] = "rules_failed"

    problem: Annotated[str, "the reason"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeOutputDetectedEvent(Event):
    """A result is larger than its threshold."""

    kind: ClassVar[str] = "large_output_detected"

    tool: Annotated[str, "its name"]
    tokens: Annotated[int, "its size, estimated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeOutputKeptEvent(Event):
    """A large result was written to the folder of its session."""

    kind: ClassVar[str] = "large_output_kept"

    tool: Annotated[str, "its name"]
    filename: Annotated[str, "in that folder"]
    bytes: Annotated[int, "its size"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeOutputFailureEvent(Event):
    """A large result could not be written; the result of the call is unchanged."""

    kind: ClassVar[str] = "large_output_failed"

    tool: Annotated[str, "its name"]
    error: Annotated[str, "the reason"]


# For code that uses the parts alone


@dataclass(frozen=True, slots=True, kw_only=True)
class RankerTimeEvent(Event):
    """A ranker wrapped by `toolscout.telemetry.metrics.time_rankers` has ranked."""

    kind: ClassVar[str] = "search_arm"

    arm: Annotated[str, "the ranker"]
    took_ms: Annotated[float, "milliseconds"] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchEvent(Event):
    """`discover` searched; a toolbox emits `tool_discovery_result` instead."""

    kind: ClassVar[str] = "search"
    optional: ClassVar[frozenset[str]] = frozenset(
        {"scores", "near", "vector", "embedder", "verdict", "is_loading"}
    )

    queries: Annotated[tuple[str, ...], "the query or queries"]
    found: Annotated[tuple[str, ...], "the tools, best first"]
    confidence: Annotated[float, "that the best tool is right, 0 to 1"] = 0.0
    scores: Annotated[tuple[float, ...], "their scores, where they were ranked"] = ()
    near: Annotated[tuple[str, ...], "further names that the answer lists"] = ()
    vector: Annotated[bytes, "the queries as unit vectors of float16, one after another"] = b""
    embedder: Annotated[str, "the id of the model that made the vectors"] = ""
    verdict: Annotated[str, "`likely`, `unsure` or `nothing fits`"] = ""
    is_loading: Annotated[bool, "whether semantic search was still loading"] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadToolsEvent(Event):
    """`discover` loaded tools; a toolbox emits `tools_enabled` instead."""

    kind: ClassVar[str] = "load"

    names: Annotated[tuple[str, ...], "in the order of loading"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnloadToolsEvent(Event):
    """`discover` unloaded tools."""

    kind: ClassVar[str] = "unload"

    names: Annotated[tuple[str, ...], "in the order of the request"]


# The list of all classes, in the order of the documentation

TOOLBOX_EVENTS: tuple[type[Event], ...] = (
    DiscoveryStartEvent,
    DiscoveryResultEvent,
    ToolsEnabledEvent,
    ToolsDisabledEvent,
    ToolNotFoundEvent,
    ToolRefusedEvent,
    ApprovalNeededEvent,
    ApprovalEvent,
    AnswerNeededEvent,
    ToolCallStartEvent,
    ToolCallEvent,
    OffloadEvent,
    CatalogChangeEvent,
    VectorsLoadingEvent,
    VectorsReadyEvent,
    SourceFailureEvent,
    FeatureFailureEvent,
    StoreFailureEvent,
    ShadowRankEvent,
    LearningFailureEvent,
)
RUN_EVENTS: tuple[type[Event], ...] = (
    RunStartEvent,
    StepStartEvent,
    ModelCallEvent,
    ModelRetryEvent,
    ModelFailureEvent,
    CompactionEvent,
    RepeatWarningEvent,
    RunSummaryEvent,
)
SERVER_EVENTS: tuple[type[Event], ...] = (
    UpstreamConfiguredEvent,
    UpstreamStartingEvent,
    UpstreamReadyEvent,
    UpstreamFailedEvent,
    UpstreamIdleEvent,
    UpstreamLostEvent,
    UpstreamRemovedEvent,
    ConfigAppliedEvent,
    ToolHeldEvent,
    PinDecisionEvent,
    ContentReadStartEvent,
    ContentReadEvent,
    RequestRefusedEvent,
)
FEATURE_EVENTS: tuple[type[Event], ...] = (
    RulesChangeEvent,
    RulesFailureEvent,
    LargeOutputDetectedEvent,
    LargeOutputKeptEvent,
    LargeOutputFailureEvent,
)
PART_EVENTS: tuple[type[Event], ...] = (
    RankerTimeEvent,
    SearchEvent,
    LoadToolsEvent,
    UnloadToolsEvent,
)

KINDS: Mapping[str, type[Event]] = {
    cls.kind: cls
    for cls in (
        *TOOLBOX_EVENTS,
        *RUN_EVENTS,
        *SERVER_EVENTS,
        *FEATURE_EVENTS,
        *PART_EVENTS,
    )
}
"""The class of every kind of event that Toolscout emits."""
