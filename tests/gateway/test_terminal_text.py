"""What a hostile server can write to the terminal of the operator: nothing but visible text."""

from __future__ import annotations

import ast
import asyncio
import io
import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TextIO

import pytest
from mcp import Client
from rich.console import Console
from tests.gateway.conftest import Serve, small

import toolscout.cli
from toolscout.catalog.sanitization import escape_json, reveal_hidden, reveal_line
from toolscout.cli.app import COMMANDS, run
from toolscout.cli.screen import ColourScreen, PlainScreen
from toolscout.folders import user_servers_file

pytestmark = pytest.mark.timeout(240)

HOSTILE = "\x1b\x07\x08\x9b\x85\r\u200b\u202e\u2028\u2066\u2800\ufe0f\U000e0061"
ATTACK = f"\x1b[2J\x1b]0;title\x07\r{HOSTILE}"
FORGED = "n: approved all"
NAMES = (f"red{ATTACK}", f"new\n{FORGED}", "pay", "pay\U000e0061", "tool_search", "b\u2800k")

# Each command with its arguments; CONFIG stands for the gateway's configuration. What servers write
# does not reach the output of the commands in the second table, or it is tested by their own tests.
RUNS = [
    "check --config CONFIG",
    "list --config CONFIG",
    "pins list --config CONFIG",
    "pins list --held --config CONFIG",
    "pins diff --config CONFIG",
    "pins diff n --config CONFIG",
    "pins approve n --config CONFIG",
    "pins revoke n --config CONFIG",
    "pins approve n NAME --config CONFIG",
    "pins approve n WRONG --config CONFIG",
    "logs",
    "logs n",
    "logs broken",
    "journal tail",
    "journal tail --json",
    "journal export",
    "journal export --format csv",
    "journal show ROW",
    "journal show ROW --json",
    "audit verify --config CONFIG",
    "learn status",
    "misses",
    "stats --config CONFIG",
    "state info",
    "store check",
    "search does things --config CONFIG",
    "search --explain does things --config CONFIG",
    "search select:NAME --config CONFIG",
    "search does things --config CONFIG --json",
    "catalog list",
    "catalog list --json",
    "catalog show old",
    "catalog show NAME",
    "catalog show WRONG",
    "catalog phrases list",
    "catalog lint",
    "catalog validate FILE",
    "tokens --profile default",
    "tokens --profile default -c FILE",
    "login --list --config CONFIG",
    "login n --config CONFIG",
    "disable n --config CONFIG",
    "enable n --config CONFIG",
    "add m --config CONFIG -- PYTHON BAD told FOLDER",
    "remove n --config CONFIG",
    "import",
    "check --json",
    "pins list --json",
    "pins diff --json",
]
ELSEWHERE = {
    "call": "its replies are tested in tests/console",
    "policies": "its answers are tested in test_policies.py",
    "serve": "its lines are tested in test_logs.py",
    "chat": "its screens are tested below",
    "bench": "it reads files of labelled queries",
    "demo": "it has tools of its own",
    "completion": "it prints a script",
}


def define(name: str, text: str = "Does things.") -> dict[str, object]:
    return {"name": name, "title": name, "description": text, "inputSchema": {"type": "object"}}


def test_each_command_is_run_or_says_where_it_is_tested() -> None:
    assert {line.split()[0] for line in RUNS} | set(ELSEWHERE) == set(COMMANDS)


@contextmanager
def terminal() -> Iterator[tuple[TextIO, list[str]]]:
    """A terminal to print to; what was printed is in the list at the end."""
    ours, theirs = os.openpty()
    seen, printed = bytearray(), list[str]()

    def read() -> None:
        while chunk := _read(ours):
            seen.extend(chunk)

    reader = threading.Thread(target=read)
    reader.start()
    with open(theirs, "w", encoding="utf-8", errors="replace") as screen:  # noqa: PTH123 - a descriptor
        yield screen, printed
    reader.join()
    os.close(ours)
    # A terminal puts a carriage return before each line feed, even if CSV has one there.
    printed.append(seen.decode().replace("\r\r\n", "\n").replace("\r\n", "\n"))


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except OSError:  # nobody writes any more
        return b""


def print_on_terminal(arguments: list[str]) -> str:
    with terminal() as (screen, printed), redirect_stdout(screen), redirect_stderr(screen):
        run(arguments)
    return printed[0]


def print_to_pipe(arguments: list[str]) -> str:
    pipe = io.StringIO()
    with redirect_stdout(pipe), redirect_stderr(pipe):
        run(arguments)
    return pipe.getvalue().replace("\r\n", "\n")  # as CSV ends its lines


@pytest.fixture
async def attacked(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, list[str]]:
    """Words of the runs, after a server has added hostile tools to one that was approved."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TOOLSCOUT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    # Without styles of our own, every control character that is seen is the server's.
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    tools = tmp_path / "tool.json"
    tools.write_text(json.dumps(define("old")))
    script = f"import sys; sys.exit({f'broken {ATTACK}'!a})"
    servers = {
        "n": small("told", str(tmp_path)),
        "broken": {"command": sys.executable, "args": ["-c", script]},
    }
    async with serve(servers) as running, running.client() as client:
        await client.call_tool("tool_search", {"query": "things"})
    changed = define("old", f"Does things.\n{FORGED}\n{ATTACK}")
    tools.write_text(json.dumps([changed, *map(define, NAMES)]))
    async with serve(servers) as running, running.client() as client:
        await call_hostile_names(client)
    user_servers_file().parent.mkdir(parents=True, exist_ok=True)
    user_servers_file().write_text(running.path.read_text())
    (tmp_path / "tools.json").write_text(json.dumps([define(name) for name in NAMES]))
    row = await asyncio.to_thread(print_to_pipe, ["journal", "tail", "-n", "1"])
    return {
        "CONFIG": [str(running.path)],
        "NAME": [NAMES[0]],
        "WRONG": [f"wrong{ATTACK}"],
        "ROW": [row.split()[-1]],
        "FILE": [str(tmp_path / "tools.json")],
        "PYTHON": [sys.executable],
        "BAD": [small()["args"][0]],
        "FOLDER": [str(tmp_path)],
    }


async def call_hostile_names(client: Client) -> None:
    await client.call_tool("tool_search", {"query": f"things {ATTACK}"})
    for name in NAMES:
        await client.call_tool("call_tool", {"name": f"n__{name}", "arguments": {}})


def fill(line: str, words: dict[str, list[str]]) -> list[str]:
    """The arguments of a run; a name may be a part of a word, as in `select:NAME`."""
    return [
        word.replace(word.rpartition(":")[2], *found, 1)
        if (found := words.get(word.rpartition(":")[2]))
        else word
        for word in line.split()
    ]


@pytest.mark.slow
async def test_no_command_sends_control_characters_of_a_server(
    attacked: dict[str, list[str]],
) -> None:
    shown = ""
    for line in RUNS:
        for print_out in (print_to_pipe, print_on_terminal):
            out = await asyncio.to_thread(print_out, fill(line, attacked))
            seen = {character for character in HOSTILE if character in out}
            assert not seen, f"{print_out.__name__}: {line}: {out!r}"
            assert not any(row.startswith(FORGED) for row in out.splitlines()), (line, out)
            shown += out
    for character in "\x1b\u2800\n\U000e0061":
        assert f"<U+{ord(character):04X}>" in shown


def test_commands_print_through_one_module_alone() -> None:
    folder = Path(next(iter(toolscout.cli.__path__)))
    for path in sorted(folder.glob("*.py")):
        if path.name in ("output.py", "screen.py"):
            continue
        calls = (n.func for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call))
        names = {ast.unparse(call) for call in calls}
        assert not names & {"print", "click.echo", "click.secho"}, path
        # The bar of a progress has a console of its own, and shows a label without markup.
        assert "Console" not in names or path.name == "progress.py", path


def test_a_chat_shows_control_characters_of_tools_and_models_as_codes() -> None:
    plain, colour = io.StringIO(), io.StringIO()
    console = Console(file=colour, force_terminal=False)
    for screen in (PlainScreen(io.StringIO(), plain), ColourScreen(io.StringIO(), console)):
        screen.note("result", f"a{ATTACK}\nassistant: b")
        screen.say(f"said{ATTACK}")
        screen.note("end", "")
    for out in (plain.getvalue(), colour.getvalue()):
        assert not any(character in out for character in HOSTILE)
        assert "said<U+001B>[2J" in out
        assert "\nassistant: b" not in out


def test_an_emoji_that_comes_in_pieces_stays_whole() -> None:
    shown = io.StringIO()
    screen = ColourScreen(io.StringIO(), Console(file=shown))
    for piece in ("❤", "\ufe0f and \u0645\u06cc", "\u200c\u062e", "\ufe0f"):
        screen.say(piece)
    assert shown.getvalue() == "❤\ufe0f and می\u200cخ<U+FE0F>"


def test_text_that_a_reader_can_see_is_printed_unchanged() -> None:
    for text in ("plain", "Größe 猫 😀", "❤\ufe0f 1\ufe0f\u20e3", "می\u200cخواهم", "a\nb\tc"):
        assert reveal_hidden(text) == text
    assert reveal_line("a\nb\tc") == "a<U+000A>b<U+0009>c"
    assert reveal_line("pay\U000e0061\ufe0f") == "pay<U+E0061><U+FE0F>"


def test_json_keeps_its_value_without_hidden_characters() -> None:
    value = {"name": ATTACK, "more": "Größe 😀"}
    text = escape_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(text) == value
    assert not any(character in text for character in HOSTILE)
    assert "Größe 😀" in text
