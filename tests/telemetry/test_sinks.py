from __future__ import annotations

import io
import json
import logging
from dataclasses import replace

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from toolscout.events import (
    DiscoveryResultEvent,
    DiscoveryStartEvent,
    Event,
    ModelCallEvent,
    OffloadEvent,
    RankerTimeEvent,
    RunStartEvent,
    RunSummaryEvent,
    SearchEvent,
    StepStartEvent,
    ToolCallEvent,
    ToolCallStartEvent,
    ToolNotFoundEvent,
    ToolRefusedEvent,
    ToolsEnabledEvent,
)
from toolscout.telemetry.logs import JsonLines, Logs
from toolscout.telemetry.metrics import DiscoveryMetrics
from toolscout.telemetry.otel import OpenTelemetry
from toolscout.telemetry.redaction import shape

START = RunStartEvent(
    id="run",
    session="s1",
    model="claude-x",
    provider="anthropic",
    profile="default",
    tool_search=True,
)
ASKED = ModelCallEvent(
    parent="run",
    session="s1",
    model="claude-x",
    provider="anthropic",
    step=0,
    took_ms=800.0,
    input_tokens=900,
    output_tokens=30,
    cached_tokens=700,
    reason="calls",
)
FOUND = DiscoveryResultEvent(
    parent="run", session="s1", tool="tool_search", names=("send_email", "send_sms"), took_ms=3.0
)
ARMS = (RankerTimeEvent(arm="bm25f", took_ms=0.5), RankerTimeEvent(arm="dense", took_ms=2.0))
MISSED = DiscoveryResultEvent(session="s1", tool="tool_search", took_ms=1.0)
CALLED = ToolCallEvent(
    id="call", parent="run", session="s1", tool="send_email", server="mail", took_ms=40.0
)
FAILED = ToolCallEvent(
    parent="run", session="s1", tool="send_sms", is_error=True, code="timeout", took_ms=9.0
)
END = RunSummaryEvent(
    parent="run",
    session="s1",
    steps=3,
    searches=1,
    input_tokens=2000,
    output_tokens=90,
    stopped_by="answer",
)
STORY = (START, ASKED, *ARMS, FOUND, CALLED, FAILED, END)


class Recorded:
    """Spans and metrics as an exporter would get them, dated by a clock that ticks by itself."""

    def __init__(self, *, with_content: bool = False) -> None:
        self._spans = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self._meters = MeterProvider(metric_readers=[self._reader])
        self._now = 1_000_000_000_000
        self.sink = OpenTelemetry(
            tracer_provider=tracers,
            meter_provider=self._meters,
            with_content=with_content,
            now_ns=self._tick,
        )

    def _tick(self) -> int:
        self._now += 1_000_000_000
        return self._now

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self._spans.get_finished_spans()}

    @property
    def all_spans(self) -> tuple[ReadableSpan, ...]:
        return self._spans.get_finished_spans()

    def points(self, name: str) -> list[tuple[dict[str, object], float]]:
        """Every point of a metric: its attributes, and its value or sum."""
        data = self._reader.get_metrics_data()
        assert data is not None
        return [
            (dict(point.attributes or {}), getattr(point, "value", None) or point.sum)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


def test_a_run_is_a_span_with_its_requests_and_calls_inside(recorded: Recorded) -> None:
    for event in STORY:
        recorded.sink(event)
    run = recorded.spans["invoke_agent"]
    inside = {n: s for n, s in recorded.spans.items() if s.parent and n != "invoke_agent"}
    assert [*inside] == [
        "chat claude-x",
        "execute_tool tool_search",
        "execute_tool send_email",
        "execute_tool send_sms",
    ]
    assert all(s.parent and s.parent.span_id == run.context.span_id for s in inside.values())


def test_spans_speak_the_words_of_the_conventions(recorded: Recorded) -> None:
    for event in STORY:
        recorded.sink(event)
    chat = dict(recorded.spans["chat claude-x"].attributes or {})
    assert chat["gen_ai.operation.name"] == "chat"
    assert chat["gen_ai.provider.name"] == "anthropic"
    assert chat["gen_ai.conversation.id"] == "s1"
    assert chat["gen_ai.usage.input_tokens"] == 900
    assert chat["gen_ai.usage.cache_read.input_tokens"] == 700
    assert chat["gen_ai.response.finish_reasons"] == ("calls",)
    tool = dict(recorded.spans["execute_tool send_email"].attributes or {})
    assert (tool["gen_ai.operation.name"], tool["gen_ai.tool.name"]) == (
        "execute_tool",
        "send_email",
    )


def test_a_span_is_as_long_as_what_it_stands_for(recorded: Recorded) -> None:
    for event in STORY:
        recorded.sink(event)
    chat = recorded.spans["chat claude-x"]
    assert chat.end_time is not None
    assert chat.start_time is not None
    assert chat.end_time - chat.start_time == 800_000_000


def test_a_failure_marks_its_span(recorded: Recorded) -> None:
    for event in STORY:
        recorded.sink(event)
    failed = recorded.spans["execute_tool send_sms"]
    assert not failed.status.is_ok
    assert dict(failed.attributes or {})["error.type"] == "timeout"
    assert recorded.spans["execute_tool send_email"].status.is_ok


def test_an_event_without_duration_is_a_note_on_its_run(recorded: Recorded) -> None:
    recorded.sink(START)
    recorded.sink(ToolsEnabledEvent(parent="run", session="s1", names=("send_email",)))
    recorded.sink(ToolsEnabledEvent(parent="another", session="s1", names=("x",)))
    recorded.sink(END)
    notes = recorded.spans["invoke_agent"].events
    assert [(n.name, dict(n.attributes or {})) for n in notes] == [
        ("tools_enabled", {"toolscout.names": ("send_email",)})
    ]


@pytest.mark.behaviour("E121")
def test_metrics_tell_latency_by_arm_hits_misses_and_tokens_by_kind(recorded: Recorded) -> None:
    for event in (*STORY[:-1], MISSED, END):
        recorded.sink(event)
    arms = {a["toolscout.arm"]: v for a, v in recorded.points("toolscout.discovery.duration")}
    assert arms == {"bm25f": 0.5, "dense": 2.0, "all": 4.0}
    assert recorded.points("toolscout.discovery.searches") == [({}, 2)]
    assert recorded.points("toolscout.discovery.misses") == [({}, 1)]
    assert recorded.points("toolscout.discovery.hits") == [({}, 1)]
    assert recorded.points("toolscout.run.tokens") == [({"toolscout.request_type": "B"}, 2090)]
    usage = {a["gen_ai.token.type"]: v for a, v in recorded.points("gen_ai.client.token.usage")}
    assert usage == {"input": 900, "output": 30}
    assert [v for _, v in recorded.points("gen_ai.client.operation.duration")] == [0.8]


def test_of_two_runs_of_one_conversation_each_has_its_own_calls(recorded: Recorded) -> None:
    for event in (START, replace(START, id="other"), CALLED):
        recorded.sink(event)
    recorded.sink(replace(FAILED, parent="other"))
    recorded.sink(replace(END, parent="other", stopped_by="steps"))
    recorded.sink(END)
    first, second = (
        recorded.spans["execute_tool send_email"],
        recorded.spans["execute_tool send_sms"],
    )
    runs = {
        span.context.span_id: dict(span.attributes or {})["toolscout.stopped_by"]
        for span in recorded.all_spans
        if span.name == "invoke_agent"
    }
    assert first.parent is not None
    assert second.parent is not None
    assert (runs[first.parent.span_id], runs[second.parent.span_id]) == ("answer", "steps")


def test_a_started_call_is_the_current_span_until_it_ends(recorded: Recorded) -> None:
    recorded.sink(START)
    recorded.sink(ToolCallStartEvent(parent="call", tool="send_email", arguments={"to": "Ann"}))
    current = trace.get_current_span()
    recorded.sink(OffloadEvent(parent="call", tool="send_email", before=9, after=5))
    recorded.sink(CALLED)
    span = recorded.spans["execute_tool send_email"]
    assert current.get_span_context() == span.context
    assert not trace.get_current_span().get_span_context().is_valid
    assert [event.name for event in span.events] == ["offload"]


def test_the_private_facts_of_a_note_are_shapes_and_error_texts_are_left_out() -> None:
    notes = (
        SearchEvent(parent="run", queries=("salary of Ann",), found=("pay",)),
        ToolRefusedEvent(parent="run", tool="pay", code="refused", why="'Ann' is too short"),
    )
    closed, opened = Recorded(), Recorded(with_content=True)
    for recorded in (closed, opened):
        for event in (START, *notes, END):
            recorded.sink(event)
    found, refused = closed.spans["invoke_agent"].events
    assert dict(found.attributes or {})["toolscout.queries"] == '["text(13)", 1]'
    assert dict(refused.attributes or {}) == {"toolscout.tool": "pay", "toolscout.code": "refused"}
    assert "Ann" not in closed.spans["invoke_agent"].to_json()
    assert opened.spans["invoke_agent"].to_json().count("Ann") == 2


def test_a_call_outside_a_run_is_a_span_of_its_own(recorded: Recorded) -> None:
    recorded.sink(replace(CALLED, parent=""))
    assert recorded.spans["execute_tool send_email"].parent is None


@pytest.mark.behaviour("E121")
def test_the_tally_gives_the_same_figures_without_any_exporter() -> None:
    tally = DiscoveryMetrics()
    for event in (*STORY, MISSED):
        tally(event)
    figures = tally.snapshot()
    assert (figures.searches, figures.misses, figures.hits) == (2, 1, 1)
    assert (figures.calls, figures.failures, figures.hit_rate) == (2, 1, 0.5)
    assert figures.latency_ms["dense"].mean == 2.0
    assert (figures.latency_ms["all"].minimum, figures.latency_ms["all"].maximum) == (1.0, 3.0)
    assert figures.tokens["B"].total == 2090


def test_a_search_is_a_hit_once_however_often_its_tool_is_used() -> None:
    tally = DiscoveryMetrics()
    for event in (FOUND, CALLED, CALLED, CALLED):
        tally(event)
    assert tally.snapshot().hits == 1


def test_a_tool_found_in_one_session_is_not_a_hit_in_another() -> None:
    tally = DiscoveryMetrics()
    tally(FOUND)
    tally(ToolCallEvent(session="s2", tool="send_email"))
    assert tally.snapshot().hits == 0


@pytest.mark.parametrize(("searches", "kind"), [(0, "A"), (1, "B"), (2, "C"), (9, "C")])
def test_runs_are_distinguished_by_how_often_they_searched(searches: int, kind: str) -> None:
    tally = DiscoveryMetrics()
    tally(RunSummaryEvent(session="s", searches=searches, input_tokens=5))
    assert [*tally.snapshot().tokens] == [kind]


def logged(*events: Event, level: int = logging.INFO, with_content: bool = False) -> list[str]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger = logging.Logger("test", level)
    logger.addHandler(handler)
    sink = Logs(logger, with_content=with_content)
    for event in events:
        sink(event)
    return stream.getvalue().splitlines()


def test_each_event_is_one_line_of_json_with_its_facts() -> None:
    row = json.loads(logged(CALLED)[0])
    assert row["kind"] == "tool_call"
    assert (row["session"], row["tool"], row["took_ms"]) == ("s1", "send_email", 40.0)
    assert row["level"] == "INFO"


def test_a_line_of_json_has_the_envelope_and_the_text_of_the_record_has_not() -> None:
    envelope = {"id": "17", "parent": "16", "principal": "ann", "client": "editor"}
    event = replace(CALLED, time=5.0, **envelope)
    row = json.loads(logged(event)[0])
    assert {name: row[name] for name in envelope} == envelope
    assert row["time"] != 5.0  # the time of the record, in its own format
    records: list[logging.LogRecord] = []
    logger = logging.Logger("test")
    logger.addFilter(lambda record: records.append(record) or True)
    Logs(logger)(event)
    assert records[0].getMessage() == (
        "tool_call session=s1 tool=send_email server=mail is_error=false took_ms=40.0"
    )


def test_text_of_users_is_logged_as_its_shape_only() -> None:
    secret = {"to": "ann@example.com", "amount": 5, "tags": ["a"], "deep": {"x": None}}
    event = DiscoveryStartEvent(session="s", tool="tool_search", arguments=secret)
    line = logged(event)[0]
    assert "ann@example.com" not in line
    assert json.loads(line)["arguments"] == {
        "to": "text(15)",
        "amount": "number",
        "tags": ["text(1)", 1],
        "deep": {"x": "null"},
    }
    assert "ann@example.com" in logged(event, with_content=True)[0]


def test_a_failure_is_logged_as_a_warning() -> None:
    (line,) = logged(ToolNotFoundEvent(session="s", tool="x"))
    assert json.loads(line)["level"] == "WARNING"


def test_events_for_developers_are_logged_at_debug_level_only() -> None:
    step = StepStartEvent(session="s", step=3)
    assert logged(step) == []
    assert json.loads(logged(step, level=logging.DEBUG)[0])["step"] == 3


def test_ordinary_records_are_lines_of_json_too() -> None:
    record = logging.LogRecord("n", logging.ERROR, "p", 1, "broke: %s", ("x",), None)
    assert json.loads(JsonLines().format(record))["message"] == "broke: x"


def test_a_shape_has_no_end_of_depth_or_width() -> None:
    deep: object = "end"
    for _ in range(50):
        deep = {"in": deep}
    assert "object(1)" in str(shape(deep))
    assert len(str(shape({str(i): i for i in range(10_000)}))) < 1_000
    assert shape(object()) == "object"
