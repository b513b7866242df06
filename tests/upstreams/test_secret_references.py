"""Secrets of a configuration that are in files or in the keyring."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keyring
import pytest
from tests.upstreams.file_keyring import FileKeyring

from toolscout.errors import ConfigError
from toolscout.gateway.setup import Setup
from toolscout.sources.mcp.server_config import ConfigDocument, read_server_config

SECRET = "s3cret-of-the-file"


def read(folder: Path, env: dict[str, str], **variables: str) -> ConfigDocument:
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"s": {"command": "x", "env": env}}}))
    return read_server_config(path, variables=variables)


def write_secret(path: Path, text: str = f"{SECRET}\n", mode: int = 0o600) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.fixture
def passwords(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a keyring with one entry."""
    file = tmp_path / "keyring.json"
    file.write_text(json.dumps({"wiki/token": SECRET}))
    monkeypatch.setenv("TEST_KEYRING", str(file))
    before = keyring.get_keyring()
    keyring.set_keyring(FileKeyring())
    yield file
    keyring.set_keyring(before)


def test_a_secret_in_a_file_is_read_without_its_line_ending_and_redacted(tmp_path: Path) -> None:
    path = write_secret(tmp_path / "token")
    (server,) = read(tmp_path, {"A": f"Bearer ${{file:{path}}}"}).servers
    assert server.env == {"A": f"Bearer {SECRET}"}
    assert SECRET not in server.redact(f"it said {SECRET}") + repr(server)


def test_a_relative_path_starts_at_the_configuration_and_may_have_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_secret(tmp_path / "secrets" / "token")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    env = {"A": "${file:secrets/token}", "B": "${file:${WHERE}/token}"}
    (server,) = read(tmp_path, env, WHERE=str(tmp_path / "secrets")).servers
    assert server.env == {"A": SECRET, "B": SECRET}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "which does not exist"),
        (b"", "which is empty"),
        (b"\n", "which is empty"),
        (b"\xff\xfe", "not UTF-8"),
        (b"x" * 65_537, "larger than 65536 bytes"),
    ],
    ids=["missing", "empty", "only a line ending", "binary", "large"],
)
def test_a_file_without_a_usable_secret_fails_its_server_by_name(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
        path.chmod(0o600)
    (server,) = read(tmp_path, {"A": "${file:token}"}).servers
    assert f"needs the file {path}" in server.problem
    assert why in server.problem


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token")
    (server,) = read(tmp_path, {"A": "${file:token}"}).servers
    assert "which is not a file" in server.problem


def test_a_file_that_every_user_can_read_causes_one_warning(tmp_path: Path) -> None:
    write_secret(tmp_path / "token", mode=0o604)
    env = {"A": "${file:token}", "B": "${file:token}"}
    assert read(tmp_path, env).warnings == (
        "Every user can read token, which holds a secret: chmod o-r it.",
    )
    (tmp_path / "token").chmod(0o640)
    assert read(tmp_path, env).warnings == ()


def test_a_secret_in_the_keyring_is_used_and_redacted(tmp_path: Path, passwords: Path) -> None:
    (server,) = read(tmp_path, {"A": "${keyring:wiki/token}"}).servers
    assert server.env == {"A": SECRET}
    assert SECRET not in server.redact(SECRET)
    (server,) = read(tmp_path, {"A": "${keyring:wiki/other}"}).servers
    assert "wiki/other of the keyring, which is not set" in server.problem
    (server,) = read(tmp_path, {"A": "${keyring:wiki}"}).servers
    assert "does not name an entry" in server.problem
    passwords.unlink()
    (server,) = read(tmp_path, {"A": "${keyring:wiki/token}"}).servers
    assert "cannot be used (KeyringError)" in server.problem
    assert "hunter22" not in server.problem


def test_the_tables_of_a_gateway_take_secrets_from_files_and_the_keyring(
    tmp_path: Path, passwords: Path
) -> None:
    write_secret(tmp_path / "token")
    tokens = {"ann": "${file:token}", "bob": "${keyring:wiki/token}"}
    api = {"document": "x.json", "auth": {"token": "${file:gone}"}}
    tables: dict[str, Any] = {"auth": {"tokens": tokens}, "openapi": {"shop": api}}
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {}, **tables}))
    setup = Setup.read(path)
    entries = setup.settings.auth.tokens
    assert {name: entry.token for name, entry in entries.items()} == {"ann": SECRET, "bob": SECRET}
    assert "gone, which does not exist" in setup.apis[0].problem
    passwords.write_text("{}")
    with pytest.raises(ConfigError, match=r"auth.tokens.bob needs wiki/token of the keyring"):
        Setup.read(path)


def test_the_check_names_what_is_unset_and_prints_no_value(tmp_path: Path) -> None:
    write_secret(tmp_path / "token", mode=0o644)
    servers = {
        "open": {"command": "x", "args": ["${file:token}"], "disabled": True},
        "gone": {"command": "x", "env": {"A": "${file:none}", "B": "${file:token}"}},
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    done = subprocess.run(
        [sys.executable, "-m", "toolscout.cli", "check", "--config", "mcp.json", "--json"],
        cwd=tmp_path,
        env={**os.environ, "TOOLSCOUT_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(done.stdout)
    (reason,) = [s["reason"] for s in report["servers"] if s["server"] == "gone"]
    assert "none, which does not exist" in reason
    assert "Every user can read token" in str(report["warnings"])
    assert SECRET not in done.stdout + done.stderr
