"""Taking over clients' servers without losing one, and pins of a gateway with a home of its own."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from toolscout.catalog.sources.mcp.reading import read
from toolscout.cli.app import run
from toolscout.gateway.pins import Ledger, Offer, Pins


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "user"
    project = folder / "project"
    project.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("TOOLSCOUT_HOME", raising=False)
    monkeypatch.chdir(project)
    return folder


def put(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def imported(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run(["import", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_servers_of_one_name_in_two_projects_are_both_taken_over(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    projects = {f"/{n}": {"mcpServers": {"db": {"command": f"{n}-db"}}} for n in ("a", "b", "c")}
    projects["/again"] = projects["/b"]
    path = put(user / ".claude.json", {"projects": projects})
    imported(capsys, "claude-code", "--apply", "--point")
    written = json.loads(Path("mcp.json").read_text())["mcpServers"]
    commands = {name: entry["command"] for name, entry in written.items()}
    assert commands == {"db": "a-db", "db-2": "b-db", "db-3": "c-db"}
    assert list(json.loads(path.read_text())["mcpServers"]) == ["toolscout"]


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "http", "url": "http://127.0.0.1:8765/mcp"},
        {"url": "http://localhost:8765/mcp/"},
        {"command": "npx", "args": ["mcp-remote", "http://127.0.0.1:8765/mcp"]},
        {"command": "/home/ann/.local/bin/toolscout", "args": ["serve", "--stdio"]},
    ],
)
def test_the_gateway_itself_is_not_taken_over(
    user: Path, capsys: pytest.CaptureFixture[str], entry: dict[str, Any]
) -> None:
    near = {"url": "http://127.0.0.1:8766/mcp"}
    put(user / ".cursor/mcp.json", {"mcpServers": {"tools": entry, "near": near}})
    steps = {s["server"]: s["action"] for s in imported(capsys, "cursor")["steps"]}
    assert steps == {"tools": "own", "near": "add"}


def test_a_remote_gateway_is_known_by_its_name(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = {"url": "https://tools.example.com/mcp"}
    put(user / ".cursor/mcp.json", {"mcpServers": {"toolscout": entry}})
    (step,) = imported(capsys, "cursor")["steps"]
    assert step["action"] == "own"


def test_pointing_without_applying_says_what_it_would_do(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(user / ".cursor/mcp.json", {"mcpServers": {"a": {"command": "x"}}})
    before = path.read_bytes()
    assert run(["import", "cursor", "--point"]) == 0
    assert f"{path} would point, with --apply, at the gateway" in capsys.readouterr().out
    assert path.read_bytes() == before
    assert imported(capsys, "cursor", "--point")["pointed"] == [str(path)]


@pytest.mark.parametrize("kind", ["cursor", "codex"])
def test_a_client_is_given_the_full_path_of_the_gateway(
    user: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    program = put(user / "bin/toolscout", "#!/bin/sh")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    cursor = put(user / ".cursor/mcp.json", {"mcpServers": {"a": {"command": "x"}}})
    codex = put(user / ".codex/config.toml", '[mcp_servers.a]\ncommand = "x"')
    assert run(["import", kind, "--apply", "--point"]) == 0
    written = cursor if kind == "cursor" else codex
    assert str(program) in written.read_text()


def test_what_only_the_client_has_is_told(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    servers = {
        "files": {"command": "x", "envFile": "${workspaceFolder}/.env"},
        "web": {"url": "https://example.com/mcp", "oauth": {"clientId": "c"}},
        "plain": {"command": "y"},
    }
    put(user / ".config/Code/User/mcp.json", {"servers": servers})
    problems = imported(capsys, "vscode")["problems"]
    assert [p.partition(" is ")[0] for p in problems] == [
        "vscode, files: envFile",
        "vscode, web: its login",
    ]


def test_files_of_the_project_and_newer_places_are_read(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(user / ".codex/config.toml", '[mcp_servers.mine]\ncommand = "x"')
    put(Path(".codex/config.toml"), '[mcp_servers.ours]\ncommand = "y"')
    for number, place in enumerate((user / ".config/devin", Path(".devin"))):
        servers = {f"devin{number}": {"command": "z"}}
        put(place / "mcp_config.json", {"mcpServers": servers})
    steps = imported(capsys, "codex", "windsurf")["steps"]
    assert [s["server"] for s in steps] == ["mine", "ours", "devin0", "devin1"]


def test_pins_are_found_where_the_configuration_of_the_gateway_keeps_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "elsewhere"
    config = put(tmp_path / "gateway.toml", f'[servers]\n[settings]\nhome = "{home}"')
    pins = Pins(home / "state" / "pins")
    offer = Offer("send", "1", {"name": "send"})
    pins.save(Ledger("mail").met([offer], trusts_first=False))
    given = ["--config", str(config)]
    assert run(["pins", "approve", "mail"]) == 2
    assert "give it with --config" in capsys.readouterr().err
    assert run(["pins", "list", *given, "--json"]) == 0
    assert [row["tool"] for row in json.loads(capsys.readouterr().out)] == ["send"]
    assert run(["pins", "diff", *given]) == 0
    assert "mail: send" in capsys.readouterr().out
    assert run(["pins", "approve", "mail", *given]) == 0
    assert not pins.ledger("mail").held
    assert run(["pins", "revoke", "mail", *given]) == 0
    assert pins.ledger("mail").held


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "uvx", "args": ["--from", "toolscout[mcp]", "toolscout", "serve", "--stdio"]},
        {"command": "/usr/bin/python3", "args": ["-m", "toolscout.cli", "serve", "--stdio"]},
    ],
)
def test_the_gateway_is_known_however_it_is_started(
    user: Path, capsys: pytest.CaptureFixture[str], entry: dict[str, Any]
) -> None:
    put(user / ".cursor/mcp.json", {"mcpServers": {"all": entry, "one": {"command": "x"}}})
    found = imported(capsys, "cursor", "--apply")
    assert [s["action"] for s in found["steps"]] == ["own", "add"]
    assert list(json.loads(Path("mcp.json").read_text())["mcpServers"]) == ["one"]


def test_comments_after_a_last_comma_and_empty_entries_stop_no_import(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(
        user / ".config/Code/User/mcp.json",
        '{"servers": {"a": {"command": "x"}, // the last\n /* really */ }, "inputs": [], // end\n}',
    )
    put(user / ".cursor/mcp.json", {"mcpServers": {"b": {"command": "y"}, "none": None}})
    put(
        user / ".claude.json",
        {"mcpServers": {"c": {"command": "z"}}, "projects": {"/gone": None}},
    )
    found = imported(capsys, "vscode", "cursor", "claude-code", "--apply", "--point")
    assert found["problems"] == []
    assert sorted(json.loads(Path("mcp.json").read_text())["mcpServers"]) == ["a", "b", "c"]
    assert len(found["pointed"]) == 3


def test_servers_are_added_under_the_key_that_the_target_has(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(user / ".cursor/mcp.json", {"mcpServers": {"new": {"command": "x"}}})
    target = put(Path("gateway.json"), {"servers": {"mine": {"command": "y"}}})
    imported(capsys, "cursor", "--into", str(target), "--apply")
    assert sorted(s.name for s in read(target).servers) == ["mine", "new"]


_CODEX = """model = "gpt"
notify = [
  "a",
  [ "x" ],
]

[ mcp_servers . "sp.ace" ]
url = "https://x.example/mcp"

['mcp_servers'.docs]
command = "docs"
startup_timeout_ms = 20000
env_vars = ["LOCAL", {name = "REMOTE", source = "remote"}]

[mcp_servers_of_mine]
kept = true
"""


def test_codex_keeps_all_but_its_servers(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = put(user / ".codex/config.toml", _CODEX)
    imported(capsys, "codex", "--apply", "--point")
    servers = json.loads(Path("mcp.json").read_text())["mcpServers"]
    assert servers["docs"] == {
        "command": "docs",
        "connect_timeout_seconds": 20.0,
        "env": {"LOCAL": "${LOCAL}", "REMOTE": "${REMOTE}"},
    }
    before, after = tomllib.loads(_CODEX), tomllib.loads(path.read_text())
    assert list(after.pop("mcp_servers")) == ["toolscout"]
    del before["mcp_servers"]
    assert after == before


@pytest.mark.parametrize(
    "line", ['mcp_servers.a.command = "x"', 'mcp_servers = {a = {command = "x"}}']
)
def test_servers_that_cannot_be_taken_out_of_a_file_leave_everything_as_it_was(
    user: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    path = put(user / ".codex/config.toml", line + "\n")
    assert run(["import", "codex", "--apply", "--point"]) == 2
    assert "[mcp_servers.toolscout]" in capsys.readouterr().err
    assert path.read_text() == line + "\n"
    assert not Path("mcp.json").exists()


def test_a_client_is_not_pointed_at_its_own_file(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(user / "project/.mcp.json", {"mcpServers": {"a": {"command": "x"}}})
    before = path.read_text()
    assert run(["import", "claude-code", "--into", ".mcp.json", "--apply", "--point"]) == 2
    assert "--into" in capsys.readouterr().err
    assert path.read_text() == before
