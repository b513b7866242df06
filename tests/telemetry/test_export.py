from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from pydantic import ValidationError
from tests.telemetry.collector import attributes_of, collecting

from toolscout import Agent, Toolbox, tool
from toolscout.errors import ConfigError
from toolscout.models.scripted import ScriptedCall, ScriptedModel, Turn
from toolscout.telemetry.export import open_telemetry
from toolscout.telemetry.otlp_settings import TelemetrySettings, enabled_signals

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
ON = TelemetrySettings(otlp_endpoint="http://127.0.0.1:4318")


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    yield
    logging.getLogger("opentelemetry.exporter.otlp").setLevel(logging.NOTSET)


@tool(phrases=["send an email"])
def send_email(to: str) -> str:
    """Send an email message."""
    return f"sent to {to}"


async def run_agent(telemetry: object) -> None:
    model = ScriptedModel(
        [
            Turn(calls=(ScriptedCall("tool_search", {"query": "send an email"}),)),
            Turn(calls=(ScriptedCall("send_email", {"to": "ann@example.com"}),)),
            "Sent.",
        ]
    )
    assert callable(telemetry)
    async with Toolbox([send_email], profile="cms", store="memory", sink=telemetry) as box:
        await Agent(box, model=model).run("Mail Ann")


async def test_a_run_of_an_agent_reaches_the_collector_as_one_trace() -> None:
    with collecting() as collector:
        telemetry = open_telemetry(TelemetrySettings(otlp_endpoint=collector.url))
        assert telemetry is not None
        await run_agent(telemetry)
        telemetry.close()
        run = collector.span("invoke_agent")
        inside = [span for span in collector.spans if span is not run and span != run]
        assert {span.name for span in inside} > {
            "execute_tool tool_search",
            "execute_tool send_email",
        }
        assert {span.parent_span_id for span in inside} == {run.span_id}
        assert {span.trace_id for span in inside} == {run.trace_id}
        assert run.kind == Span.SPAN_KIND_INTERNAL
        assert attributes_of(run)["gen_ai.operation.name"] == "invoke_agent"
        assert b"ann@example.com" not in collector.raw
        assert collector.resource["service.name"] == "toolscout"


def test_a_signal_may_have_an_address_of_its_own_in_the_environment() -> None:
    traces = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}
    assert enabled_signals(TelemetrySettings(), traces) == {"traces"}


@pytest.mark.parametrize(
    ("settings", "environment", "signals"),
    [
        (TelemetrySettings(), {}, set()),
        (TelemetrySettings(), ENDPOINT, {"traces", "metrics"}),
        (ON, {}, {"traces", "metrics"}),
        (ON.model_copy(update={"traces": False}), {}, {"metrics"}),
        (TelemetrySettings(metrics=False), ENDPOINT, {"traces"}),
        (TelemetrySettings(), {**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, {"metrics"}),
        (TelemetrySettings(), {**ENDPOINT, "OTEL_METRICS_EXPORTER": "console"}, {"traces"}),
        (TelemetrySettings(), {**ENDPOINT, "OTEL_TRACES_EXPORTER": ""}, {"traces", "metrics"}),
        (ON, {"OTEL_SDK_DISABLED": " True "}, set()),
    ],
)
def test_a_signal_is_exported_if_it_has_a_collector_and_is_not_switched_off(
    settings: TelemetrySettings, environment: dict[str, str], signals: set[str]
) -> None:
    assert enabled_signals(settings, environment) == signals


def test_without_a_collector_nothing_of_opentelemetry_is_imported() -> None:
    program = (
        "import sys\n"
        "from toolscout.telemetry.export import open_telemetry\n"
        "assert open_telemetry() is None\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    output = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert output.strip() == "[]"


def test_a_protocol_that_is_not_supported_is_an_error_for_a_configured_collector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(ConfigError, match=r"grpc.*http/protobuf"):
        open_telemetry(ON)


def test_variables_that_cannot_be_used_are_a_warning_and_no_reason_not_to_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    assert open_telemetry() is None
    assert "nothing is exported" in caplog.text


@pytest.mark.parametrize(
    "wrong",
    [
        {"otlp_endpoint": "localhost:4318"},
        {"otlp_endpoint": "ftp://collector"},
        {"otlp_protocol": "grpc"},
        {"sample_ratio": 1.5},
        {"export_interval_seconds": 0},
        {"endpoint": "http://127.0.0.1:4318"},
    ],
)
def test_a_wrong_setting_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        TelemetrySettings.model_validate(wrong)


def test_keys_in_headers_are_not_shown() -> None:
    settings = TelemetrySettings(otlp_headers={"authorization": "Bearer k-123"})
    assert "k-123" not in repr(settings)
