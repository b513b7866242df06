"""What a new user meets in the first hour, through real commands, servers and requests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client
from tests.gateway.conftest import Running, Serve, small, text
from tests.gateway.test_logs import address, serving

from toolscout.cli.app import run
from toolscout.events import CatalogChangeEvent
from toolscout.sources.mcp.server_entry import build_server
from toolscout.sources.mcp.servers import may_download
from toolscout.telemetry.lines import render_event

ROOT = Path(__file__).parents[2]
CRASH = """
import os
def read_token():
    return os.environ["WIKI_TOKEN"]
def main():
    read_token()
main()
"""


@dataclass(frozen=True)
class Outcome:
    """What a command printed."""

    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        return " ".join((self.out + self.err).split())


class User:
    """A person with an empty home folder, who runs commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TOOLSCOUT", "XDG_"))}
        self.environment = {**kept, "HOME": str(folder), "TOOLSCOUT_EMBEDDER": "none"}

    def run(self, *arguments: str, program: tuple[str, ...] = ()) -> Outcome:
        command = program or (sys.executable, "-m", "toolscout")
        done = subprocess.run(
            [*command, *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env=self.environment,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def write_servers(self, **servers: Any) -> str:
        path = self.folder / "mcp.json"
        path.write_text(json.dumps({"mcpServers": servers}))
        return str(path)


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "user")


def told(folder: Path, *tools: dict[str, Any]) -> dict[str, Any]:
    """A server that offers the tools of a file, which may be written again later."""
    folder.mkdir(exist_ok=True)
    rows = [{"inputSchema": {"type": "object"}, "description": "Do it.", **t} for t in tools]
    (folder / "tool.json").write_text(json.dumps(rows))
    return small("told", str(folder))


def crashing(folder: Path) -> dict[str, Any]:
    (folder / "crash.py").write_text(CRASH)
    return {"command": sys.executable, "args": [str(folder / "crash.py")]}


async def get(running: Running, path: str, **headers: str) -> httpx2.Response:
    async with httpx2.AsyncClient() as http:
        return await http.get(running.url.removesuffix("/mcp") + path, headers=headers)


async def health(running: Running) -> dict[str, Any]:
    async with running.client() as client:
        await client.call_tool("tool_search", {"query": "anything"})
        # A call starts the server, so that its list is not one of an earlier run.
        await client.call_tool("call_tool", {"name": "one__a", "arguments": {}})
    return (await get(running, "/health")).json()


def check(running: Running) -> Any:
    """What a check of the gateway's own configuration prints; it shares the gateway's home."""
    home = {"TOOLSCOUT_HOME": str(running.home)}
    done = subprocess.run(
        [sys.executable, "-m", "toolscout", "check", "--config", str(running.path), "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **home},
    )
    return json.loads(done.stdout)


# one status


async def test_check_and_health_agree_where_every_tool_is_held(
    serve: Serve, tmp_path: Path
) -> None:
    one = told(tmp_path / "one", {"name": "a"}, {"name": "b"})
    async with serve({"one": one}, gateway={"require_approval": True}) as running:
        report = await health(running)
        page = (await get(running, "/", accept="application/json")).json()
        checked = check(running)
    assert report["status"] == page["status"] == checked["status"] == "failing"
    assert report["servers"]["one"]["held"] == len(checked["servers"][0]["held"]) == 2
    assert report["ready"] is True, "the gateway itself answers"


@pytest.mark.parametrize("fault", ["invalid", "cyclic"])
async def test_check_and_health_agree_where_definitions_are_malformed(
    serve: Serve, fault: str
) -> None:
    async with serve({"one": small(fault), "two": small()}) as running:
        report = await health(running)
        page = (await get(running, "/", accept="application/json")).json()
        checked = check(running)
    assert report["status"] == page["status"] == checked["status"] == "degraded"
    (server,) = (s for s in checked["servers"] if s["server"] == "one")
    assert report["servers"]["one"]["problems"] == server["problems"]


async def test_tools_that_a_server_no_longer_offers_do_not_count_as_held(
    serve: Serve, tmp_path: Path
) -> None:
    folder = tmp_path / "one"
    one = told(folder, {"name": "a"}, {"name": "b"}, {"name": "c"})
    async with serve({"one": one}) as running:
        await health(running)
    told(folder, {"name": "a"}, {"name": "b", "description": "Other."}, {"name": "c", "title": "C"})
    async with serve({"one": one}) as running:
        assert (await health(running))["servers"]["one"]["held"] == 2
    told(folder, {"name": "a"}, {"name": "c", "title": "C"})
    async with serve({"one": one}) as running:
        report = await health(running)
        checked = check(running)
    assert report["servers"]["one"]["held"] == len(checked["servers"][0]["held"]) == 1


async def test_serve_prints_one_count_of_held_tools(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    one = told(folder, {"name": "a"}, {"name": "b"})
    async with serving(tmp_path, {"one": one}, "--http", "127.0.0.1:0") as stderr:
        async with Client(await address(stderr)) as client:
            await client.call_tool("tool_search", {"query": "do it"})
        await stderr.line("one: 2 tools added")
    told(folder, {"name": "a"}, {"name": "b", "description": "Other."}, {"name": "new"})
    async with serving(tmp_path, {"one": one}, "--http", "127.0.0.1:0") as stderr:
        async with Client(await address(stderr)) as client:
            await client.call_tool("tool_search", {"query": "do it"})
        assert "1 changed, 1 new" in await stderr.line("held for approval")
        # A later line: whatever was to be said of the held tools is printed by then.
        await stderr.line("search")
    assert len([line for line in stderr.lines if "held for approval:" in line]) == 1
    assert not [line for line in stderr.lines if "held for approval\n" in line]


# what is known of a server


def test_list_says_what_the_last_check_saw(user: User) -> None:
    broken = small("exits")
    path = user.write_servers(good=small(), broken=broken)
    assert user.run("check", "--config", path).code == 10
    shown = user.run("list", "--config", path)
    lines = {line.partition("\t")[0]: line for line in shown.out.splitlines()}
    assert "failing at the last check (20" in lines["broken"]
    assert "This server needs a licence key" in lines["broken"]
    assert "ready at the last check (20" in lines["good"]
    path = user.write_servers(good=small(), broken=small())
    rows = json.loads(user.run("list", "--config", path, "--json").out)["servers"]
    assert [r["status"] for r in rows if r["name"] == "broken"] == ["idle"], "it is another server"


def test_a_search_says_that_a_server_fails_and_not_to_check_it_again(user: User) -> None:
    path = user.write_servers(good=small(), broken=small("exits"))
    user.run("check", "--config", path)
    said = user.run("search", "say it back", "--config", path).words
    assert "Not searched: broken (failing). See why: " in said
    assert "Not listed yet" not in said


def test_removing_a_server_mentions_approvals_only_if_there_are_any(user: User) -> None:
    path = user.write_servers(one=small(), two=small())
    user.run("check", "--config", path)
    user.run("pins", "revoke", "two", "echo", "--config", path)
    assert "Approvals" not in user.run("remove", "one", "--config", path).words
    assert "--forget --config" in user.run("remove", "two", "--config", path).words


async def test_a_gateway_s_later_word_replaces_that_of_a_check(tmp_path: Path, user: User) -> None:
    servers = {"one": small("mended", str(tmp_path))}
    user.environment["TOOLSCOUT_HOME"] = str(tmp_path / "home")
    path = user.write_servers(**servers)
    assert user.run("check", "--config", path).code == 11
    (tmp_path / "mended").touch()
    async with serving(tmp_path, servers, "--http", "127.0.0.1:0") as stderr:
        async with Client(await address(stderr)) as client:
            await client.call_tool("tool_search", {"query": "say it back"})
        await stderr.line("one: ready")
    (row,) = json.loads(user.run("list", "--config", path, "--json").out)["servers"]
    assert (row["status"], row["status_by"]) == ("ready", "serve")


async def test_a_traceback_is_one_line_for_a_reader_and_whole_in_the_log(
    serve: Serve, tmp_path: Path, user: User
) -> None:
    one = crashing(tmp_path)
    async with serve({"one": one, "two": small()}) as running:
        async with running.client() as client:
            await client.call_tool("tool_search", {"query": "say it back"})
            reply = text(await client.call_tool("call_tool", {"name": "one__x", "arguments": {}}))
        row = (await get(running, "/health")).json()["servers"]["one"]
    path = user.write_servers(one=one)
    said = [
        reply,
        row["reason"],
        user.run("check", "--config", path).words,
        user.run("list", "--config", path).words,
    ]
    for words in said:
        assert "It wrote: KeyError: 'WIKI_TOKEN'" in words
        assert "Traceback" not in words
        assert 'crash.py", line' not in words
    whole = user.run("logs", "one").out
    assert "Traceback (most recent call last)" in whole
    assert "return os.environ" in whole


async def test_serve_says_what_happened_to_a_server(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"

    def write(**servers: Any) -> None:
        path.write_text(json.dumps({"mcpServers": servers}))

    async with serving(tmp_path, {"one": small()}, "--http", "127.0.0.1:0") as stderr:
        await address(stderr)
        write(one=small(), two=small())
        await stderr.line("two: added")
        write(one=small(), two={**small(), "disabled": True})
        await stderr.line("two: disabled")
        write(one=small(), two=small())
        await stderr.line("two: enabled")
        write(one=small("several"), two=small())
        await stderr.line("one: configuration changed")
        write(one=small("several"))
        await stderr.line("two: removed")
    assert not [line for line in stderr.lines if "two: configuration changed" in line]


# names


async def test_no_internal_category_is_shown(serve: Serve, talker: dict[str, Any]) -> None:
    async with serve({"talker": talker, "many": small("several")}) as running:
        async with running.client() as client:
            await client.call_tool("tool_search", {"query": "resource"})
        async with running.client() as client:
            shown = str(client.instructions) + str(await client.list_tools())
            found = text(await client.call_tool("tool_search", {"query": "category:virtual"}))
    assert "prompts and resources" in shown
    assert "virtual" not in shown
    assert "No category with tools is called 'virtual'" in found


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Cursor", "cursor"),
        ("Claude Code", "claude-code"),
        ("claude_desktop", "claude-desktop"),
        ("VS Code", "vscode"),
        ("vs-code", "vscode"),
        ("GEMINI-CLI", "gemini-cli"),
    ],
)
def test_a_client_s_name_may_be_written_in_any_way(user: User, written: str, name: str) -> None:
    entry = {"command": "some-server"}
    for place, key in {
        ".cursor/mcp.json": "mcpServers",
        ".mcp.json": "mcpServers",
        ".config/Claude/claude_desktop_config.json": "mcpServers",
        ".vscode/mcp.json": "servers",
        ".gemini/settings.json": "mcpServers",
    }.items():
        (user.folder / place).parent.mkdir(parents=True, exist_ok=True)
        (user.folder / place).write_text(json.dumps({key: {"one": entry}}))
    steps = json.loads(user.run("import", written, "--json").out)["steps"]
    assert {step["client"] for step in steps} == {name}


def test_one_server_is_counted_as_one(user: User) -> None:
    path = user.folder / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"mcpServers": {"one": {"command": "some-server"}}}))
    assert "1 server would be added to" in user.run("import").words


def test_an_unknown_client_is_answered_with_the_nearest(user: User) -> None:
    assert "Did you mean cursor?" in user.run("import", "cursr").words


@pytest.mark.parametrize("arguments", [("server:calender",), ("meeting", "--server", "calender")])
def test_a_filter_on_an_unknown_server_names_the_nearest(user: User, arguments: Any) -> None:
    rows = [{"name": f"{s}__plan", "server": s} for s in ("calendar", "mail")]
    path = user.folder / "tools.jsonl"
    path.write_text("\n".join(json.dumps({**r, "description": "Plan a meeting."}) for r in rows))
    done = user.run("search", *arguments, "--catalog", str(path))
    assert "No server with tools is called 'calender'. Did you mean calendar?" in done.words
    assert "No server" not in user.run("search", "server:mail", "--catalog", str(path)).words


async def test_a_model_learns_that_a_server_does_not_exist(serve: Serve) -> None:
    async with serve({"one": small(), "two": small()}) as running, running.client() as client:
        await client.call_tool("tool_search", {"query": "say it back"})
        found = await client.call_tool("tool_search", {"query": "server:nosuch say it back"})
    assert "No server with tools is called 'nosuch'. There are: one, two." in text(found)


async def test_a_caller_learns_no_names_of_servers_that_it_may_not_see(serve: Serve) -> None:
    rules = {"policies": {"everyone": {"servers": ["one"]}}}
    servers = {"one": small(), "secret": small()}
    async with serve(servers, **rules) as running, running.client() as client:
        found = text(await client.call_tool("tool_search", {"query": "server:secrt say it back"}))
    assert "No server with tools is called 'secrt'. There are: one." in found
    assert "secret" not in found


# a browser


async def test_a_browser_at_the_mcp_address_gets_a_page(serve: Serve) -> None:
    async with serve({"one": small()}) as running:
        page = await get(running, "/mcp", accept="text/html,application/xhtml+xml,*/*;q=0.8")
        stranger = await get(running, "/mcp", accept="text/html", host="evil.example")
        program = await get(running, "/mcp", accept="application/json")
        async with running.client() as client:
            assert await client.list_tools()
    assert page.headers["content-type"].startswith("text/html")
    assert "This address is for MCP clients" in page.text
    assert f"claude mcp add --transport http toolscout {running.url}" in page.text
    assert '<a href="/">' in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert stranger.status_code == 421
    assert "jsonrpc" in program.text


# pins before the first start


def test_printed_commands_name_a_configuration_that_sets_the_home(
    tmp_path: Path, user: User
) -> None:
    entry = crashing(tmp_path)
    config = tmp_path / "gateway.toml"
    config.write_text(
        f'[settings]\nhome = "{tmp_path / "own"}"\n[servers.wiki]\n'
        f"command = {json.dumps(entry['command'])}\nargs = {json.dumps(entry['args'])}\n"
    )
    checked = user.run("check", "--config", str(config))
    printed = next(line for line in checked.out.splitlines() if " logs wiki" in line)
    words = printed[printed.index("logs wiki") :].split()[:4]
    assert words == ["logs", "wiki", "--config", str(config)]
    assert "KeyError" in user.run(*words).out


def test_the_printed_commands_approve_revoked_tools(tmp_path: Path, user: User) -> None:
    path = user.write_servers(s=told(tmp_path / "s", {"name": "read"}, {"name": "write"}))
    user.run("check", "--config", path)
    user.run("pins", "revoke", "s", "--config", path)
    listed = user.run("list", "--config", path).words
    assert "2 held for approval. See why, and how to approve:" in listed
    assert listed.endswith("-m toolscout pins diff s")
    shown = user.run("pins", "diff", "s", "--config", path).out
    assert shown.count("You revoked it") == 2
    approve = shown.splitlines()[-1]
    assert approve.startswith("Approve: ")
    assert approve.endswith(" pins approve s read write")
    words = approve[approve.index("pins approve") :].split()
    assert "approved read, write" in user.run(*words, "--config", path).out
    assert "held" not in user.run("list", "--config", path).words.partition("place")[2]


def test_a_tool_can_be_revoked_before_the_first_start(tmp_path: Path, user: User) -> None:
    one = told(tmp_path / "one", {"name": "send"}, {"name": "read"})
    path = user.write_servers(one=one)
    option = ("--config", path)
    unknown = user.run("pins", "revoke", "nosuch", *option)
    assert unknown.code == 2
    assert "There is no server 'nosuch'" in unknown.words
    assert "Known: one." in unknown.words
    unlisted = user.run("pins", "revoke", "one", "send", *option)
    assert "The tools of 'one' are not known yet. List them first: " in unlisted.words
    user.run("check", *option)
    misspelled = user.run("pins", "revoke", "one", "sent", *option)
    assert "has no pin for sent. Did you mean send?" in misspelled.words
    assert "one has no pins yet." in user.run("pins", "list", "one", *option).words

    done = user.run("pins", "revoke", "one", "send", *option)
    assert done.code == 0
    assert "one: revoked send. When " in done.words
    report = json.loads(user.run("check", *option, "--json").out)
    assert [*report["servers"][0]["held"]] == ["send"]
    assert report["tools"] == 1

    again = user.run("pins", "revoke", "one", "read", *option)
    assert "one: revoked read." in again.words
    assert "one: approved read." in user.run("pins", "approve", "one", "read", *option).words


async def test_the_first_start_trusts_what_was_not_revoked(tmp_path: Path, user: User) -> None:
    servers = {"one": told(tmp_path / "one", {"name": "send"}, {"name": "read"})}
    user.environment["TOOLSCOUT_HOME"] = str(tmp_path / "home")
    path = user.write_servers(**servers)
    user.run("check", "--config", path)
    user.run("pins", "revoke", "one", "send", "--config", path)
    # The server differs from what the check saw: the first start is what is trusted.
    told(tmp_path / "one", {"name": "send"}, {"name": "read", "description": "Read it."})
    async with (
        serving(tmp_path, servers, "--http", "127.0.0.1:0") as stderr,
        Client(await address(stderr)) as client,
    ):
        call = {"name": "one__read", "arguments": {}}
        # Until the server has started, its tools are those of check: this call may find a change.
        await client.call_tool("call_tool", call, raise_on_error=False)
        assert not (await client.call_tool("call_tool", call)).is_error
        refused = await client.call_tool(
            "call_tool", {**call, "name": "one__send"}, raise_on_error=False
        )
    assert "is held for approval" in str(refused.content)
    assert not [line for line in stderr.lines if "differs from the one pinned" in line]


# commands that can be copied


def test_commands_are_printed_as_the_program_was_started(user: User, tmp_path: Path) -> None:
    environment = tmp_path / "archive-v0" / "x1"
    assert f"{sys.executable} -m toolscout add" in user.run("list").words
    beside = str(Path(sys.executable).with_name("toolscout"))
    assert f"with {beside} add NAME" in user.run("list", program=(beside,)).words
    user.environment["PATH"] = f"{Path(beside).parent}{os.pathsep}{user.environment['PATH']}"
    assert "with toolscout add NAME" in user.run("list", program=(beside,)).words
    # An environment as uvx makes it for one run, with this checkout in it.
    uvx = _link_environment(environment)
    user.environment["PATH"] = f"{environment / 'bin'}{os.pathsep}{user.environment['PATH']}"
    assert (
        "with uvx --from 'toolscout[mcp]' toolscout add NAME"
        in user.run("list", program=(uvx,)).words
    )
    pipx = _link_environment(tmp_path / ".cache" / "pipx" / "x2")
    assert (
        "with pipx run --spec 'toolscout[mcp]' toolscout add NAME"
        in user.run("list", program=(pipx,)).words
    )


def _link_environment(folder: Path) -> str:
    """A virtual environment with the packages of this one; the path of its `toolscout`."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = next((folder / "lib").iterdir()) / "site-packages"
    own = next(path for path in sys.path if path.endswith("site-packages"))
    (packages / "own.pth").write_text(f"{own}\n{ROOT / 'src'}\n")
    script = folder / "bin" / "toolscout"
    shutil.copy(Path(sys.executable).with_name("toolscout"), script)
    lines = script.read_text().splitlines(keepends=True)
    script.write_text("".join([f"#!{folder / 'bin' / 'python'}\n", *lines[1:]]))
    return str(script)


def test_a_client_is_never_pointed_at_an_environment_of_one_run(user: User, tmp_path: Path) -> None:
    uvx = _link_environment(tmp_path / "archive-v0" / "x1")
    path = user.folder / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"mcpServers": {"one": {"command": "some-server"}}}))
    assert user.run("import", "cursor", "--apply", "--point", program=(uvx,)).code == 0
    entry = json.loads(path.read_text())["mcpServers"]["toolscout"]
    assert Path(entry["command"]).name == "uvx"
    assert entry["args"][:4] == ["--from", "toolscout[mcp]", "toolscout", "serve"]


async def test_a_reply_to_a_client_names_no_path_of_the_machine(tmp_path: Path) -> None:
    one = told(tmp_path / "one", {"name": "send"})
    servers = {"one": one}
    async with (
        serving(tmp_path, servers, "--http", "127.0.0.1:0", "--require-approval") as stderr,
        Client(await address(stderr)) as client,
    ):
        found = await client.call_tool("tool_search", {"query": "send"}, raise_on_error=False)
    said = str(found.content)
    assert "toolscout pins approve one send" in said
    assert str(Path(sys.executable).parent) not in said


# nothing fits


async def test_nothing_fits_is_said_in_one_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    advice = "Describe the action in other words"
    assert run(["search", "+zeppelin", "--catalog", "example", "--embedder", "none"]) == 0
    assert f"Nothing fits. {advice}" in capsys.readouterr().out
    async with serving(tmp_path, {"one": small()}, "--http", "127.0.0.1:0") as stderr:
        async with Client(await address(stderr)) as client:
            found = await client.call_tool("tool_search", {"query": "+zeppelin"})
        assert ": nothing fits (" in await stderr.line('search "+zeppelin"')
    assert f"Nothing fits '+zeppelin'. {advice}" in str(found.content)


def test_the_package_can_be_run_as_a_module(user: User) -> None:
    assert user.run("--version").out.startswith("toolscout, version ")


# small surprises


def test_an_empty_list_of_pins_says_so(user: User) -> None:
    assert user.run("pins", "list").out.strip() == (
        "There are no pins yet: no server was started by a gateway."
    )
    assert json.loads(user.run("pins", "list", "--json").out) == []


def test_a_word_instead_of_a_number_is_named_as_such(user: User) -> None:
    done = user.run("search", "mail", "-k", "abc")
    assert (done.code, "'abc' is not a valid whole number." in done.err) == (2, True)


def test_an_estimate_of_tokens_is_called_one_once(user: User) -> None:
    user.environment["TOOLSCOUT_COUNTER"] = "estimate"
    done = user.run("tokens")
    assert done.out.splitlines()[0] == "81 tools, an estimate, not a count"


async def test_a_call_names_a_misconfigured_server_as_such(serve: Serve) -> None:
    odd = {"command": "x", "env": {"K": "${NOT_SET_1}"}}
    async with serve({"one": small(), "odd": odd}) as running, running.client() as client:
        arguments = {"name": "odd__go", "arguments": {}}
        reply = await client.call_tool("call_tool", arguments)
    assert "its server odd is misconfigured" in text(reply)


@pytest.mark.slow
def test_a_check_waits_for_a_command_that_downloads_its_server(user: User) -> None:
    program = user.folder / "npx"
    program.write_text(f'#!/bin/sh\nsleep 21\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    # Of both protocol generations: a stateless server that starts late refuses the handshake.
    old = {"command": str(program), "args": small()["args"]}
    new = {"command": str(program), "args": ["-m", "mcp_server_time"]}
    done = user.run("check", "--config", user.write_servers(old=old, new=new), "--json")
    servers = json.loads(done.out)["servers"]
    assert [s["status"] for s in servers] == ["ready", "ready"], done.words
    assert sorted(s["protocol"] for s in servers)[-1] == "2026-07-28"


def test_every_command_waits_for_a_download_unless_the_user_set_a_time() -> None:
    def seconds(**entry: Any) -> float:
        return build_server("a", entry, {}).limits.connect_timeout_seconds

    assert seconds(command="npx", connect_timeout_seconds=5) == 5
    assert seconds(command="npx", connect_timeout_seconds=20) == 20
    assert [seconds(command=c) for c in ("npx", "/usr/bin/uvx", "python")] == [120, 120, 20]
    assert may_download("C:\\node\\npx.cmd") is (os.name == "nt")


# small things


def test_without_a_command_the_help_is_printed_without_an_error(user: User) -> None:
    shown = user.run()
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == user.run("--help").out


def test_one_tool_costs(user: User) -> None:
    checked = user.run("check", "--config", user.write_servers(one=small()))
    assert "1 tool costs " in checked.words


def test_a_search_without_filters_does_not_advise_to_use_fewer(user: User) -> None:
    nothing = user.run("search", "xkqz vbnwt")
    assert "Nothing fits. Describe the action in other words." in nothing.words
    filtered = user.run("search", "xkqz vbnwt -mail")
    assert "or use fewer filters." in filtered.words


def test_an_explained_score_names_the_deprecated_tool(user: User) -> None:
    rows = [
        {"name": "send_email", "description": "Send an email (deprecated, use post_mail)."},
        {"name": "post_mail", "description": "Deliver a letter."},
        {"name": "read_file", "description": "Read a text file."},
    ]
    (user.folder / "tools.json").write_text(json.dumps(rows))
    found = user.run("search", "send an email", "--catalog", "tools.json", "--explain")
    assert "in place of the deprecated send_email" in found.words


def test_a_server_log_keeps_the_indentation_of_a_traceback(user: User) -> None:
    user.run("check", "--config", user.write_servers(one=crashing(user.folder)))
    printed = user.run("logs", "one").out
    assert 'stderr   File "' in printed
    assert "stderr     read_token()" in printed


def test_approving_what_is_approved_says_so(user: User, tmp_path: Path) -> None:
    config = user.write_servers(one=told(tmp_path / "one", {"name": "a"}, {"name": "b"}))
    user.run("check", "--config", config)
    user.run("pins", "approve", "one", "--config", config)
    again = user.run("pins", "approve", "one", "--config", config)
    assert "one: nothing to change. Its tools: 2 approved, 0 held for approval. See" in again.words


def test_a_server_of_another_project_is_not_called_disabled(user: User) -> None:
    elsewhere = user.folder / "elsewhere"
    elsewhere.mkdir()
    listed = user.run(
        "list", "--config", user.write_servers(one={**small(), "project": str(elsewhere)})
    )
    assert f"belongs to the project {elsewhere}" in listed.words
    assert "disabled" not in listed.words


def test_prompts_and_resources_do_not_look_like_a_server() -> None:
    line = render_event(CatalogChangeEvent(source="mcp content", added=2))
    assert line == "Prompts and resources can be found now, with get_prompt and get_resource."
