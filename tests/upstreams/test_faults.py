"""Servers that misbehave: each failure is reported, and none takes another server down."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from tests.upstreams.processes import listening

from toolscout.errors import SourceError
from toolscout.events import Event
from toolscout.sources.mcp.listing import Listing
from toolscout.sources.mcp.listing_cache import ListingCache
from toolscout.sources.mcp.mcp_source import MCPSource
from toolscout.sources.mcp.servers import Server, ServerLimits

BAD = str(Path(__file__).parent / "bad.py")
SUGGESTIONS = types.CompleteRequestParams(
    ref=types.PromptReference(name="poem"),
    argument=types.CompletionArgument(name="topic", value="r"),
)


@asynccontextmanager
async def bad(fault: str, folder: Path | None = None, **options: Any) -> AsyncIterator[MCPSource]:
    limits = options.pop(
        "limits", ServerLimits(connect_timeout_seconds=30, call_timeout_seconds=30)
    )
    server = Server(
        name=fault,
        command=sys.executable,
        args=(BAD, fault, *([str(folder)] if folder else [])),
        env=options.pop("env", {}),
        limits=limits,
    )
    source = MCPSource(server, **options)
    try:
        yield source
    finally:
        await source.close()


class EventWaiter:
    """A sink that waits for events by kind."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Event] = asyncio.Queue()

    def __call__(self, event: Event) -> None:
        self._queue.put_nowait(event)

    async def until(self, kind: str) -> Event:
        async with asyncio.timeout(30):
            while (event := await self._queue.get()).kind != kind:
                pass
            return event


async def test_garbage_on_stdout_is_passed_over() -> None:
    async with bad("garbage") as source:
        (tool,) = await source.tools()
        assert (await source.call(tool, {"text": "hello"})).text == "hello"


async def test_garbage_never_reaches_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with bad("garbage") as source:
        await source.tools()
    assert "not json" not in caplog.text


@pytest.mark.parametrize("fault", ["mumbles", "crowds"])
async def test_an_answer_is_found_in_a_line_that_holds_more_than_it(
    fault: str, tmp_path: Path
) -> None:
    async with bad(fault, tmp_path) as source:
        (tool,) = await source.tools()
        for text in ("one", '{"jsonrpc": "2.0", "id": 1, "result": {}}'):
            assert (await source.call(tool, {"text": text})).text == text
    assert (tmp_path / "calls.txt").read_text().splitlines() == ["echo", "echo"]


async def test_a_server_that_exits_at_once_is_reported_with_the_end_of_its_output() -> None:
    async with bad("exits") as source:
        with pytest.raises(SourceError, match="needs a licence key"):
            await source.tools()
        assert source.state.status == "failing"
        assert source.state.failures == 1


async def test_a_failing_server_is_not_tried_again_before_its_time() -> None:
    async with bad("exits", clock=lambda: 0.0) as source:
        with pytest.raises(SourceError):
            await source.tools()
        with pytest.raises(SourceError, match="next attempt is in a second"):
            await source.tools()
        assert source.state.failures == 1


async def test_a_server_that_hangs_in_initialize_is_given_up() -> None:
    limits = ServerLimits(connect_timeout_seconds=0.5)
    async with bad("hangs", limits=limits) as source:
        with pytest.raises(SourceError, match=r"did not answer within 0\.5 seconds"):
            await source.tools()


async def test_a_caller_that_waits_for_a_server_closed_during_its_start_gets_an_error(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with bad("shy", tmp_path) as source:
        reading = asyncio.create_task(source.read_resource("note://one"))
        with await asyncio.to_thread(gate.open, "w"):  # until the server is asked for its tools
            closing = asyncio.create_task(source.close())
            with pytest.raises(SourceError, match="'shy' is closed"):
                await reading
        await closing


async def test_a_command_that_does_not_exist_is_named() -> None:
    source = MCPSource(Server(name="gone", command="no-such-command-here"))
    with pytest.raises(SourceError, match="no-such-command-here"):
        await source.tools()
    await source.close()


async def test_ten_thousand_tools_are_taken() -> None:
    async with bad("many") as source:
        tools = await source.tools()
        assert len(tools) == 10_000
        assert (await source.call(tools[-1], {"text": "last"})).text == "last"


async def test_a_schema_of_twenty_megabytes_is_left_out_and_reported() -> None:
    async with bad("huge") as source:
        assert [t.local_name for t in await source.tools()] == ["small"]
        assert "20,080,051 characters" in source.state.problems[0]


async def test_cyclic_references_do_no_harm() -> None:
    async with bad("cyclic") as source:
        cyclic, itself = await source.tools()
        assert [p.name for p in cyclic.parameters.top_level()] == ["node"]
        assert itself.parameters.top_level() == ()


async def test_malformed_tools_are_left_out_one_by_one() -> None:
    async with bad("invalid") as source:
        assert [t.local_name for t in await source.tools()] == ["good", "wrong"]
        assert len(source.state.problems) == 2


async def test_a_name_listed_twice_counts_once_and_is_reported() -> None:
    async with bad("duplicates") as source:
        tools = await source.tools()
        assert [t.description for t in tools] == ["First.", "Say it back."]
        assert "'twice' is listed twice" in source.state.problems[0]


async def test_hidden_characters_go_and_long_texts_are_cut() -> None:
    async with bad("hidden") as source:
        (tool,) = await source.tools()
        assert tool.name == "hidden__echo"
        assert tool.description.startswith("Along")
        assert len(tool.description) <= 20_000
        assert (await source.call(tool, {"text": "still called"})).text == "still called"


async def test_a_tool_that_changed_between_two_calls_is_not_called_unseen(tmp_path: Path) -> None:
    changed = asyncio.Event()
    async with bad("changes", tmp_path, on_change=lambda _: changed.set()) as source:
        (first,) = await source.tools()
        changed.clear()
        await source.call(first, {"text": "one"})
        async with asyncio.timeout(30):
            await changed.wait()
        with pytest.raises(SourceError, match="changed 'echo'"):
            await source.call(first, {"text": "two"})
        (second,) = await source.tools()
        assert (first.description, second.description) == ("Version 1.", "Version 2.")
        assert (tmp_path / "calls.txt").read_text().splitlines() == ["echo"]


async def test_a_call_during_which_the_server_dies_is_reported_and_not_run_again(
    tmp_path: Path,
) -> None:
    events = EventWaiter()
    async with bad("dies", tmp_path, sink=events) as source:
        (tool,) = await source.tools()
        with pytest.raises(SourceError, match="may or may not have taken effect"):
            await source.call(tool, {})
        assert (tmp_path / "calls.txt").read_text().splitlines() == ["echo"]
        await events.until("upstream_lost")
        await events.until("upstream_ready")
        assert source.state.status == "ready"


async def test_a_call_that_takes_too_long_is_cancelled() -> None:
    async with bad("slow", limits=ServerLimits(call_timeout_seconds=0.5)) as source:
        (tool,) = await source.tools()
        with pytest.raises(SourceError, match=r"within 0\.5 seconds"):
            await source.call(tool, {})


@pytest.mark.timeout(30)
async def test_other_requests_than_calls_have_the_timeout_of_a_call() -> None:
    limits = ServerLimits(concurrency=5, call_timeout_seconds=2)
    async with bad("mute", limits=limits) as source:
        (tool,) = await source.tools()
        outcomes = await asyncio.gather(
            source.get_prompt("poem", {}),
            source.read_resource("note://one"),
            source.complete(SUGGESTIONS),
            source.subscribe("note://one", print),
            source.unsubscribe("note://one"),
            return_exceptions=True,
        )
        for outcome in outcomes:
            assert isinstance(outcome, SourceError)
            assert re.search(r"did not answer '.+' within 2 seconds.+Try again", str(outcome))
        assert (await source.call(tool, {"text": "room again"})).text == "room again"


async def test_a_call_that_waited_for_its_turn_while_the_server_died_runs_in_the_next(
    tmp_path: Path,
) -> None:
    os.mkfifo(tmp_path / "gate")
    async with bad("asks", tmp_path, forwards_requests=True) as source:
        (tool,) = await source.tools()
        await source.call(tool, {"text": "ask"})  # from now on there is one call at a time
        dying = asyncio.create_task(source.call(tool, {"text": "die"}))
        waiting = asyncio.create_task(source.call(tool, {"text": "still here"}))
        with await asyncio.to_thread((tmp_path / "gate").open, "w"):  # until the first has begun
            pass
        with pytest.raises(SourceError, match="ended while"):
            await dying
        assert (await waiting).text == "still here"


async def test_a_restart_knows_the_tools_before_the_server_answers(tmp_path: Path) -> None:
    listings = ListingCache(tmp_path)
    async with bad("ok", listings=listings) as source:
        known = await source.tools()
    async with bad("ok", listings=listings) as source:
        assert await source.tools() == known
        assert source.state.status == "idle"
        assert (await source.call(known[0], {"text": "awake"})).text == "awake"


async def test_another_configuration_does_not_use_the_old_list(tmp_path: Path) -> None:
    listings = ListingCache(tmp_path)
    async with bad("ok", listings=listings) as source:
        await source.tools()
    async with bad("ok", tmp_path, listings=listings) as source:
        assert source.listing is None


class SlowDisk(ListingCache):
    """Keeps a listing only once it may."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.asked = threading.Event()
        self.may = threading.Event()

    def save(self, name: str, digest: str, listing: Listing) -> None:
        self.asked.set()
        assert self.may.wait(60)
        super().save(name, digest, listing)


async def test_while_a_listing_is_worked_on_other_servers_are_called(tmp_path: Path) -> None:
    disk = SlowDisk(tmp_path)
    async with bad("many", listings=disk) as source, bad("ok") as other:
        listed = asyncio.create_task(source.tools())
        assert await asyncio.to_thread(disk.asked.wait, 60)
        (tool,) = await other.tools()
        assert (await other.call(tool, {"text": "meanwhile"})).text == "meanwhile"
        assert not listed.done()
        assert source.listing is None
        disk.may.set()
        assert len(await listed) == 10_000
        assert source.state.tools == 10_000


async def test_listings_of_one_server_are_taken_in_the_order_they_came(tmp_path: Path) -> None:
    disk = SlowDisk(tmp_path / "cache")
    seen: list[int] = []
    limits = ServerLimits(poll_seconds=0.05)
    changed = asyncio.Event()

    def on_change(source: MCPSource) -> None:
        seen.append(source.state.tools)
        changed.set()

    async with bad("silent", tmp_path, limits=limits, listings=disk, on_change=on_change) as source:
        listed = asyncio.create_task(source.tools())
        assert await asyncio.to_thread(disk.asked.wait, 60)
        (tmp_path / "more.txt").touch()
        disk.may.set()
        assert len(await listed) in (1, 2)
        async with asyncio.timeout(30):
            while source.state.tools < 2:
                changed.clear()
                await changed.wait()
        assert seen == [1, 2]
    assert len((disk.load("silent", source.server.digest) or Listing()).tools) == 2


async def test_a_broken_cache_file_is_as_good_as_none(tmp_path: Path) -> None:
    listings = ListingCache(tmp_path)
    async with bad("ok", listings=listings) as source:
        await source.tools()
    for path in tmp_path.iterdir():  # noqa: ASYNC240 -- a handful of files
        path.write_text('{"format": 1, "tools": [{')
    async with bad("ok", listings=listings) as source:
        assert source.listing is None
        assert len(await source.tools()) == 1


@pytest.mark.behaviour("S7")
async def test_an_idle_server_is_stopped_and_a_call_wakes_it() -> None:
    events = EventWaiter()
    async with bad("ok", limits=ServerLimits(idle_seconds=0.05), sink=events) as source:
        (tool,) = await source.tools()
        await events.until("upstream_idle")
        assert source.state.status == "idle"
        assert (await source.call(tool, {"text": "again"})).text == "again"


async def test_a_change_announced_to_the_idle_is_looked_at_before_the_server_is_stopped(
    tmp_path: Path,
) -> None:
    events = EventWaiter()
    limits = ServerLimits(idle_seconds=0.001)
    async with bad("restless", tmp_path, limits=limits, sink=events) as source:
        await source.tools()
        await events.until("upstream_idle")
    assert (tmp_path / "calls.txt").read_text().splitlines() == ["list", "list"]


async def test_a_server_is_not_listed_over_and_over_while_a_long_call_runs(tmp_path: Path) -> None:
    now = 0.0

    def changed(source: MCPSource) -> None:
        nonlocal now
        if source.state.in_flight:
            now += 1000.0

    limits = ServerLimits(idle_seconds=60)
    async with bad(
        "ponders", tmp_path, limits=limits, on_change=changed, clock=lambda: now
    ) as source:
        (tool,) = await source.tools()
        listed = await source.call(tool, {})
        assert now == 1000.0, "the call took longer than a server may be idle"
        assert listed.text == "1"


async def test_a_server_that_announces_a_change_with_each_list_is_not_listed_without_a_break() -> (
    None
):
    async with bad("frantic") as source:
        (tool,) = await source.tools()
        lists_meanwhile = int((await source.call(tool, {})).text)
        assert lists_meanwhile <= 2


async def test_a_server_that_does_not_announce_changes_is_polled(tmp_path: Path) -> None:
    changed = asyncio.Event()
    limits = ServerLimits(poll_seconds=0.05)
    async with bad("silent", tmp_path, limits=limits, on_change=lambda _: changed.set()) as source:
        assert len(await source.tools()) == 1
        changed.clear()
        (tmp_path / "more.txt").touch()
        async with asyncio.timeout(30):
            await changed.wait()
        assert len(await source.tools()) == 2


async def test_calls_beyond_the_limit_wait_for_their_turn(tmp_path: Path) -> None:
    limits = ServerLimits(concurrency=1, call_timeout_seconds=5, queue_seconds=0.2)
    async with bad("slow", limits=limits) as source:
        (tool,) = await source.tools()
        outcomes = await asyncio.gather(
            *(source.call(tool, {}) for _ in range(2)), return_exceptions=True
        )
        assert any("is busy with 1 other call," in str(o) for o in outcomes)


async def test_a_busy_server_counts_the_calls_that_wait_for_its_start() -> None:
    limits = ServerLimits(concurrency=1, queue=0, connect_timeout_seconds=30)
    async with bad("hangs", limits=limits) as source:
        first = asyncio.create_task(source.subscribe("test://x", print))
        await asyncio.sleep(0)
        with pytest.raises(SourceError, match="is busy with 1 other call, and 0 more are waiting"):
            await source.subscribe("test://y", print)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)


async def test_a_server_gets_its_own_variables_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("UPSTREAM_TEST_SECRET", "not yours")
    async with bad("environment", env={"MINE": "yes"}) as source:
        (tool,) = await source.tools()
        assert (await source.call(tool, {"text": "MINE"})).text == "yes"
        assert (await source.call(tool, {"text": "UPSTREAM_TEST_SECRET"})).text == "unset"


@pytest.mark.parametrize("name", ["change", "look"])
async def test_a_server_that_says_no_is_quoted_and_asked_once(tmp_path: Path, name: str) -> None:
    async with bad("refuses", tmp_path) as source:
        tools = {t.local_name: t for t in await source.tools()}
        result = await source.call(tools[name], {})
        assert result.is_error
        assert "is used up" in result.text
        assert source.state.status == "ready"
    assert (tmp_path / "calls.txt").read_text().split() == [name]


async def test_a_server_that_refuses_the_handshake_is_quoted() -> None:
    async with bad("denies") as source:
        with pytest.raises(SourceError, match="Not for you"):
            await source.tools()


async def test_half_a_character_costs_that_character_alone() -> None:
    async with bad("halves") as source:
        (tool,) = await source.tools()
        result = await source.call(tool, {})
        assert result.text == "cut \ufffd here, \U0001f600 whole, \\ud83d spelt"


async def test_an_answer_that_cannot_be_read_is_reported_at_once() -> None:
    limits = ServerLimits(connect_timeout_seconds=600)
    async with bad("endless", limits=limits) as source:
        with pytest.raises(SourceError, match=r"cannot be read: .*recursion"):
            await source.tools()


async def test_a_tool_that_cannot_be_kept_is_named() -> None:
    async with bad("infinite") as source:
        assert [t.local_name for t in await source.tools()] == ["good"]
        (problem,) = source.state.problems
        assert "'odd' is skipped" in problem


async def test_an_answer_without_a_list_is_reported() -> None:
    async with bad("listless") as source:
        assert await source.tools() == ()
        assert "contains no list" in source.state.problems[0]


@pytest.mark.parametrize("fault", ["refuses", "confesses"])
async def test_no_error_of_a_server_carries_its_secret(fault: str) -> None:
    secret = 'a "quoted" secret'
    server = Server(
        name=fault,
        command=sys.executable,
        args=(BAD, fault),
        env={"API_KEY": secret},
        secrets=(secret,),
    )
    source = MCPSource(server)
    try:
        result = await source.call((await source.tools())[0], {})
    finally:
        await source.close()
    assert result.is_error
    assert "is used up" in result.text
    assert "quoted" not in f"{result} {result.raw}"


async def test_no_error_of_a_server_carries_its_secret_in_an_encoded_form() -> None:
    secret = 's3cr3t/"it\'s"<&>\\+ é/w0rd~9'
    server = Server(
        name="encodes",
        command=sys.executable,
        args=(BAD, "encodes"),
        env={"API_KEY": secret},
        secrets=(secret,),
    )
    source = MCPSource(server)
    try:
        result = await source.call((await source.tools())[0], {})
    finally:
        await source.close()
    *texts, packed, login, unpadded, inside = result.text.splitlines()
    for line in texts:
        assert "•••" in line
        assert "s3cr3t" not in line
        assert "w0rd" not in line
    assert packed == "••• ••• •••"
    # The character before may have two or four bits of the secret, and the one after as many.
    assert re.fullmatch(r"Authorization: Basic am9lO.•••", login)
    assert re.fullmatch(r"Authorization: Basic am9lO.•••", unpadded)
    assert re.fullmatch(r"YSBrZXkg•••.BpbiBhIHRleHQ=", inside)


async def test_an_invalid_answer_ends_the_call_at_once() -> None:
    limits = ServerLimits(connect_timeout_seconds=30, call_timeout_seconds=600)
    async with bad("blank", limits=limits) as source:
        (tool,) = await source.tools()
        with pytest.raises(SourceError, match="cannot be read: no result and no error"):
            await source.call(tool, {})
        assert source.state.status == "ready"


async def test_a_stream_that_breaks_off_leaves_no_trace_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (await reader.readline()).startswith(b"GET"):
            begin = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
            writer.write(begin + b"event: endpoint\ndata: /messages\n\n")
            await writer.drain()
            await asked.wait()
        asked.set()
        writer.transport.abort()

    asked = asyncio.Event()
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        server = Server(name="sse", transport="sse", url=f"http://127.0.0.1:{port}/sse")
        source = MCPSource(server)
        with pytest.raises(SourceError, match="Cannot use MCP server 'sse'"):
            await source.tools()
        await source.close()
    assert [r for r in caplog.records if r.exc_info] == []


async def connect_errors(server: Server) -> list[str]:
    """The error of a first attempt, and of a second one during the back-off."""
    source = MCPSource(server, clock=lambda: 0.0)
    errors: list[str] = []
    for _ in range(2):
        with pytest.raises(SourceError) as caught:
            await source.refresh()
        errors.append(str(caught.value))
    await source.close()
    return errors


async def test_words_about_a_server_out_of_reach_are_whole_sentences() -> None:
    first, again = await connect_errors(
        Server(name="far", transport="http", url="http://127.0.0.1:9/mcp")
    )
    assert first.endswith("All connection attempts failed.")
    assert again.endswith("All connection attempts failed. The next attempt is in a second.")


async def test_a_missing_folder_is_not_reported_as_a_missing_command(tmp_path: Path) -> None:
    there = Server(name="a", command=sys.executable, cwd=str(tmp_path / "none"))
    assert f"its cwd '{tmp_path / 'none'}' is not a folder." in (await connect_errors(there))[0]
    gone = Server(name="a", command="no-such-command", cwd=str(tmp_path))
    assert "the command 'no-such-command' was not found." in (await connect_errors(gone))[0]


@pytest.mark.parametrize(("actual", "configured"), [("sse", "http"), ("http", "sse")])
async def test_asking_in_the_other_way_of_http_hints_at_the_type(
    actual: str, configured: Any
) -> None:
    with listening(actual) as url:
        first, _ = await connect_errors(Server(name="a", transport=configured, url=url))
    assert f'give it "type": "{actual}"' in first


async def test_another_status_hints_at_no_type() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await reader.read()  # until the client has gone
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listener:
        url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/mcp"
        first, _ = await connect_errors(Server(name="a", transport="http", url=url))
    assert first.endswith("it answered with HTTP status 503.")
