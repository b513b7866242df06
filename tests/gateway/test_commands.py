"""The commands around a gateway: check, pins, import."""

from __future__ import annotations

import getpass
import json
import os
import re
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.conftest import small

from toolscout.cli.app import run
from toolscout.config import Config
from toolscout.errors import StoreError
from toolscout.gateway.imports.pointing import gateway_command
from toolscout.gateway.upstream.pin_store import PinStore
from toolscout.gateway.upstream.pins import PinLedger, ToolOffer
from toolscout.sources.mcp.config import strip_json_comments
from toolscout.sources.mcp.server_config import read_server_config


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "user"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("TOOLSCOUT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(folder)
    return folder


def config(folder: Path, servers: dict[str, Any]) -> str:
    path = folder / "servers.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return str(path)


def as_json(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_check_is_ready_when_every_server_works(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = config(home, {"one": small("several"), "off": {**small(), "disabled": True}})
    assert run(["check", "--config", path, "--json"]) == 0
    found = as_json(capsys)
    assert found["status"] == "ready"
    assert found["tools"] == 40
    assert found["tokens_everything"] > found["tokens_shown"] > 0
    assert [s["status"] for s in found["servers"]] == ["ready", "disabled"]


def test_check_is_degraded_when_some_server_does_not(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = {
        "good": small(),
        "exits": small("exits"),
        "unset": {**small(), "env": {"KEY": "${NOT_SET_ANYWHERE}"}},
        "odd": small("invalid"),
        "evil": small("shadows"),
    }
    assert run(["check", "--config", config(home, servers), "--json"]) == 10
    found = {s["server"]: s for s in as_json(capsys)["servers"]}
    assert "licence key" in found["exits"]["reason"]
    assert found["unset"]["status"] == "misconfigured"
    assert "NOT_SET_ANYWHERE" in found["unset"]["reason"]
    assert any("not JSON Schema" in p for p in found["odd"]["problems"])
    assert set(found["evil"]["held"]) == {"tool_search"}


def test_check_is_blocked_when_no_tool_can_be_used(home: Path) -> None:
    assert run(["check", "--config", config(home, {"exits": small("exits")})]) == 11


def test_check_of_a_bad_file_is_a_usage_error(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "bad.json").write_text("{")
    assert run(["check", "--config", "bad.json"]) == 2
    assert "not valid JSON" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"auth": "oauth"}, "The setting auth is wrong"),
        ({"auth": {"tokens": "x"}}, "The setting auth.tokens is wrong"),
        ({"gateway": {"audit": "~nosuchuser/a.jsonl"}}, "The setting gateway.audit is wrong"),
        ({"gateway": json.loads('{"a":' * 600 + "1" + "}" * 600)}, "nested more than"),
    ],
)
def test_tables_of_the_wrong_kind_are_a_usage_error_also_beside_a_token_of_the_environment(
    home: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    table: dict[str, Any],
    says: str,
) -> None:
    monkeypatch.setenv("TOOLSCOUT_TOKEN", "0123456789abcdef0")
    (home / "bad.json").write_text(json.dumps({"mcpServers": {}, **table}))
    for command in ("check", "serve"):
        assert run([command, "--config", "bad.json"]) == 2
        assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}', "'a' twice"),
        ('{"mcpServers": {"a b": {"command": "x"}, "a_b": {"command": "y"}}}', "both be called"),
    ],
)
def test_two_servers_of_one_name_are_a_usage_error(
    home: Path, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    (home / "twice.json").write_text(text)
    for command in ("check", "serve"):
        assert run([command, "--config", "twice.json"]) == 2
        said = capsys.readouterr().err
        assert says in said
        assert "Rename one" in said


def test_serving_on_a_port_in_use_says_what_to_do(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        path = config(home, {"one": small()})
        assert run(["serve", "--config", path, "--http", address]) == 2
    said = capsys.readouterr().err
    assert "in use" in said
    assert "--http HOST:PORT" in said


def test_serving_on_a_single_word_says_that_the_port_is_missing(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = config(home, {"one": small()})
    assert run(["serve", "--config", path, "--http", "foo"]) == 2
    assert "'foo' has no port: write it as HOST:PORT." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"mcpServers": {}}, "There are no servers in"),
        ({"servers": []}, "toolscout add"),
        ({"mcpServers": {"s": {**small(), "url": "http://127.0.0.1:9/mcp"}}}, "url is used"),
    ],
)
def test_check_says_what_is_odd_in_a_file_and_what_to_do(
    home: Path, capsys: pytest.CaptureFixture[str], document: dict[str, Any], says: str
) -> None:
    (home / "odd.json").write_text(json.dumps(document))
    run(["check", "--config", "odd.json"])
    said = capsys.readouterr()
    assert says in " ".join((said.out + said.err).split())


def test_approve_alone_points_to_the_pins(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["approve", "own"]) == 2
    assert "toolscout pins approve" in capsys.readouterr().err


@pytest.mark.parametrize("port", ["65536", "99999", "-1"])
def test_serving_on_an_invalid_port_is_a_usage_error(
    home: Path, capsys: pytest.CaptureFixture[str], port: str
) -> None:
    path = config(home, {"one": small()})
    assert run(["serve", "--config", path, "--http", f"127.0.0.1:{port}"]) == 2
    assert f"{port} is not a port" in capsys.readouterr().err


def test_the_port_that_the_system_chose_is_reported(home: Path) -> None:
    path = config(home, {"one": small()})
    command = [sys.executable, "-m", "toolscout.cli", "serve", "--config", path]
    with subprocess.Popen(
        [*command, "--http", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True
    ) as serving:
        assert serving.stderr is not None
        first = serving.stderr.readline()
        serving.terminate()
        serving.stderr.read()
    found = re.search(r"127\.0\.0\.1:(\d+)/mcp", first)
    assert found is not None
    assert int(found[1]) > 0


def test_checking_approves_nothing(home: Path) -> None:
    assert run(["check", "--config", config(home, {"one": small()})]) == 0
    assert PinStore.in_folder(Config.read().state_folder / "pins").servers() == ()


def pinned() -> PinStore:
    pins = PinStore.in_folder(Config.read().state_folder / "pins")
    ledger = PinLedger("mail").record_offers(
        [ToolOffer("send", "1", {"description": "Send."}), ToolOffer("read", "1", {})],
        trusts_first=True,
    )
    later = [ToolOffer("send", "2", {"description": "Send twice."}), ToolOffer("purge", "1", {})]
    pins.save(ledger.record_offers(later, trusts_first=True))
    return pins


def test_decisions_about_pins_are_in_the_journal_with_who_made_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pinned()
    assert run(["pins", "approve", "mail", "send"]) == 0
    assert run(["pins", "approve", "mail", "send"]) == 0  # changes nothing
    assert run(["pins", "revoke", "mail", "read"]) == 0
    capsys.readouterr()
    assert run(["journal", "tail", "--kind", "approval", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    keys = ("server", "tool", "outcome", "standing", "principal", "client")
    who = (getpass.getuser(), "toolscout pins")
    assert [tuple(row[key] for key in keys) for row in rows] == [
        ("mail", "send", "approved", "changed", *who),
        ("mail", "read", "revoked", "approved", *who),
    ]


def test_pins_are_listed_compared_approved_and_revoked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pins = pinned()
    assert run(["pins", "list", "--json"]) == 0
    standings = {row["tool"]: row["standing"] for row in as_json(capsys)}
    assert standings == {"send": "changed", "read": "approved", "purge": "new"}

    assert run(["pins", "diff", "mail", "send", "--json"]) == 0
    (row,) = as_json(capsys)
    assert row["changes"] == [{"field": "description", "before": "Send.", "after": "Send twice."}]
    assert run(["pins", "diff"]) == 0
    assert "Send twice." in capsys.readouterr().out

    assert run(["pins", "approve", "mail", "send"]) == 0
    assert [p.tool for p in pins.ledger("mail").pins_on_hold] == ["purge"]
    assert run(["pins", "revoke", "mail", "read"]) == 0
    assert {p.tool for p in pins.ledger("mail").pins_on_hold} == {"purge", "read"}
    assert run(["pins", "approve", "mail"]) == 0
    assert [p.tool for p in pins.ledger("mail").pins_on_hold] == ["read"]
    capsys.readouterr()
    assert run(["pins", "approve", "mail"]) == 0
    assert "toolscout pins approve mail read" in " ".join(capsys.readouterr().out.split())

    assert run(["pins", "approve", "mail", "nothing"]) == 2
    assert "no pin for nothing" in capsys.readouterr().err
    assert run(["pins", "approve", "nowhere"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "There is no server 'nowhere', and it has no pins. Known: mail." in said


def test_servers_of_one_name_are_distinguished_where_that_matters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pins = PinStore.in_folder(Config.read().state_folder / "pins")
    for key, place in (("aaa", "git-server /a"), ("bbb", "git-server /b")):
        ledger = PinLedger("git", key=key, place=place)
        pins.save(ledger.record_offers([ToolOffer("log", key, {})], trusts_first=False))
    assert run(["pins", "list", "git", "--json"]) == 0
    rows = {row["server"]: row["place"] for row in as_json(capsys)}
    assert rows == {"git.aaa": "git-server /a", "git.bbb": "git-server /b"}
    assert run(["pins", "approve", "git"]) == 2
    said = capsys.readouterr().err
    assert "git.aaa (git-server /a)" in " ".join(said.split())
    assert run(["pins", "approve", "git.aaa"]) == 0
    assert [bool(ledger.pins_on_hold) for ledger in pins.ledgers("git")] == [False, True]


def test_revoking_reads_the_pins_with_nobody_writing_meanwhile(tmp_path: Path) -> None:
    pinned()
    folder = Config.read().state_folder / "pins"
    path, text = folder / "mail.json", (folder / "mail.json").read_text()
    for name in ("first", "second"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "first").replace(path)
    command = [sys.executable, "-m", "toolscout.cli", "pins", "revoke", "mail", "read"]
    with subprocess.Popen(command) as revoking:
        with path.open("w") as pipe:  # opens when it looks whether there are pins at all
            (tmp_path / "second").replace(path)
            pipe.write(text)
        with path.open("w") as pipe:  # opens when it reads what it is to change
            other = PinStore.in_folder(folder, lock_timeout_seconds=0)
            with pytest.raises(StoreError, match="locked"), other.write_lock("mail"):
                pass
            pipe.write(text)
    assert revoking.returncode == 0
    assert PinStore.in_folder(folder).ledger("mail").pins["read"].standing == "revoked"


STDIO = {"command": "npx", "args": ["-y", "files"]}


def clients(home: Path) -> None:
    """Every client's file, as that client writes it."""
    files: dict[str, Any] = {
        ".config/Claude/claude_desktop_config.json": {"mcpServers": {"files": STDIO}},
        ".claude.json": {
            "theme": "dark",
            "mcpServers": {"web": {"type": "http", "url": "https://example.com/mcp"}},
            "projects": {"/p": {"mcpServers": {"local": {"command": "local"}}}},
        },
        ".cursor/mcp.json": {"mcpServers": {"files": STDIO, "db": {"command": "cursor-db"}}},
        ".codeium/windsurf/mcp_config.json": {
            "mcpServers": {"db": {"command": "other-db"}, "s": {"serverUrl": "https://e.com/sse"}}
        },
    }
    for name, content in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    vscode = home / ".config/Code/User/mcp.json"
    vscode.parent.mkdir(parents=True)
    vscode.write_text(
        """{
        // what VS Code asks for
        "inputs": [{"id": "api-key", "type": "promptString"}],
        "servers": {"asks": {"command": "x", "env": {"KEY": "${input:api-key}"}},},
        }"""
    )
    codex = home / ".codex/config.toml"
    codex.parent.mkdir()
    codex.write_text(
        'model = "o5"\n\n[mcp_servers.remote]\nurl = "https://example.com/c"\n'
        'bearer_token_env_var = "C_TOKEN"\ntool_timeout_sec = 9\n\n'
        '[mcp_servers.remote.env_http_headers]\nX-Org = "ORG"\n\n[tui]\ntheme = "x"\n'
    )


def test_an_import_shows_its_plan_and_writes_nothing(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clients(home)
    before = {p: p.read_bytes() for p in home.rglob("*") if p.is_file()}
    assert run(["import", "--json"]) == 0
    steps = {(s["client"], s["server"]): s for s in as_json(capsys)["steps"]}
    assert steps["claude-desktop", "files"]["action"] == "add"
    assert steps["cursor", "files"]["action"] == "same"
    assert steps["windsurf", "db"]["name"] == "db-2"
    assert steps["vscode", "asks"]["needs"] == ["KEY"]
    assert set(steps["codex", "remote"]["needs"]) == {"C_TOKEN", "ORG"}
    assert {p: p.read_bytes() for p in home.rglob("*") if p.is_file()} == before


def test_an_applied_import_is_a_configuration_that_works(home: Path) -> None:
    clients(home)
    assert run(["import", "--into", "mcp.json", "--apply"]) == 0
    variables = {"KEY": "k", "C_TOKEN": "t", "ORG": "o"}
    document = read_server_config(home / "mcp.json", variables=variables)
    servers = {s.name: s for s in document.servers}
    assert set(servers) == {"files", "web", "local", "db", "db-2", "s", "asks", "remote"}
    assert not any(s.problem for s in document.servers)
    assert document.warnings == ()
    assert servers["asks"].env == {"KEY": "k"}
    assert servers["remote"].headers == {"Authorization": "Bearer t", "X-Org": "o"}
    assert servers["remote"].limits.call_timeout_seconds == 9


def test_importing_again_adds_nothing_and_keeps_what_was_there(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clients(home)
    (home / "mcp.json").write_text(json.dumps({"note": 1, "mcpServers": {"mine": STDIO}}))
    assert run(["import", "cursor", "--into", "mcp.json", "--apply", "--json"]) == 0
    (backup,) = as_json(capsys)["backups"]
    assert json.loads(Path(backup).read_text())["mcpServers"] == {"mine": STDIO}
    written = json.loads((home / "mcp.json").read_text())
    assert written["note"] == 1
    assert set(written["mcpServers"]) == {"mine", "files", "db"}
    assert run(["import", "cursor", "--into", "mcp.json", "--json"]) == 0
    assert {s["action"] for s in as_json(capsys)["steps"]} == {"same"}


def test_clients_are_pointed_at_the_gateway_and_backed_up(home: Path) -> None:
    clients(home)
    assert (
        run(
            ["import", "claude-code", "codex", "vscode", "--into", "mcp.json", "--apply", "--point"]
        )
        == 0
    )
    gateway = {
        "command": gateway_command()[0],
        "args": ["serve", "--stdio", "--config", str((home / "mcp.json").resolve())],
    }
    claude = json.loads((home / ".claude.json").read_text())
    assert claude["mcpServers"] == {"toolscout": gateway}
    assert claude["theme"] == "dark"
    assert claude["projects"] == {"/p": {}}
    codex = tomllib.loads((home / ".codex/config.toml").read_text())
    assert codex["mcp_servers"] == {"toolscout": gateway}
    assert (codex["model"], codex["tui"]) == ("o5", {"theme": "x"})
    vscode = json.loads(strip_json_comments((home / ".config/Code/User/mcp.json").read_text()))
    assert vscode["servers"] == {"toolscout": gateway}
    assert len(list(home.rglob("*.bak"))) == 3
    assert run(["import", "claude-code", "--json"]) == 0


def test_an_unknown_client_gets_the_list_of_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["import", "netscape"]) == 2
    assert "claude-desktop" in capsys.readouterr().err


def test_a_damaged_file_of_a_client_stops_no_other(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clients(home)
    (home / ".cursor/mcp.json").write_text("{")
    assert run(["import", "--json"]) == 0
    found = as_json(capsys)
    assert "cannot be read" in found["problems"][0]
    assert any(s["client"] == "windsurf" for s in found["steps"])
