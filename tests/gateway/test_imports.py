"""Taking over clients' servers without losing one, and pins of a gateway with a home of its own."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from toolscout.cli.app import run
from toolscout.folders import user_servers_file
from toolscout.gateway.setup import Setup
from toolscout.gateway.upstream.pin_store import PinStore
from toolscout.gateway.upstream.pins import PinLedger, ToolOffer
from toolscout.program import command_line
from toolscout.sources.mcp.server_config import read_server_config


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "user"
    project = folder / "project"
    project.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("TOOLSCOUT_HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
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
    written = json.loads(user_servers_file().read_text())["mcpServers"]
    commands = {name: entry["command"] for name, entry in written.items()}
    assert commands == {"db": "a-db", "db-2": "b-db", "db-3": "c-db", "db-4": "b-db"}
    assert [entry["project"] for entry in written.values()] == ["/a", "/b", "/c", "/again"]
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
    assert f"{path} would use the gateway (with --apply)" in capsys.readouterr().out
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


def test_settings_only_clients_have_are_reported(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_the_folder_of_a_project_replaces_the_variable_of_the_editor(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = {"command": "x", "args": ["${workspaceFolder}/a"], "envFile": "${workspaceFolder}/.env"}
    put(Path(".vscode/mcp.json"), {"servers": {"ours": entry}})
    put(user / ".config/Code/User/mcp.json", {"servers": {"mine": entry}})
    plan = imported(capsys, "vscode", "--apply")
    written = json.loads(user_servers_file().read_text())["mcpServers"]
    assert written["ours"]["args"] == [f"{Path.cwd()}/a"]
    assert not any("envFile" in entry for entry in written.values())
    assert [step["unset"] for step in plan["steps"]] == [[], []]
    assert any("mine: only the client knows ${workspaceFolder}" in p for p in plan["problems"])
    assert not any("ours: only the client" in p for p in plan["problems"])


def test_the_plan_shows_which_servers_are_disabled(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = {"on": {"command": "x"}, "off": {"command": "y", "disabled": True}}
    put(user / ".cursor/mcp.json", {"mcpServers": servers})
    assert run(["import", "cursor"]) == 0
    shown = {line.split("\t")[1]: line for line in capsys.readouterr().out.splitlines()[:2]}
    assert "\tadd (disabled)\t" in shown["off"]
    assert "\tadd\t" in shown["on"]


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
    pins = PinStore.in_folder(home / "state" / "pins")
    offer = ToolOffer("send", "1", {"name": "send"})
    pins.save(PinLedger("mail").record_offers([offer], trusts_first=False))
    given = ["--config", str(config)]
    assert run(["pins", "approve", "mail"]) == 2
    assert "name it with --config FILE" in capsys.readouterr().err
    assert run(["pins", "list", *given, "--json"]) == 0
    assert [row["tool"] for row in json.loads(capsys.readouterr().out)] == ["send"]
    assert run(["pins", "diff", *given]) == 0
    assert "mail: send" in capsys.readouterr().out
    assert run(["pins", "approve", "mail", *given]) == 0
    assert not pins.ledger("mail").pins_on_hold
    assert run(["pins", "revoke", "mail", *given]) == 0
    assert pins.ledger("mail").pins_on_hold


def test_the_configuration_of_one_command_is_not_named_by_the_next(tmp_path: Path) -> None:
    config = put(tmp_path / "gateway.toml", f'[servers]\n[settings]\nhome = "{tmp_path}"')
    before = command_line("logs", "mail")
    assert run(["pins", "list", "--config", str(config)]) == 0
    assert command_line("logs", "mail") == before


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
    assert list(json.loads(user_servers_file().read_text())["mcpServers"]) == ["one"]


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
    assert sorted(json.loads(user_servers_file().read_text())["mcpServers"]) == ["a", "b", "c"]
    assert len(found["pointed"]) == 3


def test_servers_are_added_under_the_key_that_the_target_has(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(user / ".cursor/mcp.json", {"mcpServers": {"new": {"command": "x"}}})
    target = put(Path("gateway.json"), {"servers": {"mine": {"command": "y"}}})
    imported(capsys, "cursor", "--into", str(target), "--apply")
    assert sorted(s.name for s in read_server_config(target).servers) == ["mine", "new"]


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
    servers = json.loads(user_servers_file().read_text())["mcpServers"]
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
    assert not user_servers_file().exists()


def test_a_client_is_not_pointed_at_its_own_file(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(user / "project/.mcp.json", {"mcpServers": {"a": {"command": "x"}}})
    before = path.read_text()
    assert run(["import", "claude-code", "--into", ".mcp.json", "--apply", "--point"]) == 2
    assert "--into" in capsys.readouterr().err
    assert path.read_text() == before


def test_names_that_the_gateway_reads_as_one_are_kept_apart(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desktop = user / ".config/Claude/claude_desktop_config.json"
    put(desktop, {"mcpServers": {"My Files": {"command": "x"}, "same": {"command": "s"}}})
    put(user / ".cursor/mcp.json", {"mcpServers": {"My_Files": {"command": "y"}}})
    found = imported(capsys, "claude-desktop", "cursor", "--apply")
    assert [(s["action"], s["name"]) for s in found["steps"]] == [
        ("add", "My Files"),
        ("add", "same"),
        ("rename", "My_Files-2"),
    ]
    assert [s.name for s in read_server_config(user_servers_file()).servers] == [
        "My_Files",
        "same",
        "My_Files-2",
    ]
    again = imported(capsys, "claude-desktop", "cursor")
    assert {s["action"] for s in again["steps"]} == {"same"}


def test_names_are_compared_with_all_that_the_target_has(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = {name: {"command": name} for name in ("k", "pets", "free")}
    put(user / ".cursor/mcp.json", {"mcpServers": servers})
    document = put(user / "pets.json", {"openapi": "3.1.0", "paths": {}})
    target = put(
        Path("gateway.json"),
        {
            "mcpServers": {"a": {"command": "a"}},
            "servers": {"k": {"command": "other"}},
            "openapi": {"pets": {"document": str(document)}},
        },
    )
    imported(capsys, "cursor", "--into", str(target), "--apply")
    names = [s.name for s in Setup.read(target).document.servers]
    assert names == ["a", "k-2", "pets-2", "free", "k"]


def test_a_file_behind_a_link_is_written_and_the_link_stays(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    real = put(user / "dotfiles/cursor.json", {"mcpServers": {"a": {"command": "x"}}})
    link = user / ".cursor/mcp.json"
    link.parent.mkdir()
    link.symlink_to(real)
    (backup,) = imported(capsys, "cursor", "--apply", "--point")["backups"]
    assert link.is_symlink()
    assert list(json.loads(real.read_text())["mcpServers"]) == ["toolscout"]
    assert Path(backup).parent == link.parent
    assert list(json.loads(Path(backup).read_text())["mcpServers"]) == ["a"]


def test_an_invalid_entry_is_reported_and_the_others_are_used(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = {
        "number": {"command": "x", "args": 5},
        "list": [1],
        "empty": {},
        "good": {"command": "y"},
    }
    put(user / ".cursor/mcp.json", {"mcpServers": servers})
    put(user / ".codex/config.toml", '[mcp_servers.odd]\ncommand = "x"\nenv_vars = 5')
    found = imported(capsys, "cursor", "codex", "--apply")
    assert [s["server"] for s in found["steps"]] == ["good", "odd"]
    assert [p.partition(", so")[0] for p in found["problems"]] == [
        "cursor, number: its 'args' is not a list",
        "cursor, list: its entry is not an object",
        "cursor, empty: it has neither a command nor a url",
    ]


@pytest.mark.parametrize("projects", [[1], "x", {"/x": "str"}, {"/x": {"mcpServers": 1}}])
def test_projects_of_any_shape_stop_no_pointing(
    user: Path, capsys: pytest.CaptureFixture[str], projects: object
) -> None:
    servers = {"k": {"command": "x"}}
    path = put(user / ".claude.json", {"mcpServers": servers, "projects": projects})
    imported(capsys, "claude-code", "--apply", "--point")
    assert list(json.loads(path.read_text())["mcpServers"]) == ["toolscout"]


@pytest.mark.parametrize("table", [[1], "x"])
def test_a_target_whose_servers_are_not_an_object_is_named_and_skipped(
    user: Path, capsys: pytest.CaptureFixture[str], table: object
) -> None:
    put(user / ".cursor/mcp.json", {"mcpServers": {"k": {"command": "x"}}})
    target = put(Path("gateway.json"), {"mcpServers": table})
    before = target.read_text()
    assert run(["import", "cursor", "--into", str(target), "--apply"]) == 2
    assert "mcpServers must be an object of servers by name" in capsys.readouterr().err
    assert target.read_text() == before


def test_a_plan_tells_what_each_server_is_and_where_it_stands_without_secrets(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secrets = [f"hush-{number}" for number in range(6)]
    servers = {
        "git": {"command": "npx", "args": ["-y", "@scope/git", "--token", secrets[0], "--depth"]},
        "key": {"command": "run", "args": [f"--api-key={secrets[1]}", f"KEY={secrets[2]}"]},
        "env": {"command": "run", "args": ["--name", secrets[3]], "env": {"API_TOKEN": secrets[3]}},
        "web": {"url": f"https://ann:{secrets[4]}@example.com/mcp?key={secrets[5]}"},
        "far": {
            "command": "npx",
            "args": ["mcp-remote", f"https://far.example/mcp?k={secrets[0]}"],
        },
        "header": {"command": "npx", "args": ["--header", f"Authorization: Bearer {secrets[1]}"]},
        "variable": {"command": "run", "args": ["--token", "${TOKEN}"]},
        "odd": {"command": "run", "args": ["http://[odd", "--depth=1"]},
        "pasted": {"command": "run", "args": ["ghp_16C7e42F292c6912E7710c838347Ae178B4a"]},
    }
    path = put(user / ".cursor/mcp.json", {"mcpServers": servers})
    assert run(["import", "cursor"]) == 0
    told = capsys.readouterr().out
    rows = {row[1]: row for line in told.splitlines() if len(row := line.split("\t")) > 1}
    assert {name: row[4] for name, row in rows.items()} == {
        "git": "npx -y @scope/git --token ••• --depth",
        "key": "run --api-key=••• KEY=•••",
        "env": "run --name •••",
        "web": "https://example.com/mcp",
        "far": "npx mcp-remote https://far.example/mcp",
        "header": "npx --header Authorization: •••",
        "variable": "run --token ${TOKEN}",
        "odd": "run ••• --depth=1",
        "pasted": "run •••",
    }
    assert {row[-1] for row in rows.values()} == {str(path)}


def test_a_refused_codex_file_is_reported_once_with_the_fix(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(user / ".codex/config.toml", 'mcp_servers.a.command = "x"\n')
    assert run(["import", "codex", "--apply", "--point"]) == 2
    assert capsys.readouterr().err.count("[mcp_servers.toolscout]") == 1


def test_servers_in_the_settings_of_vs_code_are_taken_and_pointed(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"editor.fontSize": 12, "mcp": {"inputs": [], "servers": {"a": {"command": "x"}}}}
    path = put(user / ".config/Code/User/settings.json", settings)
    imported(capsys, "vscode", "--apply", "--point")
    assert [s.name for s in read_server_config(user_servers_file()).servers] == ["a"]
    written = json.loads(path.read_text())
    assert list(written["mcp"]["servers"]) == ["toolscout"]
    assert written["editor.fontSize"] == 12


def test_servers_switched_off_in_claude_code_stay_off(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = Path.cwd()
    servers = {name: {"command": name} for name in ("on", "off", "local_off")}
    put(Path(".mcp.json"), {"mcpServers": servers})
    put(Path(".claude/settings.local.json"), {"disabledMcpjsonServers": ["local_off", 5]})
    project = {
        "mcpServers": {"mine": {"command": "mine"}},
        "disabledMcpServers": ["mine"],
        "disabledMcpjsonServers": ["off"],
    }
    put(user / ".claude.json", {"projects": {str(here): project}})
    imported(capsys, "claude-code", "--apply")
    states = {s.name: s.is_disabled for s in read_server_config(user_servers_file()).servers}
    assert states == {"mine": True, "on": False, "off": True, "local_off": True}


def test_servers_of_a_project_start_where_their_files_are(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(Path("tools/server.py"), "")
    servers = {
        "script": {"command": "python", "args": ["tools/server.py"]},
        "binary": {"command": "./bin/server"},
        "placed": {"command": "./bin/server", "cwd": "/elsewhere"},
        "global": {"command": "npx", "args": ["-y", "server"]},
    }
    put(Path(".cursor/mcp.json"), {"mcpServers": servers})
    imported(capsys, "cursor", "--apply")
    here = str(Path.cwd())
    places = {s.name: s.cwd for s in read_server_config(user_servers_file()).servers}
    assert places == {"script": here, "binary": here, "placed": "/elsewhere", "global": ""}


@pytest.mark.skipif(sys.platform == "win32", reason="these clients use %APPDATA% there")
def test_clients_with_a_folder_of_xdg_are_found_there(
    user: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    base = user / "xdg"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(base))
    put(base / "zed/settings.json", {"context_servers": {"z": {"command": "zz"}}})
    put(base / "opencode/opencode.json", {"mcp": {"o": {"type": "local", "command": ["oo"]}}})
    extension = {"type": "stdio", "cmd": "gg", "enabled": True}
    put(base / "goose/config.yaml", {"extensions": {"g": extension}})
    imported(capsys, "--apply")
    assert {*json.loads(user_servers_file().read_text())["mcpServers"]} == {"z", "o", "g"}


def test_tools_that_gemini_cli_leaves_out_are_left_out_and_other_keys_cause_a_warning(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = {"command": "a", "includeTools": ["x"], "excludeTools": ["y"], "sandboxOnly": True}
    put(user / ".gemini/settings.json", {"mcpServers": {"a": entry}})
    plan = imported(capsys, "gemini-cli", "--apply")
    written = json.loads(user_servers_file().read_text())["mcpServers"]["a"]
    assert (written["allow"], written["deny"]) == (["x"], ["y"])
    assert "the gateway does not know 'sandboxOnly'" in json.dumps(plan)
