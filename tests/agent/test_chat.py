"""The chat in the terminal: in a process of its own, by pipe and by terminal."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pty
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.agent.office import Agent, Office, calls, open_office
from tests.telemetry.collector import collecting
from tests.wire.server import Wire
from tests.wire.turns import Hang, Say

from toolscout.cli.app import run
from toolscout.cli.chat import Chat, ConsoleApprover
from toolscout.cli.screen import PlainScreen
from toolscout.models.scripted import ScriptedModel

PROGRAM = [sys.executable, "-m", "toolscout.cli", "chat"]
WARSAW = [
    {
        "say": "Let me look. ",
        "calls": [{"name": "tool_search", "arguments": {"query": "current time in a timezone"}}],
    },
    {"calls": [{"name": "time__get_current_time", "arguments": {"timezone": "Europe/Warsaw"}}]},
    "It is late in Warsaw.",
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with an mcp.json of one real server, and a script."""
    server = {"command": sys.executable, "args": ["-m", "mcp_server_time"]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"time": server}}))
    (tmp_path / "script.json").write_text(json.dumps(WARSAW))
    return tmp_path


async def started(place: Path, *arguments: str, **streams: Any) -> Process:
    keep = ("PATH", "SYSTEMROOT", "PYTHONPATH", "TERM")
    environment = {name: os.environ[name] for name in keep if name in os.environ}
    environment["TOOLSCOUT_HOME"] = str(place / "home")
    return await asyncio.create_subprocess_exec(
        *PROGRAM,
        *arguments,
        cwd=place,
        env=environment,
        **({"stdin": PIPE, "stdout": PIPE, "stderr": PIPE} | streams),
    )


async def talked(place: Path, *lines: str, options: tuple[str, ...]) -> tuple[int, str, str]:
    process = await started(place, *options)
    typed = "".join(f"{line}\n" for line in lines).encode()
    output, errors = await process.communicate(typed)
    assert process.returncode is not None
    return process.returncode, output.decode(), errors.decode()


OFFLINE = ("--config", "mcp.json", "--model", "scripted:script.json", "--profile", "cms")


async def test_a_conversation_by_pipe_is_lines_and_is_gone_on_with_by_its_id(place: Path) -> None:
    options = (*OFFLINE, "--session", "warsaw")
    code, before, _ = await talked(
        place, "/tools", "Time in Warsaw?", "/nonsense", "/quit", options=options
    )
    assert [line.partition(":")[0] for line in before.splitlines()] == [
        "session",
        "tools",
        "assistant",
        "search",
        "found",
        "call",
        "result",
        "assistant",
        "commands",
    ]
    assert "tools: tool_search · 2 more can be found" in before
    assert "assistant: It is late in Warsaw." in before
    assert code == 0

    (place / "script.json").write_text('["As I said: late."]')
    _, after, _ = await talked(
        place, "/tools", "And now?", "/why time__get_current_time", "/tokens", options=options
    )
    assert "tools: tool_search, time__get_current_time" in after
    assert "why: time__get_current_time is in view: this conversation has loaded it." in after
    assert "assistant: As I said: late." in after
    tokens = next(line for line in after.splitlines() if line.startswith("tokens: in view"))
    assert "all 2 tools" in tokens


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("anthropic:claude-x", "ANTHROPIC_API_KEY"),
        ("openai:gpt-x", "OPENAI_API_KEY"),
        ("google:gemini-x", "GEMINI_API_KEY"),
    ],
)
def test_without_a_key_it_says_exactly_what_to_set(
    model: str,
    variable: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("ANTHROPIC", "OPENAI", "GEMINI", "GOOGLE"):
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert run(["chat", "--model", model]) == 2
    assert f"Set {variable}" in capsys.readouterr().err


@pytest.fixture
def typed(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Run the chat in this process: what is typed, and the options, to the code and the output."""
    monkeypatch.setenv("TOOLSCOUT_HOME", str(place / "home"))
    monkeypatch.chdir(place)

    def go(lines: str, *options: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
        code = run(["chat", "--model", "scripted:script.json", *options])
        return code, capsys.readouterr().out

    return go


def test_an_answer_that_failed_is_reported_and_shows_in_the_exit_code(
    place: Path, typed: Callable[..., tuple[int, str]]
) -> None:
    (place / "script.json").write_text('[{"error": {"status": 400, "message": "too odd"}}, "Hi."]')
    code, output = typed("Odd?\nHello?\n")
    assert "error: The script answered 400: too odd." in output
    assert "assistant: Hi." in output
    assert code == 1


def test_rules_skills_and_memory_are_options_of_the_chat(
    place: Path, typed: Callable[..., tuple[int, str]]
) -> None:
    (place / "script.json").write_text('["Hello."]')
    for name in ("rules", "skills"):
        (place / name).mkdir()
        (place / name / "manners.md").write_text("How to be polite.")
    options = ("--rules", "rules", "--skills", "skills", "--memory")
    code, output = typed("/tools\nHi\n", *options)
    assert "read_skill" in output
    assert "assistant: Hello." in output
    assert code == 0
    assert typed("", "--rules", "nowhere")[0] == 2


def test_a_missing_server_is_reported_and_the_rest_works(
    place: Path, typed: Callable[..., tuple[int, str]]
) -> None:
    server = {"command": sys.executable, "args": ["-c", "raise SystemExit(3)"]}
    (place / "mcp.json").write_text(json.dumps({"mcpServers": {"gone": server}}))
    (place / "script.json").write_text('["Hello."]')
    code, output = typed("Hi\n", "--config", "mcp.json")
    assert "error: gone: " in output
    assert "assistant: Hello." in output
    assert code == 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals of this kind are POSIX")
async def test_ctrl_c_stops_an_answer_and_not_the_conversation(place: Path) -> None:
    async with Wire(Hang(), Say("Back again.")) as wire:
        process = await started(
            place, "--model", "openai-chat:local", "--base-url", f"{wire.url}/v1"
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"Are you there?\n")
        await process.stdin.drain()
        await wire.hung.wait()
        process.send_signal(signal.SIGINT)
        await process.stdout.readuntil(b"stopped: ")
        output, _ = await process.communicate(b"Hello?\n/quit\n")
    assert "assistant: Back again." in output.decode()
    assert process.returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX")
async def test_in_a_terminal_it_prompts_and_speaks_in_colour(place: Path) -> None:
    leader, follower = pty.openpty()
    try:
        process = await started(place, *OFFLINE, stdin=follower, stdout=follower, stderr=follower)
        os.close(follower)
        os.write(leader, b"What time is it in Warsaw?\n/quit\n")
        shown = await asyncio.to_thread(_read_all, leader)
        await process.wait()
    finally:
        os.close(leader)
    assert "› " in shown
    assert "It is late in Warsaw." in shown
    assert "\x1b[" in shown


def _read_all(leader: int) -> str:
    """All that a terminal showed, until its program is gone."""
    pieces: list[bytes] = []
    while True:
        try:
            piece = os.read(leader, 4096)
        except OSError:
            break
        if not piece:
            break
        pieces.append(piece)
    return b"".join(pieces).decode()


@pytest.mark.parametrize(("said", "is_run"), [("y", True), ("no", False), ("", False)])
async def test_a_call_that_needs_approval_is_held_for_approval(said: str, is_run: bool) -> None:
    office = Office()
    target = io.StringIO()
    screen = PlainScreen(io.StringIO(f"Delete Bob\n{said}\n"), target)
    model = ScriptedModel([calls(("delete_account", {"name": "bob"})), "So be it."])
    async with (
        open_office(office, profile="everything") as box,
        Agent(box, model=model, approver=ConsoleApprover(screen).approve) as agent,
    ):
        await Chat(box=box, agent=agent, model=model, session="s", screen=screen).run()
    assert 'delete_account {"name": "bob"} [y/N]' in target.getvalue()
    assert office.done == (["deleted bob"] if is_run else [])


async def test_two_calls_that_need_approval_are_asked_for_one_after_the_other() -> None:
    office = Office()
    target = io.StringIO()
    screen = PlainScreen(io.StringIO("Delete both\ny\nn\n"), target)
    turn = calls(("delete_account", {"name": "ann"}), ("delete_account", {"name": "bob"}))
    model = ScriptedModel([turn, "Done."])
    async with (
        open_office(office, profile="everything") as box,
        Agent(box, model=model, approver=ConsoleApprover(screen).approve) as agent,
    ):
        await Chat(box=box, agent=agent, model=model, session="s", screen=screen).run()
    assert len(office.done) == 1
    assert target.getvalue().count("[y/N]") == 2


def test_a_chat_is_exported_to_the_collector_of_the_environment(
    place: Path, typed: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "script.json").write_text('["Hello."]')
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        code, _ = typed("Hi\n")
        assert code == 0
        run = collector.span("invoke_agent")
        (chat,) = [span for span in collector.spans if span.name.startswith("chat ")]
        assert chat.parent_span_id == run.span_id
