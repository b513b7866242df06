"""`toolscout serve` in a process of its own, and the OTLP collector that it exports to."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from tests.gateway.conftest import UPSTREAMS, text
from tests.telemetry.collector import Collector, attributes_of, collecting
from tests.upstreams.processes import free_port

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
SECRET, QUERY = "hunter2-of-ann", "weigh the parcel of zanzibar"
MODES = ["legacy", "2026-07-28"]


class Served:
    """A gateway that serves; after the block, with all that it wrote."""

    url: str
    errors: str = ""


@contextmanager
def serving(
    tmp_path: Path, telemetry: dict[str, Any] | None = None, **environment: str
) -> Iterator[Served]:
    config = {
        "mcpServers": {
            "post": {"command": sys.executable, "args": [str(UPSTREAMS / "echo_meta.py")]}
        },
        "gateway": {"start_wait_seconds": 60},
        "telemetry": telemetry or {},
    }
    (tmp_path / "mcp.json").write_text(json.dumps(config))
    command = ["serve", "--config", "mcp.json", "--http", "127.0.0.1:0"]
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("OTEL_")}
    home = {"TOOLSCOUT_HOME": str(tmp_path / "home"), "TOOLSCOUT_EMBEDDER": "none"}
    served = Served()
    with subprocess.Popen(
        [sys.executable, "-m", "toolscout.cli", *command],
        cwd=tmp_path,
        env={**inherited, **home, **environment},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        while not (found := re.search(r" at (http\S+/mcp)$", line := process.stderr.readline())):
            assert line, "the gateway ended before it served"
            served.errors += line
        served.url = found[1]
        try:
            yield served
        finally:
            process.send_signal(signal.SIGTERM)
            # The SDK would wait 30 seconds for a collector that does not answer.
            served.errors += process.communicate(timeout=20)[1]


async def search_and_call(url: str, mode: str = "auto", **headers: str) -> str:
    """Search and call as a client does; what the upstream received as `_meta`."""
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        await client.call_tool("tool_search", {"query": QUERY})
        wrong = {"name": "post__weigh", "arguments": {"parcel": {SECRET: SECRET}}}
        await client.call_tool("call_tool", wrong)
        call = {"name": "post__weigh", "arguments": {"parcel": SECRET}}
        return text(await client.call_tool("call_tool", call))


def parents(collector: Collector, span: Span) -> list[str]:
    """The names of the spans around a span, from the inside to the outside."""
    by_id = {each.span_id: each for each in collector.spans}
    names = []
    while parent := by_id.get(span.parent_span_id):
        names.append(parent.name)
        span = parent
    return names


@pytest.fixture(scope="module", params=["legacy", "2026-07-28"])
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Collector:
    """What a collector has after a search, a wrong call and a right one."""
    with collecting() as collector:
        folder = tmp_path_factory.mktemp("exported")
        with serving(folder, {"otlp_endpoint": collector.url}) as served:
            asyncio.run(search_and_call(served.url, request.param))
    return collector


def test_a_call_is_a_span_inside_the_request_of_the_client(exported: Collector) -> None:
    call = exported.span("execute_tool post__weigh")
    assert parents(exported, call) == ["tools/call call_tool"]
    facts = attributes_of(call)
    assert facts["gen_ai.operation.name"] == "execute_tool"
    assert facts["gen_ai.tool.name"] == "post__weigh"
    assert facts["gen_ai.tool.type"] == "function"
    assert facts["toolscout.server"] == "post"
    assert facts["toolscout.client"]
    search = exported.span("execute_tool tool_search")
    assert parents(exported, search) == ["tools/call tool_search"]
    assert attributes_of(search)["toolscout.found"] == ["post__weigh"]


def test_a_request_is_described_by_the_mcp_conventions(exported: Collector) -> None:
    request = exported.span("tools/call tool_search")
    facts = attributes_of(request)
    assert request.kind == Span.SPAN_KIND_SERVER
    assert facts["mcp.method.name"] == "tools/call"
    assert facts["gen_ai.tool.name"] == "tool_search"
    assert facts["mcp.protocol.version"] >= "2025-06-18"
    assert facts["network.transport"] == "tcp"
    assert "jsonrpc.request.id" in facts


def test_a_refused_call_is_a_failed_request_without_a_span_of_a_tool(exported: Collector) -> None:
    refused, answered = [s for s in exported.spans if s.name == "tools/call call_tool"]
    assert refused.status.code == Status.STATUS_CODE_ERROR
    assert attributes_of(refused)["error.type"] == "tool_error"
    (note,) = refused.events
    assert note.name == "tool_refused"
    assert attributes_of(note) == {
        "toolscout.tool": "post__weigh",
        "toolscout.code": "invalid_arguments",
    }
    assert answered.status.code != Status.STATUS_CODE_ERROR


def test_metrics_say_how_often_and_how_long(exported: Collector) -> None:
    called = {"gen_ai.tool.name": "post__weigh", "toolscout.server": "post"}
    assert exported.metrics["toolscout.tool.calls"] == [called]
    assert exported.metrics["toolscout.tool.duration"] == [called]
    assert {"mcp.method.name": "tools/call"} in exported.metrics["mcp.server.operation.duration"]
    assert "toolscout.discovery.hits" in exported.metrics


def test_nothing_that_a_model_wrote_is_exported(exported: Collector) -> None:
    assert len(exported.spans) > 3
    assert SECRET.encode() not in exported.raw
    assert b"zanzibar" not in exported.raw


async def test_content_is_exported_where_it_is_switched_on(tmp_path: Path) -> None:
    with collecting() as collector:
        with serving(tmp_path, {"otlp_endpoint": collector.url, "content": True}) as served:
            await search_and_call(served.url)
        call = attributes_of(collector.span("execute_tool post__weigh"))
        assert json.loads(call["gen_ai.tool.call.arguments"]) == {"parcel": SECRET}
        search = attributes_of(collector.span("execute_tool tool_search"))
        assert search["gen_ai.retrieval.query.text"] == QUERY


async def test_the_trace_of_an_http_client_continues_through_the_gateway_to_the_server(
    tmp_path: Path,
) -> None:
    with collecting() as collector:
        with serving(tmp_path, {"otlp_endpoint": collector.url}) as served:
            received = json.loads(await search_and_call(served.url, traceparent=TRACEPARENT))
        assert {span.trace_id.hex() for span in collector.spans} == {TRACE}
        assert collector.span("tools/call tool_search").parent_span_id.hex() == PARENT
        call = collector.span("execute_tool post__weigh")
        assert received["traceparent"] == f"00-{TRACE}-{call.span_id.hex()}-01"


@pytest.mark.parametrize("mode", MODES)
async def test_the_trace_in_meta_continues_in_the_gateway(tmp_path: Path, mode: str) -> None:
    with collecting() as collector:
        with serving(tmp_path, {"otlp_endpoint": collector.url}) as served:
            async with Client(served.url, mode=mode) as client:
                meta: Any = {"traceparent": TRACEPARENT}
                await client.call_tool("tool_search", {"query": QUERY}, meta=meta)
        request = collector.span("tools/call tool_search")
        assert (request.trace_id.hex(), request.parent_span_id.hex()) == (TRACE, PARENT)


async def test_the_environment_alone_is_enough(tmp_path: Path) -> None:
    with collecting() as collector:
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_EXPORTER_OTLP_HEADERS": "x-key=from-environment",
            "OTEL_SERVICE_NAME": "tools-of-ann",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
        }
        with serving(tmp_path, **variables) as served:
            await search_and_call(served.url)
        assert collector.resource["service.name"] == "tools-of-ann"
        assert collector.resource["deployment.environment.name"] == "test"
        assert all(headers["x-key"] == "from-environment" for headers in collector.headers)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
def test_over_stdio_pending_output_is_sent_after_ctrl_c(tmp_path: Path) -> None:
    who = {"name": "test", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who}
    (tmp_path / "mcp.json").write_text('{"mcpServers": {}}')
    with collecting() as collector:
        settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "TOOLSCOUT_EMBEDDER": "none"}
        with subprocess.Popen(
            [sys.executable, "-m", "toolscout.cli", "serve", "--stdio", "--config", "mcp.json"],
            cwd=tmp_path,
            env={**os.environ, "TOOLSCOUT_HOME": str(tmp_path / "home"), **settings},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for message in (
                {"id": 1, "method": "initialize", "params": hello},
                {"method": "notifications/initialized"},
                # The first answer comes before the gateway is loaded, this one from the gateway.
                {"id": 2, "method": "tools/list"},
            ):
                process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            process.stdin.flush()
            assert '"result"' in process.stdout.readline()
            assert '"result"' in process.stdout.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=20) == 0
        assert attributes_of(collector.span("initialize"))["network.transport"] == "pipe"


async def test_headers_and_the_name_of_the_service_come_from_the_configuration(
    tmp_path: Path,
) -> None:
    with collecting() as collector:
        table = {
            "otlp_endpoint": collector.url,
            "otlp_headers": {"Authorization": "Bearer ${COLLECTOR_KEY}"},
            "service_name": "gateway-7",
            "metrics": False,
        }
        with serving(tmp_path, table, COLLECTOR_KEY="k-123") as served:
            await search_and_call(served.url)
        assert collector.resource["service.name"] == "gateway-7"
        assert {headers["authorization"] for headers in collector.headers} == {"Bearer k-123"}
        assert {path for path, _ in collector.bodies} == {"/v1/traces"}


@pytest.mark.parametrize(
    ("table", "variables"),
    [
        ({}, {"OTEL_SDK_DISABLED": "true"}),
        ({"traces": False, "metrics": False}, {}),
        ({"sample_ratio": 0, "metrics": False}, {}),
    ],
)
async def test_nothing_is_sent_where_it_is_switched_off(
    tmp_path: Path, table: dict[str, Any], variables: dict[str, str]
) -> None:
    with collecting() as collector:
        with serving(tmp_path, {"otlp_endpoint": collector.url, **table}, **variables) as served:
            await search_and_call(served.url)
        assert collector.bodies == []


async def test_a_dead_collector_is_logged_once_and_breaks_nothing(tmp_path: Path) -> None:
    # Exports come in quick succession and give up at once, so that there are many failures.
    quick = {"OTEL_BSP_SCHEDULE_DELAY": "10", "OTEL_EXPORTER_OTLP_TIMEOUT": "0.5"}
    table = {"otlp_endpoint": f"http://127.0.0.1:{free_port()}", "metrics": False}
    with serving(tmp_path, table, **quick) as served:
        for _ in range(3):
            assert "traceparent" in await search_and_call(served.url)
    assert served.errors.count("Cannot export traces to 127.0.0.1") == 1
    assert "Traceback" not in served.errors
    assert "opentelemetry" not in served.errors


async def test_a_collector_that_never_answers_delays_neither_calls_nor_the_end(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        table = {"otlp_endpoint": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        # Far longer than the test may take: whoever waits for the collector fails it.
        with serving(tmp_path, table, OTEL_EXPORTER_OTLP_TIMEOUT="600") as served:
            assert "traceparent" in await search_and_call(served.url)
    assert "Traceback" not in served.errors


def test_without_the_extra_the_pip_command_is_named(tmp_path: Path) -> None:
    config = {"mcpServers": {}, "telemetry": {"otlp_endpoint": "http://127.0.0.1:4318"}}
    (tmp_path / "mcp.json").write_text(json.dumps(config))
    missing = "import sys; sys.modules['opentelemetry.exporter.otlp.proto.http'] = None\n"
    start = "from toolscout.cli import main; main(['serve', '--config', 'mcp.json'])"
    ended = subprocess.run(
        [sys.executable, "-c", missing + start],
        cwd=tmp_path,
        env={**os.environ, "TOOLSCOUT_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 2
    assert "pip install 'toolscout[otel]'" in ended.stderr
    assert "Traceback" not in ended.stderr
