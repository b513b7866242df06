"""The first answer over stdio: given before anything is loaded, and the same as the gateway's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.conftest import small

from toolscout.cli.greeting import HANDSHAKE_VERSIONS, MODERN_VERSION

WHO = {"name": "test", "version": "1"}
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": WHO}
META = "io.modelcontextprotocol/"
ENVELOPE = {
    "_meta": {
        f"{META}protocolVersion": MODERN_VERSION,
        f"{META}clientInfo": WHO,
        f"{META}clientCapabilities": {},
    }
}
FIRST = {"initialize": HELLO, "server/discover": ENVELOPE}
# It never answers, and ends with the pipe, also when the gateway is killed.
HANGING = {"command": sys.executable, "args": ["-c", "import sys; sys.stdin.read()"]}
# Stands in the way of the gateway's import, until a file appears or nobody came for long.
BLOCKER = """
import pathlib, time
for _ in range(600):
    if pathlib.Path("go").exists():
        break
    time.sleep(0.05)
raise SystemExit(7)
"""
HEAVY = ("pydantic", "fastmcp", "mcp", "numpy", "toolscout.search.engine")


class Gateway:
    """A gateway's process, and its client's end of the pipes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def say(self, method: str, number: int | str | None, params: Any = None) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        message |= {} if number is None else {"id": number}
        message |= {} if params is None else {"params": params}
        self.write(json.dumps(message).encode())

    def hear(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.errors()
        return json.loads(line)

    def ask(self, method: str, number: int | str, params: Any = None) -> Any:
        self.say(method, number, params)
        heard = self.hear()
        assert heard["id"] == number
        return heard

    def errors(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def leave(self) -> tuple[bytes, bytes]:
        """Disconnect; gives what it still had to say on stdout and stderr."""
        said = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, said
        return said


class Place:
    """A folder with a configuration and a home."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write(a=HANGING)

    def write(self, **servers: Any) -> None:
        (self.folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))

    @contextmanager
    def serve(self, *options: str, file: str = "mcp.json") -> Iterator[Gateway]:
        env = {**os.environ, "TOOLSCOUT_HOME": str(self.folder / "home")}
        with subprocess.Popen(
            [sys.executable, "-m", "toolscout.cli", "serve", "--stdio", "--config", file, *options],
            cwd=self.folder,
            env={**env, "TOOLSCOUT_EMBEDDER": "none"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            try:
                yield Gateway(process)
            finally:
                process.kill()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def both_answers(gateway: Gateway, method: str, params: Any) -> tuple[Any, Any]:
    """The first answer, and what the gateway itself says when it is asked once more."""
    first = gateway.ask(method, 1, params)["result"]
    return first, gateway.ask(method, 2, params)["result"]


@pytest.mark.parametrize("method", FIRST)
def test_it_is_answered_before_anything_heavy_is_imported(place: Place, method: str) -> None:
    (place.folder / "pydantic.py").write_text(BLOCKER)
    with place.serve() as gateway:
        answer = gateway.ask(method, 1, FIRST[method])
        assert answer["result"]["capabilities"]["tools"]
        assert gateway.process.poll() is None
        (place.folder / "go").touch()
        assert gateway.process.wait(timeout=60) == 7


def test_serving_over_stdio_begins_without_heavy_modules() -> None:
    code = f"import sys, toolscout.cli.serve; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("method", FIRST)
def test_it_is_answered_though_every_server_hangs(place: Place, method: str) -> None:
    place.write(**{f"server{n}": HANGING for n in range(20)})
    # Their tools are waited for longer than this test may take, but the first answer is not.
    with place.serve("--wait", "3600") as gateway:
        assert "tool_search" in gateway.ask(method, 1, FIRST[method])["result"]["instructions"]


@pytest.mark.slow
@pytest.mark.parametrize("method", FIRST)
@pytest.mark.parametrize(
    "options",
    [
        *([f"--profile={p}"] for p in ("default", "compact", "cms", "everruns", "everything")),
        *([f"--profile={p}"] for p in ("cortex", "mcpagent", "solaris")),
        ["--surface=load"],
        ["--skills=skills"],
        ["--session=kept", "--memory"],
    ],
)
def test_the_first_answer_is_the_gateways_own(
    place: Place, method: str, options: list[str]
) -> None:
    (place.folder / "skills" / "polite").mkdir(parents=True)
    skill = "---\nname: polite\ndescription: How to be polite.\n---\nSay please.\n"
    (place.folder / "skills" / "polite" / "SKILL.md").write_text(skill)
    with place.serve("--wait", "0", *options) as gateway:
        first, own = both_answers(gateway, method, FIRST[method])
    assert first == own
    assert list(first) == list(own)


@pytest.mark.slow
@pytest.mark.parametrize("version", [*HANDSHAKE_VERSIONS, "1999-01-01"])
def test_versions_are_agreed_on_as_the_gateway_does(place: Place, version: str) -> None:
    with place.serve("--wait", "0") as gateway:
        first, own = both_answers(gateway, "initialize", {**HELLO, "protocolVersion": version})
    assert first == own


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "profile"), [("initialize", "default"), ("server/discover", "solaris")]
)
def test_later_starts_answer_with_what_exists(place: Place, method: str, profile: str) -> None:
    place.write(one=small(), two=small("several"))
    answers: list[Any] = []
    for _ in range(3):
        with place.serve("--profile", profile) as gateway:
            answers.append(both_answers(gateway, method, FIRST[method]))
            gateway.leave()
    first, own = answers[-1]
    assert "tool_7" in first["instructions"]
    assert first == own
    # The answer that is kept from here on has tools of a server that is gone.
    place.write(two=small("several"))
    with place.serve("--profile", profile, "--wait", "0") as gateway:
        first, own = both_answers(gateway, method, FIRST[method])
    assert "echo" not in first["instructions"]


@pytest.mark.slow
def test_a_kept_answer_does_not_depend_on_the_gateway(place: Place) -> None:
    for _ in range(2):
        with place.serve("--profile", "solaris", "--wait", "0") as gateway:
            gateway.ask("initialize", 1, HELLO)
            gateway.leave()
    (place.folder / "pydantic.py").write_text(BLOCKER)
    with place.serve("--profile", "solaris", "--wait", "0") as gateway:
        assert "searchTools" in gateway.ask("initialize", 1, HELLO)["result"]["instructions"]


@pytest.mark.slow
def test_pings_and_notifications_need_not_wait_and_nothing_is_answered_twice(place: Place) -> None:
    place.write(one=small())
    with place.serve() as gateway:
        gateway.write(b"this is not JSON")
        gateway.write(b"")
        assert gateway.ask("ping", "before") == {"jsonrpc": "2.0", "id": "before", "result": {}}
        gateway.ask("initialize", 1, HELLO)
        gateway.say("notifications/initialized", None)
        assert gateway.ask("ping", 2)["result"] == {}
        tools = gateway.ask("tools/list", 3)["result"]["tools"]
        assert "one: echo" in next(t["description"] for t in tools if t["name"] == "tool_search")
        call = {"name": "call_tool", "arguments": {"name": "one__echo", "arguments": {"text": "x"}}}
        assert not gateway.ask("tools/call", 4, call)["result"].get("isError")
        assert gateway.ask("ping", 5)["result"] == {}
        rest, _ = gateway.leave()
    assert not [line for line in rest.splitlines() if "id" in json.loads(line)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("initialize", {}),
        ("initialize", {**HELLO, "clientInfo": {"name": 7}}),
        ("initialize", {**HELLO, "capabilities": {"sampling": 7}}),
        ("server/discover", {}),
        ("tools/list", {}),
    ],
)
def test_a_first_request_that_is_wrong_gets_the_gateways_error(
    place: Place, method: str, params: Any
) -> None:
    with place.serve("--wait", "0") as gateway:
        assert "error" in gateway.ask(method, 1, params)


@pytest.mark.slow
def test_a_long_request_that_comes_early_arrives_whole(place: Place) -> None:
    place.write(one=small())
    with place.serve() as gateway:
        gateway.ask("initialize", 1, HELLO)
        gateway.say("notifications/initialized", None)
        arguments = {"text": "ä" * 1_000_000}
        call = {"name": "call_tool", "arguments": {"name": "one__echo", "arguments": arguments}}
        assert "error" not in gateway.ask("tools/call", 2, call)
        gateway.leave()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "Cannot read"),
        ("{", "not valid JSON"),
        ('{"mcpServers": {}, "gateway": {"profil": "x"}}', "There is no setting"),
        ('{"mcpServers": {}, "gateway": {"profile": "nobody"}}', "There is no profile"),
    ],
)
def test_a_wrong_configuration_is_still_reported(
    place: Place, text: str | None, expected: str
) -> None:
    if text is not None:
        (place.folder / "wrong.json").write_text(text)
    with place.serve(file="wrong.json") as gateway:
        gateway.say("initialize", 1, HELLO)
        _, errors = gateway.process.communicate(timeout=60)
    assert gateway.process.returncode == 2
    assert expected in errors.decode()
    assert "Traceback" not in errors.decode()
