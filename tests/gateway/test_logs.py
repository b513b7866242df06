"""What `toolscout serve` prints to stderr, and what `toolscout logs` prints of its servers."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import stat
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from tests.gateway.conftest import Serve, small

from toolscout.cli.serve_log import TerminalFormatter, is_coloured
from toolscout.errors import ToolscoutError
from toolscout.events import (
    CatalogChangeEvent,
    DiscoveryResultEvent,
    Event,
    ToolCallEvent,
    ToolHeldEvent,
    ToolNotFoundEvent,
    ToolRefusedEvent,
    UpstreamFailedEvent,
    UpstreamLostEvent,
    UpstreamReadyEvent,
    UpstreamRemovedEvent,
    VectorsLoadingEvent,
    VectorsReadyEvent,
)
from toolscout.sources.mcp.server_log import MAX_LOG_BYTES, ServerLogs
from toolscout.sources.mcp.servers import Server
from toolscout.telemetry.lines import REASONS, EventLines, render_event

SECRET = "hush-hush-value"
QUERY = "say it back"


class Stderr:
    """The lines that a process writes to stderr."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream
        self.lines: list[str] = []

    async def line(self, part: str) -> str:
        """A line with this in it, printed already or yet to be printed."""
        async with asyncio.timeout(60):
            while not (found := [line for line in self.lines if part in line]):
                line = (await self._stream.readline()).decode()
                assert line, f"{part!r} was not printed: {self.lines}"
                self.lines.append(line)
            return found[0]

    async def rest(self) -> None:
        """Read what is left, until the process ends."""
        self.lines += (await self._stream.read()).decode().splitlines(keepends=True)


def environment(folder: Path) -> dict[str, str]:
    home = {"TOOLSCOUT_HOME": str(folder / "home"), "TOOLSCOUT_EMBEDDER": "none"}
    return {**os.environ, **home}


@asynccontextmanager
async def serving(folder: Path, servers: dict[str, Any], *options: str) -> AsyncGenerator[Stderr]:
    """A gateway over HTTP in a process of its own."""
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "toolscout.cli", "serve", "--config", str(folder / "mcp.json")),
        *options,
        stderr=asyncio.subprocess.PIPE,
        env=environment(folder),
    )
    assert process.stderr is not None
    stderr = Stderr(process.stderr)
    try:
        yield stderr
    finally:
        process.terminate()
        await stderr.rest()
        await process.wait()


async def address(stderr: Stderr) -> str:
    found = re.search(r"http://[\w.:]+/mcp", await stderr.line("/mcp"))
    assert found is not None
    return found[0]


async def run_toolscout(folder: Path, *arguments: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "toolscout.cli", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(folder),
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_serve_prints_a_line_per_search_call_and_server_change(tmp_path: Path) -> None:
    one = {**small(), "env": {"KEY": SECRET}, "idle_seconds": 0.5}
    async with serving(tmp_path, {"one": one}, "--http", "127.0.0.1:0") as stderr:
        async with Client(await address(stderr), mode="legacy") as client:
            arguments: dict[str, Any] = {"name": "one__echo", "arguments": {"text": SECRET}}
            await client.call_tool("call_tool", arguments)
            assert re.match(r"\d\d:\d\d:\d\d one: ready\n", await stderr.line("one: ready"))
            await stderr.line(" one: 1 tool added")
            line = await stderr.line("call one__echo")
            assert re.fullmatch(r"\d\d:\d\d:\d\d call one__echo: ok \(\d+ ms\)\n", line)
            bad = {"name": "one__echo", "arguments": {"text": [SECRET]}}
            await client.call_tool("call_tool", bad, raise_on_error=False)
            await stderr.line("call one__echo: refused: the arguments do not fit")
            await client.call_tool("tool_search", {"query": QUERY})
            line = await stderr.line("search")
            hits = r'search "say it back": one__echo \(likely, confidence [01]\.\d\d, \d+ ms\)\n'
            assert re.fullmatch(rf"\d\d:\d\d:\d\d {hits}", line)
        await stderr.line("one: idle, stopped until it is needed")
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"one": one, "two": small()}}))
        await stderr.line("configuration: reloaded")
        await stderr.line("two: 1 tool added")
    text = "".join(stderr.lines)
    assert "Status: http://" in text
    assert SECRET not in text, "arguments are not printed"
    assert "\x1b" not in text, "no colours in a pipe"


async def test_a_failing_server_is_reported_once_and_its_log_can_be_read(tmp_path: Path) -> None:
    servers = {
        "good": small(),
        "exits": small("exits"),
        "hangs": {**small("hangs"), "connect_timeout_seconds": 1.5},
        "unset": {**small(), "env": {"KEY": "${NOT_SET_ANYWHERE}"}},
    }
    async with (
        serving(tmp_path, servers, "--http", "127.0.0.1:0") as stderr,
        Client(await address(stderr), mode="legacy") as client,
    ):
        await client.call_tool("tool_search", {"query": QUERY})
        line = await stderr.line("exits: failing")
        assert "This server needs a licence key (full log: " in line
        assert "-m toolscout logs exits)" in line
        await stderr.line("hangs: starting")
        line = await stderr.line("hangs: failing: it did not answer within 1.5 seconds.")
        assert "raise connect_timeout_seconds in its entry" in line
        async with asyncio.timeout(60):  # until it was tried more than once
            while "2 failures in a row" not in (await run_toolscout(tmp_path, "logs", "exits"))[1]:
                await client.call_tool("tool_search", {"query": QUERY})
    assert sum("exits: failing" in line for line in stderr.lines) == 1
    assert not any("Cannot use MCP server" in line for line in stderr.lines)
    assert sum("NOT_SET_ANYWHERE" in line for line in stderr.lines) == 1
    code, out, _ = await run_toolscout(tmp_path, "logs", "exits", "--json", "--lines", "2")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert len(rows) == 2
    assert rows[-1]["origin"] == "toolscout"
    assert (await run_toolscout(tmp_path, "logs"))[1].split() == ["exits", "good", "hangs"]
    code, _, err = await run_toolscout(tmp_path, "logs", "nobody")
    assert code == 2
    assert "These servers have one: exits, good, hangs." in err


async def test_json_logs_are_one_object_a_line_and_leave_out_queries_on_request(
    tmp_path: Path,
) -> None:
    options = ("--http", "127.0.0.1:0", "--log", "json", "--no-queries")
    servers = {"one": small(), "exits": small("exits"), "unset": {"command": "${NOT_SET}"}}
    async with (
        serving(tmp_path, servers, *options) as stderr,
        Client(await address(stderr), mode="legacy") as client,
    ):
        await client.call_tool("tool_search", {"query": QUERY})
        await stderr.line('"tool_discovery_result"')
        await stderr.line('"upstream_failed"')
    rows = [json.loads(line) for line in stderr.lines]
    assert {"serving", "upstream_ready", "catalog_changed"} <= {row.get("kind") for row in rows}
    assert any("NOT_SET" in row.get("message", "") for row in rows)
    (search,) = [row for row in rows if row.get("kind") == "tool_discovery_result"]
    assert search["names"] == ["one__echo"]
    assert QUERY not in json.dumps(rows)


async def test_json_logs_quote_queries_unless_switched_off(tmp_path: Path) -> None:
    options = ("--http", "127.0.0.1:0", "--log", "json")
    async with (
        serving(tmp_path, {"one": small()}, *options) as stderr,
        Client(await address(stderr), mode="legacy") as client,
    ):
        await client.call_tool("tool_search", {"query": QUERY})
        row = json.loads(await stderr.line('"tool_discovery_result"'))
    assert row["queries"] == [QUERY]


def stdio_client(folder: Path, *options: str) -> Client[Any]:
    """A client that starts the gateway over stdio, with its stderr in a file."""
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"one": small()}}))
    arguments = ["serve", "--stdio", "--config", str(folder / "mcp.json"), *options]
    run = f'exec {sys.executable} -m toolscout.cli "$@" 2>{folder}/stderr.txt'
    server = {"command": "sh", "args": ["-c", run, "sh", *arguments], "env": environment(folder)}
    return Client({"mcpServers": {"gateway": server}})


@pytest.mark.parametrize("options", [(), ("--quiet",)], ids=["plain", "quiet"])
async def test_over_stdio_the_lines_go_to_stderr_and_quiet_is_silent(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    async with stdio_client(tmp_path, *options) as client:
        await client.call_tool("tool_search", {"query": QUERY})
        await client.call_tool("call_tool", {"name": "one__echo", "arguments": {"text": "x"}})
    text = (tmp_path / "stderr.txt").read_text()
    if options:
        assert text == ""
    else:
        assert text.startswith("Toolscout serves one over stdio.\n")
        assert 'search "say it back": one__echo' in text
        assert "call one__echo: ok" in text


@pytest.mark.parametrize("options", [(), ("--no-queries",)], ids=["shown", "hidden"])
async def test_a_search_before_any_server_is_ready_has_a_line_with_its_reason(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    servers = {"a": small("hangs"), "b": small("hangs")}
    async with (
        serving(tmp_path, servers, "--http", "127.0.0.1:0", "--wait", "0.1", *options) as stderr,
        Client(await address(stderr), mode="legacy") as client,
    ):
        reply = await client.call_tool("tool_search", {"query": QUERY}, raise_on_error=False)
        line = await stderr.line("search")
    query = "" if options else f' "{QUERY}"'
    assert f"search{query}: failed: servers are still starting: a, b (" in line
    assert "No tools are connected yet: a, b are still starting. Try again" in str(reply.content)


async def test_the_line_of_a_search_shows_the_doubt(serve: Serve) -> None:
    async with serve({"one": small("several")}) as running, running.client() as client:
        for query in ("does thing number 7", "thing of the quarterly budget", "xkqz vbnwt"):
            await client.call_tool("tool_search", {"query": query})
        lines = [line for event in running.events if "search" in (line := render_event(event))]
    assert "(likely, confidence " in lines[0]
    assert "(unsure, confidence " in lines[1]
    assert '"xkqz vbnwt": nothing fits (' in lines[2]


async def test_an_error_at_the_start_is_json_where_the_log_is(tmp_path: Path) -> None:
    code, _, err = await run_toolscout(tmp_path, "serve", "--config", "none.json", "--log", "json")
    assert code == 2
    assert json.loads(err)["error"]["message"]


async def test_held_tools_get_one_line(serve: Serve) -> None:
    async with serve({"evil": small("shadows")}) as running, running.client() as client:
        await client.call_tool("tool_search", {"query": "honest"})
        lines = [render_event(event) for event in running.events]
    assert any(line.startswith("evil: tool_search is held for approval (") for line in lines)


def test_a_line_is_one_line_whatever_a_server_wrote() -> None:
    reason = "gone\n\x1b[31mTraceback\n\x9b2J\x1b]0;title\x07" + "x" * 5_000
    line = render_event(UpstreamLostEvent(server="a", reason=reason))
    assert line.startswith(
        "a: starting again, connection lost. It wrote: <U+009B>2J<U+001B>]0;title<U+0007>xxx"
    )
    assert len(line) <= 300
    assert line.isprintable()


def test_a_long_query_is_shortened_and_its_control_characters_are_escaped() -> None:
    query = "find\x1b[2J\n\u202e it " + "word " * 100
    event = DiscoveryResultEvent(tool="tool_search", queries=(query,), names=("a", "b", "c", "d"))
    line = render_event(event)
    assert line.startswith('search "find<U+001B>[2J <U+202E> it word ')
    assert line.endswith('…": a, b, c and 1 more (confidence 0.00, 0 ms)')
    assert len(line) < 160
    hidden = render_event(event, shows_queries=False)
    assert hidden == "search: a, b, c and 1 more (confidence 0.00, 0 ms)"


OUTCOMES: list[tuple[Event, str]] = [
    (ToolCallEvent(tool="t", is_error=False), "call t: ok (0 ms)"),
    (
        ToolCallEvent(tool="t", is_error=True, code="call"),
        "call t: failed: the tool reported an error (0 ms)",
    ),
    (
        ToolCallEvent(tool="t", is_error=True, code="timeout"),
        "call t: failed: no answer in time (0 ms)",
    ),
    (
        ToolCallEvent(tool="t", is_error=True, code="code_of_a_plugin"),
        "call t: failed: see the reply (0 ms)",
    ),
    (ToolRefusedEvent(tool="t"), "call t: refused: the tool is not available here"),
    (
        ToolRefusedEvent(tool="t", code="refused", why="t is held for approval."),
        "call t: refused: held for approval",
    ),
    (
        ToolRefusedEvent(tool="t", code="invalid_arguments", why="held for approval"),
        "call t: refused: the arguments do not fit",
    ),
    (
        ToolCallEvent(tool="t", is_error=True, code="refused"),
        "call t: refused: held for approval (0 ms)",
    ),
    (
        ToolRefusedEvent(tool="t", code="refused", why="t: its server s is disabled."),
        "call t: refused: its server is disabled",
    ),
    (
        DiscoveryResultEvent(tool="describe_tools", is_error=True, code="unknown_tool"),
        "describe_tools: failed: there is no such tool (0 ms)",
    ),
    (
        DiscoveryResultEvent(tool="describe_tools", is_error=True, code="refused"),
        "describe_tools: refused: held for approval (0 ms)",
    ),
    (UpstreamRemovedEvent(server="s", is_disabled=True), "s: disabled"),
    (UpstreamRemovedEvent(server="s"), "s: removed"),
    (ToolNotFoundEvent(tool="t"), "call t: refused: there is no such tool"),
    (
        DiscoveryResultEvent(tool="tool_search", queries=("/(/",), is_error=True),
        'search "/(/": failed: see the reply (0 ms)',
    ),
    (
        ToolHeldEvent(server="s", tool="t", standing="shadow"),
        "s: t is held for approval (it uses the name of another tool)",
    ),
]


@pytest.mark.parametrize(("event", "line"), OUTCOMES, ids=[line for _, line in OUTCOMES])
def test_a_line_says_in_words_how_a_call_or_a_search_ended(event: Event, line: str) -> None:
    assert render_event(event) == line


def test_tools_that_leave_the_catalog_because_they_are_held_do_not_count_as_removed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    lines = EventLines()
    for event in (
        ToolHeldEvent(server="s", tool="t", standing="changed"),
        CatalogChangeEvent(source="s", removed=1),
        CatalogChangeEvent(source="s", removed=1),
    ):
        lines(event)
    assert caplog.messages == ["s: 1 tool removed"]


def test_vectors_in_progress_get_a_line_with_their_count() -> None:
    assert "still loading" in render_event(VectorsLoadingEvent(done=0, total=5_248))
    line = render_event(VectorsLoadingEvent(done=1_200, total=5_248))
    assert "1,200 of 5,248 tools" in line
    assert " of " not in render_event(VectorsLoadingEvent(done=2, total=2))


@pytest.mark.parametrize(
    ("starting", "is_loading", "outcome"),
    [
        ((), True, "nothing found yet: semantic search is still loading"),
        (("mail", "wiki"), False, "nothing found yet: mail, wiki are still starting"),
        (
            ("mail",),
            True,
            "nothing found yet: semantic search is still loading; mail is still starting",
        ),
    ],
)
def test_a_search_that_is_not_ready_is_not_reported_as_nothing_fits(
    starting: tuple[str, ...], is_loading: bool, outcome: str
) -> None:
    event = DiscoveryResultEvent(
        tool="tool_search", queries=("q",), starting=starting, is_loading=is_loading, took_ms=1
    )
    assert render_event(event) == f'search "q": {outcome} (1 ms)'


def test_a_few_more_vectors_get_no_second_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    lines = EventLines()
    for done, total, seconds in ((40, 40, 0.2), (11, 11, 0.1), (900, 900, 5.0), (3, 7, 0.1)):
        lines(VectorsReadyEvent(done=done, total=total, took_seconds=seconds))
    first, long, missing = caplog.messages
    assert "ready: 40 vectors" in first
    assert "ready: 900 vectors" in long
    assert "4 of 7 vectors are missing" in missing


def test_every_error_has_words_for_its_line() -> None:
    pending, codes = [ToolscoutError], set[str]()
    while pending:
        error = pending.pop()
        codes.add(error.code)
        pending += error.__subclasses__()
    page = (Path(__file__).parents[2] / "docs" / "errors.md").read_text()
    page = page.partition("only on results of calls")[2].partition("On the command line")[0]
    codes |= set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert sorted(codes - REASONS.keys()) == []
    assert not [words for words in REASONS.values() if "_" in words]


def test_a_server_that_recovers_and_fails_again_is_reported_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = EventLines()
    failed = UpstreamFailedEvent(server="a", reason="it ended.")
    with caplog.at_level("INFO"):
        for event in (failed, failed, UpstreamReadyEvent(server="a"), failed, failed):
            lines(event)
    hint = "(full log: toolscout logs a)"
    failure = f"a: failing: it ended. {hint}"
    assert [record.getMessage() for record in caplog.records] == [failure, "a: ready", failure]


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
    ],
)
def test_colours_only_on_a_terminal_that_wants_them(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], coloured: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    main, side = os.openpty()
    with os.fdopen(side, "w") as terminal, Path(os.devnull).open("w") as file:
        assert is_coloured(terminal) is coloured
        assert not is_coloured(file)
    os.close(main)


def test_a_traceback_in_the_log_is_escaped() -> None:
    error = ValueError("\x1b[31mred")
    record = logging.LogRecord("x", logging.ERROR, "", 0, "broke", (), (ValueError, error, None))
    text = TerminalFormatter(is_coloured=False).format(record)
    assert "error: broke" in text
    assert "<U+001B>[31mred" in text
    assert "\x1b" not in text


def test_a_server_log_is_private_bounded_and_without_secrets(tmp_path: Path) -> None:
    logs = ServerLogs(tmp_path / "logs")
    key = "-----BEGIN KEY-----\nabcdefgh1234\n-----END KEY-----"
    log = logs.open(Server(name="one", command="x", secrets=(SECRET, key)))
    log.write_output([f"key {SECRET}", "\x1b[31mred\x1b[0m \x1b[2J", "half abcdefgh1234"])
    path = logs.path("one")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    texts = [line.text for line in logs.read("one")]
    assert texts == ["key •••", "red <U+001B>[2J", "half •••"]
    for number in range(4_000):
        log.write_output([f"{number} " + "y" * 900])
    sizes = [file.stat().st_size for file in path.parent.iterdir()]
    assert len(sizes) == 2
    assert max(sizes) < MAX_LOG_BYTES + 2_000
    assert [line.text.split()[0] for line in logs.read("one")][-1] == "3999"


async def test_following_a_log_continues_after_it_was_rotated(tmp_path: Path) -> None:
    logs = ServerLogs(tmp_path / "home" / "state" / "logs")
    log = logs.open(Server(name="one", command="x"))
    log.write_output(["first"])
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "toolscout.cli", "logs", "one", "--follow"),
        stdout=asyncio.subprocess.PIPE,
        env=environment(tmp_path),
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            assert (await process.stdout.readline()).endswith(b"stderr first\n")
            for _ in range(MAX_LOG_BYTES // 3_900):
                log.write_output(["z" * 3_900])
            log.write_output(["last"])
            while not (await process.stdout.readline()).endswith(b"stderr last\n"):
                pass
    finally:
        process.terminate()
        await process.wait()
