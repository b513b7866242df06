"""What version 0.1 kept opens with everything in it; `make_v0_1.py` says how it was made."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, TextContent

from toolscout import Agent, Config, Engine, Toolbox
from toolscout.embedders import load_embedders
from toolscout.embedders.cache import VectorCache
from toolscout.guidance.rules import Rules
from toolscout.memory.entities import Entity
from toolscout.memory.memory import Memory
from toolscout.models.messages import dump_messages
from toolscout.models.scripted import ScriptedModel

KEPT = Path(__file__).parent / "v0_1"

# Sentences of prompts that were reworded after 0.1; every other byte is the same.
REWORDED = {
    "Every tool that exists can be had through it, so": "It finds every tool that exists, so",
    "The best match comes ready to call, others as": "The best match is ready to call, others are",
    "it says so when nothing fits.": "it says when nothing fits.",
    "Gives the full parameter schemas": "Returns the full parameter schemas",
    "What it finds you run with `call_tool`.": "Run the tools it finds with `call_tool`.",
    "What it finds you can call right after.": "You can call the tools it finds right away.",
    "What there is:": "Available tools:",
    "Read on in a result that was too large and was kept aside:": "Read more of a large result "
    "that was saved to a file:",
    "The name given where the result was kept aside.": "The filename from the notice about the "
    "saved result.",
}


def read_expected() -> dict[str, Any]:
    text = (KEPT / "expected.json").read_text(encoding="utf-8")
    for old, new in REWORDED.items():
        assert old in text
        text = text.replace(old, new)
    return json.loads(text)


EXPECTED = read_expected()
SESSIONS: dict[str, dict[str, Any]] = EXPECTED["sessions"]
TOOLSCOUT = str(Path(sys.executable).with_name("toolscout"))

each_session = pytest.mark.parametrize("name", SESSIONS)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what 0.1 left, as the home of everything that runs."""
    folder = shutil.copytree(KEPT, tmp_path / "home")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.chdir(folder)  # where its server is, as its configuration names it
    monkeypatch.setenv("PATH", path)
    monkeypatch.setenv("TOOLSCOUT_HOME", str(folder))
    monkeypatch.setenv("TOOLSCOUT_EMBEDDER", "none")
    return folder


def beds(value: Any) -> list[Entity]:
    return [Entity("bed", value["id"], value["name"])]


def opened(home: Path, **more: Any) -> Toolbox:
    """A toolbox as 0.1 had it."""
    return Toolbox(
        [home / "servers.toml"],
        config=Config.read(home / "servers.toml"),
        rules=Rules(servers={"garden": EXPECTED["rule"]}),
        memory=Memory(extractors={"garden__get_bed": beds}),
        **more,
    )


def command(*arguments: str) -> str:
    """What a command says."""
    done = subprocess.run([TOOLSCOUT, *arguments], capture_output=True, text=True, check=False)
    return done.stdout


Serve = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
def serve(home: Path) -> Serve:
    """Serve a conversation through the gateway, over stdio."""

    @asynccontextmanager
    async def serving(
        *options: str, session: str = "plot", config: str = "servers.toml"
    ) -> AsyncIterator[Client]:
        told = ("--wait", "60", "--session", session, "--config", config)
        process = StdioServerParameters(
            command=TOOLSCOUT, args=["serve", "--stdio", *told, *options], env=dict(os.environ)
        )
        async with Client(process) as client:
            yield client

    return serving


def text(result: CallToolResult) -> str:
    return "\n".join(c.text for c in result.content if isinstance(c, TextContent))


async def listed(client: Client) -> list[dict[str, Any]]:
    shown = (await client.list_tools()).tools
    return [t.model_dump(mode="json", by_alias=True, exclude_none=True) for t in shown]


@each_session
async def test_a_session_has_loaded_searched_and_used_what_it_had_in_the_same_order(
    home: Path, name: str
) -> None:
    async with opened(home) as box:
        state = (await box.session(name)).state
        assert list(state.loaded) == SESSIONS[name]["loaded"]
        assert list(state.searches) == SESSIONS[name]["searches"]
        assert list(state.uses) == SESSIONS[name]["uses"]


@each_session
async def test_a_model_is_shown_the_same_bytes_as_before(home: Path, name: str) -> None:
    """Also of a tool that its server has changed since it was shown."""
    was = SESSIONS[name]
    async with opened(home) as box:
        session = await box.session(name)
        view = session.view(was["model"])
        assert view.text == was["view"]
        assert view.instructions == was["instructions"]
        assert "Move a plant, and the gardener" in box.catalog["garden__move_plant"].description
        # Where answers bring tools, a session that was lost would show the same list as this one.
        assert list(session.state.loaded) == was["loaded"]


@each_session
async def test_the_tool_list_of_a_model_only_grows_at_its_end(home: Path, name: str) -> None:
    was = SESSIONS[name]
    async with opened(home) as box:
        session = await box.session(name)
        await session.load("garden__remove_plant")
        tools = session.view(was["model"]).tools
        assert tools[: len(json.loads(was["view"]))] == json.loads(was["view"])
        assert list(session.state.loaded) == [*was["loaded"], "garden__remove_plant"]


@each_session
async def test_the_memory_of_a_session_is_recalled_and_added_to(home: Path, name: str) -> None:
    async with opened(home) as box:
        session = await box.session(name)
        assert session.render_memory() == SESSIONS[name]["recall"]
        await session.call("garden__get_bed", {"bed": "west"})
        assert "The south bed (id south)" in session.render_memory()
        assert "The west bed (id west)" in session.render_memory()
        assert "garden__get_bed (2x)" in session.render_memory()


@each_session
async def test_rules_that_a_session_was_given_are_not_given_again(home: Path, name: str) -> None:
    async with opened(home) as box:
        search = {"query": "water a bed"}
        known = await (await box.session(name)).call("tool_search", search)
        assert EXPECTED["rule"] not in known.text
        new = await (await box.session("somebody new")).call("tool_search", search)
        assert EXPECTED["rule"] in new.text


async def test_an_agents_conversation_continues_where_it_stopped(home: Path) -> None:
    was = EXPECTED["talk"]
    script = ["As I said, it is watered."]
    model = ScriptedModel(script, name="claude-sonnet-4-5", provider="anthropic")
    async with opened(home) as box, Agent(box, model=model) as agent:
        run = await agent.run("Is it done?", session="talk")
        # What the memory says is told anew each time, as a notice.
        *before, asked = [m for m in model.requests[0].messages if m.role != "system"]
        assert dump_messages(before) == was["conversation"]
        assert asked.text == "Is it done?"
        assert run.text == "As I said, it is watered."
        state = (await box.session("talk")).state
        assert list(state.loaded) == was["loaded"]
        kept = state.sections["conversation"]
        assert kept.startswith(was["conversation"][:-1])
        assert "As I said" in kept


@pytest.mark.parametrize("config", EXPECTED["gateway"])
async def test_a_client_of_the_gateway_sees_the_tools_that_it_had_found(
    serve: Serve, config: str
) -> None:
    """With and without a policy, which is part of what its conversation is kept under."""
    async with serve(config=config) as client:
        assert await listed(client) == EXPECTED["gateway"][config]
    async with serve(config=config, session="another") as client:
        assert len(await listed(client)) < len(EXPECTED["gateway"][config])


async def test_a_large_result_is_read_back_by_its_name(serve: Serve) -> None:
    async with serve() as client:
        said = await client.call_tool("search_large_output", EXPECTED["large"]["asked"])
        assert not said.is_error
        assert text(said) == EXPECTED["large"]["answer"]


async def test_approved_tools_run_and_changed_ones_are_held(serve: Serve) -> None:
    """Without its pins nothing would run here, since approval is required."""
    async with serve("--require-approval") as client:
        watered = await client.call_tool("garden__water_bed", {"bed": "north"})
        assert text(watered) == "water_bed: done"
        moved = await client.call_tool("garden__move_plant", {"plant": "rose"})
        assert moved.is_error
        assert "is held for approval" in text(moved)


async def test_pins_are_listed_compared_and_approved_by_command(serve: Serve) -> None:
    assert json.loads(command("pins", "list", "--json")) == EXPECTED["pins"]
    assert json.loads(command("pins", "diff", "--json")) == EXPECTED["diff"]
    command("pins", "approve", "garden", "move_plant")
    async with serve("--require-approval") as client:
        moved = await client.call_tool("garden__move_plant", {"plant": "rose"})
        assert text(moved) == "move_plant: done"


@dataclass
class Asked:
    """A request, as a proxy sees it."""

    url: str
    signature: str
    form: dict[str, list[str]]


class Proxy(BaseHTTPRequestHandler):
    """Stands for every server on the way: renews tokens, and takes only renewed ones."""

    asked: list[Asked]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        signature = self.headers.get("Authorization", "")
        self.asked.append(Asked(self.path, signature, parse_qs(body)))
        is_renewal = self.path.endswith("/token")
        status = 200 if is_renewal else 404 if signature == "Bearer renewed" else 401
        said = b'{"access_token": "renewed"}' if is_renewal else b""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def do_GET(self) -> None:
        self.do_POST()

    def do_DELETE(self) -> None:
        self.do_POST()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is called there
        pass


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Asked]]:
    """All requests, which go to a proxy instead of to the servers that they are for."""
    Proxy.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.server_port}")
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield Proxy.asked
        server.shutdown()
        thread.join()


async def test_a_login_is_used_and_renewed(home: Path, asked: list[Asked]) -> None:
    """One that is over is renewed before it is used, any other when it is refused."""
    async with Toolbox([home / "logins.toml"]) as box:
        assert set(box.problems) == set(EXPECTED["grants"])
    for server, was in EXPECTED["grants"].items():
        requests = [a for a in asked if a.url in (was["url"], was["token_endpoint"])]
        if server == "shed":
            first = requests.pop(0)
            assert first.signature == f"Bearer {was['access_token']}"
        renewal, again = requests[:2]
        assert renewal.url == was["token_endpoint"]
        assert renewal.form["refresh_token"] == [was["refresh_token"]]
        assert renewal.form["client_id"] == [was["client_id"]]
        assert renewal.form["resource"] == [was["resource"]]
        if "client_secret" in was:
            pair = f"{was['client_id']}:{was['client_secret']}"
            assert renewal.signature == f"Basic {b64encode(pair.encode()).decode()}"
        assert again.signature == "Bearer renewed"


def test_a_login_is_found_by_command(home: Path) -> None:
    assert "Logged out of shed" in command("login", "shed", "--config", "logins.toml", "--forget")


async def test_a_search_is_answered_though_the_server_cannot_start(home: Path) -> None:
    """By what it listed in the days of 0.1."""
    (home / "server.py").unlink()
    async with opened(home) as box:
        assert box.search("water a bed").hits[0].name == "garden__water_bed"
        assert list(box.catalog.tools) == [f"garden__{pin['tool']}" for pin in EXPECTED["pins"]]


class Counted:
    """The bundled encoder, and what it was asked to encode."""

    def __init__(self) -> None:
        (self._inner,) = load_embedders("use")
        self.texts: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def encode(self, texts: Sequence[str]) -> Any:
        self.texts += texts
        return self._inner.encode(texts)


async def test_vectors_of_other_texts_are_made_again_once(home: Path) -> None:
    # 0.1 encoded other texts of a tool, so its cached vectors are not used.
    for is_first in (True, False):
        encoder = Counted()
        cache = VectorCache(Config.read().cache_folder / "vectors.db")
        engine = Engine(embedders=[encoder], cache=cache)
        async with opened(home, engine=engine) as box:
            await box.wait_until_ready()
            assert bool(encoder.texts) == is_first
            asked = EXPECTED["vectors"]
            assert box.search(asked["query"], limit=1).hits[0].name == asked["found"]
        engine.close()


async def test_the_tokens_saved_are_added_to(serve: Serve) -> None:
    def saved() -> int:
        return json.loads(command("check", "--config", "servers.toml", "--json"))["tokens_saved"]

    assert saved() == EXPECTED["tokens_saved"]
    async with serve(session="another") as client:
        await listed(client)
    assert saved() > EXPECTED["tokens_saved"]


async def test_the_audit_log_is_written_on_behind_what_it_has(home: Path, serve: Serve) -> None:
    async with serve() as client:
        await client.call_tool("garden__water_bed", {"bed": "north"})
    before = (KEPT / "state" / "audit.jsonl").read_bytes()
    after = (home / "state" / "audit.jsonl").read_bytes()
    assert before
    assert after.startswith(before)
    (line,) = after.removeprefix(before).splitlines()
    new, last = json.loads(line), json.loads(before.splitlines()[-1])
    assert new["tool"] == "garden__water_bed"
    assert new["session"] == last["session"]
    assert new.keys() == last.keys()
