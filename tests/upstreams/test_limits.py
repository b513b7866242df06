"""Servers that send too much, get too many calls or use too much: each is stopped at its limit."""

from __future__ import annotations

import asyncio
import itertools
import json
import resource
import sys
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.upstreams.processes import free_port, running

from toolscout.errors import SourceError
from toolscout.sources.mcp.mcp_source import MCPSource
from toolscout.sources.mcp.servers import Server, ServerLimits
from toolscout.sources.mcp.stdio_transport import LineBuffer, LineTooLongError

HERE = Path(__file__).parent
MAY_HAVE_RUN = "may still have run: check before calling again"


@asynccontextmanager
async def flood(
    kind: str, path: str = "/mcp", **limits: Any
) -> AsyncIterator[tuple[MCPSource, str]]:
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    with running(str(HERE / "flood.py"), str(port), kind):
        given_limits = ServerLimits(connect_timeout_seconds=30, call_timeout_seconds=60, **limits)
        server = Server("flood", transport="http", url=f"{base}{path}", limits=given_limits)
        source = MCPSource(server)
        try:
            yield source, base
        finally:
            await source.close()


@asynccontextmanager
async def local(*command: str, **limits: Any) -> AsyncIterator[MCPSource]:
    given_limits = ServerLimits(connect_timeout_seconds=30, call_timeout_seconds=30, **limits)
    server = Server("local", command=sys.executable, args=command, limits=given_limits)
    source = MCPSource(server)
    try:
        yield source
    finally:
        await source.close()


async def fail_to_call(source: MCPSource, text: str = "") -> str:
    (tool,) = await source.tools()
    with pytest.raises(SourceError) as caught:
        await source.call(tool, {"text": text})
    return str(caught.value)


def count_runs(base: str) -> int:
    with urllib.request.urlopen(f"{base}/ran") as answer:
        return int(answer.read())


@pytest.mark.parametrize("kind", ["body", "line", "error body", "bomb"])
async def test_an_answer_without_an_end_is_cut_off(kind: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with flood(kind, response_bytes=5_000_000) as (source, base):
        said = await fail_to_call(source)
        assert "check before calling again" in said
        assert count_runs(base) == 1
        assert source.state.status == "ready"  # only the call failed
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kb < 100_000


async def test_an_answer_that_is_compressed_twice_is_refused() -> None:
    async with flood("twice") as (source, _):
        assert "its encoding gzip, gzip was not asked for" in await fail_to_call(source)


async def test_a_compressed_answer_is_read() -> None:
    async with flood("gzip") as (source, _):
        (tool,) = await source.tools()
        assert (await source.call(tool, {})).text == "small again"


@pytest.mark.parametrize(
    "kind",
    [
        *("500", "500 json", "504", "302", "303", "307", "308", "html", "nonsense", "event", "202"),
        *("internal error", "internal error event", "result and error", "result and error event"),
    ],
)
async def test_an_answer_that_says_nothing_of_the_outcome_says_that_it_may_have_run(
    kind: str,
) -> None:
    async with flood(kind) as (source, base):
        assert MAY_HAVE_RUN in await fail_to_call(source)
        assert count_runs(base) == 1  # and it is not sent again


async def test_a_server_that_redirects_every_request_gets_its_calls_once() -> None:
    async with flood("gzip", path="/mcp/") as (source, base):  # the framework leaves the slash out
        (tool,) = await source.tools()
        for number in range(1, 4):
            assert (await source.call(tool, {})).text == "small again"
            assert count_runs(base) == number


@pytest.mark.parametrize("fault", ["internal", "both"])
async def test_a_process_that_fails_inside_a_call_says_that_it_may_have_run(fault: str) -> None:
    async with local(str(HERE / "bad.py"), fault) as source:
        assert MAY_HAVE_RUN in await fail_to_call(source)


@pytest.mark.parametrize(
    "kind", ["429", "no such method", "wrong arguments", "wrong arguments event"]
)
async def test_an_answer_that_refuses_does_not_claim_that_it_may_have_run(kind: str) -> None:
    async with flood(kind) as (source, _):
        (tool,) = await source.tools()
        result = await source.call(tool, {})
        assert result.is_error
        assert "refused" in result.text
        assert "may" not in result.text


async def read_gaps(base: str, *, streams: int) -> list[float]:
    """The seconds between the streams that were opened, once there are so many."""
    async with asyncio.timeout(60):
        while True:
            answer = await asyncio.to_thread(urllib.request.urlopen, f"{base}/opened")
            with answer:
                times = json.loads(answer.read())
            if len(times) >= streams:
                return [after - before for before, after in itertools.pairwise(times)]
            await asyncio.sleep(0.1)


async def test_a_stream_that_ends_without_events_is_opened_less_and_less_often() -> None:
    async with flood("reconnects") as (source, base):
        await source.tools()
        gaps = await read_gaps(base, streams=7)
        assert gaps[3] > 1.5
        assert gaps[2] > 0.7
        assert gaps[4] < gaps[2]  # the fifth stream had an event
        assert gaps[5] < gaps[2]


async def test_a_call_whose_stream_ends_without_events_is_resumed_less_and_less_often() -> None:
    async with flood("polls") as (source, base):
        (tool,) = await source.tools()
        assert (await source.call(tool, {})).text == "done"
        gaps = await read_gaps(base, streams=5)
        assert gaps[3] > 1.5
        assert gaps[2] > 0.7


async def test_a_line_without_an_end_stops_the_server() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with local(str(HERE / "bad.py"), "line", response_bytes=5_000_000) as source:
        said = await fail_to_call(source)
        assert "was stopped while 'echo' ran: it wrote a line of more than 5,000,000 bytes" in said
        assert "check before calling again" in said
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kb < 100_000


@given(st.lists(st.binary(max_size=30)), st.integers(1, 40))
def test_lines_are_those_of_the_whole_text_however_it_is_cut(
    chunks: list[bytes], limit: int
) -> None:
    *expected, rest = b"".join(chunks).split(b"\n")
    buffer = LineBuffer(limit)
    found: list[bytes] = []
    try:
        for chunk in chunks:
            found += buffer.feed(chunk)
    except LineTooLongError:
        assert any(len(line) > limit for line in (*expected, rest))
    else:
        assert found == expected
        assert all(len(line) <= limit for line in expected)


async def test_a_full_queue_refuses_at_once(tmp_path: Path) -> None:
    command = (str(HERE / "bad.py"), "slow")
    async with local(*command, concurrency=1, queue=1, queue_seconds=30) as source:
        (tool,) = await source.tools()
        held = [asyncio.create_task(source.call(tool, {})) for _ in range(2)]
        while not source.state.in_flight:
            await asyncio.wait(held, timeout=0.01)
        async with asyncio.timeout(5):
            refused = await source.call(tool, {})
        assert (refused.is_error, refused.code) == (True, "over_limit")
        said = refused.text
        assert "busy with 1 other call, and 1 more are waiting" in said
        assert "The call has not run" in said
        for task in held:
            task.cancel()
        await asyncio.gather(*held, return_exceptions=True)


@pytest.mark.parametrize(("seconds", "served"), [(10, 9), (1.6, 5)], ids=["in time", "too slow"])
async def test_a_queue_that_moves_serves_those_whose_turn_comes_in_time(
    seconds: float, served: int
) -> None:
    command = (str(HERE / "bad.py"), "late")  # 0.3 seconds for each call
    async with local(*command, concurrency=1, queue_seconds=seconds) as source:
        (tool,) = await source.tools()
        started = time.monotonic()

        async def call() -> tuple[bool, float]:
            result = await source.call(tool, {"text": "x"})
            return result.is_error, time.monotonic() - started

        done = await asyncio.gather(*(call() for _ in range(9)))
        refused = [took for is_refused, took in done if is_refused]
        assert abs(len(done) - len(refused) - served) <= 1
        assert all(took < 1.4 for took in refused)


async def test_a_server_gets_only_so_many_calls_a_minute() -> None:
    async with local(str(HERE / "bad.py"), "ok", calls_per_minute=12) as source:
        (tool,) = await source.tools()
        calls = (source.call(tool, {"text": "x"}) for _ in range(3))
        errors = [each.text for each in await asyncio.gather(*calls) if each.is_error]
        assert len(errors) == 1
        assert "gets at most 12 calls a minute" in errors[0]
        assert "Try again in 5 seconds" in errors[0]


@pytest.mark.parametrize(
    ("limits", "text", "expected"),
    [
        ({"memory_mb": 200}, "memory", "MemoryError"),
        ({"open_files": 32}, "files", "Too many open files"),
        ({"file_mb": 1}, "write", "File too large"),
        ({"processes": 5_000}, "processes", "5000"),
        ({"cpu_seconds": 60}, "cpu", "60"),
        ({"cpu_seconds": 60}, "raise", "not allowed to raise maximum limit"),
        ({"cpu_seconds": 60}, "core", "0"),
    ],
)
async def test_a_process_stays_within_its_limits(
    limits: dict[str, int], text: str, expected: str, tmp_path: Path
) -> None:
    async with local(str(HERE / "bad.py"), "uses", str(tmp_path), **limits) as source:
        (tool,) = await source.tools()
        assert expected in (await source.call(tool, {"text": text})).text


async def test_a_process_that_burns_its_cpu_time_is_ended() -> None:
    async with local(str(HERE / "bad.py"), "burns", cpu_seconds=1) as source:
        said = await fail_to_call(source)
        assert "ended while 'echo' ran" in said
        assert "check before calling again" in said


async def test_a_limited_command_that_does_not_exist_is_reported_as_such() -> None:
    limits = ServerLimits(memory_mb=100)
    source = MCPSource(Server("gone", command="no-such-command", limits=limits))
    with pytest.raises(SourceError, match="the command 'no-such-command' was not found"):
        await source.tools()
    await source.close()
