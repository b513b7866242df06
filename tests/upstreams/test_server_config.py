"""Configurations as clients have them, and what is wrong with some."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolscout.errors import ConfigError
from toolscout.sources.mcp.server_config import ConfigDocument, read_server_config


def written(folder: Path, servers: dict[str, Any], **variables: str) -> ConfigDocument:
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return read_server_config(path, variables=variables)


def test_the_json_of_mcp_clients_is_read_as_it_is(tmp_path: Path) -> None:
    document = written(
        tmp_path,
        {
            "files": {"command": "npx", "args": ["-y", "server"], "env": {"A": "1"}, "cwd": "/x"},
            "web": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer t"}},
            "old": {"type": "sse", "url": "https://example.com/sse"},
            "off": {"command": "x", "disabled": True},
            "cline": {"command": "x", "alwaysAllow": ["read"], "timeout": 60},
        },
    )
    files, web, old, off, cline = document.servers
    assert (files.transport, files.command, files.args) == ("stdio", "npx", ("-y", "server"))
    assert (files.env, files.cwd) == ({"A": "1"}, "/x")
    assert (web.transport, web.headers) == ("http", {"Authorization": "Bearer t"})
    assert old.transport == "sse"
    assert off.is_disabled
    assert not cline.problem
    assert document.warnings == ()


def test_tools_are_let_in_by_allow_and_kept_out_by_deny(tmp_path: Path) -> None:
    (server,) = written(
        tmp_path, {"s": {"command": "x", "allow": ["read_*"], "excludeTools": ["read_secret"]}}
    ).servers
    assert server.allows_tool("read_file")
    assert not server.allows_tool("read_secret")
    assert not server.allows_tool("write_file")


def test_the_toml_form_says_the_same_and_more(tmp_path: Path) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(
        """
        [servers.git]
        command = "mcp-server-git"
        call_timeout_seconds = 5
        pinned = ["git_status"]
        protocol = "handshake"

        [gateway]
        require_approval = true
        """
    )
    document = read_server_config(path)
    (git,) = document.servers
    assert git.limits.call_timeout_seconds == 5
    assert git.pins_tool("git_status")
    assert git.protocol == "handshake"
    assert document.rest == {"gateway": {"require_approval": True}}


def test_variables_are_filled_in_from_the_environment(tmp_path: Path) -> None:
    (server,) = written(
        tmp_path,
        {
            "s": {
                "url": "https://${HOST}/mcp",
                "headers": {"Authorization": "Bearer ${TOKEN}", "X": "${MISSING:-fallback}"},
            }
        },
        HOST="example.com",
        TOKEN="s3cret-token",
    ).servers
    assert server.url == "https://example.com/mcp"
    assert server.headers == {"Authorization": "Bearer s3cret-token", "X": "fallback"}


@pytest.mark.parametrize("variables", [{}, {"TOKEN": ""}], ids=["unset", "empty"])
def test_an_unset_variable_fails_its_server_by_name_and_no_other(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    broken, fine = written(
        tmp_path,
        {
            "broken": {"command": "x", "env": {"KEY": "${TOKEN}"}},
            "fine": {"command": "x"},
        },
        **variables,
    ).servers
    assert "'broken' needs the environment variable TOKEN" in broken.problem
    assert (broken.command, broken.env) == ("x", {}), "as written, for people; it is not started"
    assert not fine.problem


def test_a_placeholder_of_another_client_is_not_sent_as_text(tmp_path: Path) -> None:
    (server,) = written(tmp_path, {"s": {"command": "x", "env": {"K": "${input:api-key}"}}}).servers
    assert "${input:api-key}" in server.problem


def test_secrets_stay_out_of_every_text(tmp_path: Path) -> None:
    (server,) = written(
        tmp_path,
        {
            "s": {
                "command": "run",
                "args": ["--key=${KEY}"],
                "env": {"PASSWORD": "hunter22"},
                "headers": {"Authorization": "Bearer abcdef"},
            }
        },
        KEY="k-123456",
    ).servers
    output = repr(server) + server.redact("k-123456 hunter22 Bearer abcdef") + server.location
    for secret in ("k-123456", "hunter22", "abcdef"):
        assert secret not in output


def test_unknown_keys_are_named_and_the_server_still_works(tmp_path: Path) -> None:
    document = written(tmp_path, {"s": {"command": "x", "comand": "y"}})
    assert document.warnings == ("Server 's': unknown keys ignored: comand.",)
    assert not document.servers[0].problem


def test_names_that_tools_cannot_have_are_changed_and_reported(tmp_path: Path) -> None:
    document = written(tmp_path, {"My Files!": {"command": "x"}, "a__b": {"command": "x"}})
    assert [s.name for s in document.servers] == ["My_Files", "a_b"]
    assert len(document.warnings) == 2


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({}, "neither a command nor a url"),
        ("npx server", "not an object"),
        ({"command": ["npx"]}, "'command' must be text"),
        ({"command": "x", "args": "-y"}, "'args' must be a list"),
        ({"command": "x", "env": []}, "'env' must be an object"),
        ({"command": "x", "type": "carrier pigeon"}, "unknown type 'carrier pigeon'"),
        ({"command": "x", "protocol": "1999"}, "unknown protocol"),
        ({"command": "x", "disabled": "no"}, "must be true or false"),
        ({"command": "x", "concurrency": -1}, "must be a positive number"),
    ],
)
def test_a_bad_entry_is_one_server_with_a_problem(tmp_path: Path, entry: Any, says: str) -> None:
    bad, good = written(tmp_path, {"bad": entry, "good": {"command": "x"}}).servers
    assert says in bad.problem
    assert not good.problem


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}', "'a' twice"),
        ('{"mcpServers": {"a b": {"command": "x"}, "a_b": {"command": "y"}}}', "both be called"),
        ('{"mcpServers": {', "not valid JSON"),
        ('{"other": 1}', "contains no servers"),
        ('{"mcpServers": []}', "must be an object of servers"),
        ("[]", "must contain a JSON object"),
    ],
)
def test_a_file_that_cannot_be_understood_is_refused_with_the_reason(
    tmp_path: Path, text: str, says: str
) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=says):
        read_server_config(path)


def test_a_missing_file_and_one_of_another_kind_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_server_config(tmp_path / "none.json")
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(ConfigError, match="Cannot read"):
        read_server_config(binary)
    toml = tmp_path / "bad.toml"
    toml.write_text("[servers")
    with pytest.raises(ConfigError, match="not valid TOML"):
        read_server_config(toml)


def test_a_file_with_comments_and_commas_after_the_last_entry_is_read_as_editors_do(
    tmp_path: Path,
) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(
        """{
          // mine
          "inputs": [],
          "servers": {
            "web": {"type": "http", "url": "https://example.com//mcp", "headers": {"X": "a,}"},},
            /* the old one,
               with "quotes" */
            "old": {"command": "x", "args": ["// no comment", "/* nor this */",],}, // the last
          },
        }"""
    )
    web, old = read_server_config(path, variables={}).servers
    assert (web.url, web.headers) == ("https://example.com//mcp", {"X": "a,}"})
    assert old.args == ("// no comment", "/* nor this */")


def test_the_place_of_a_mistake_is_reported_as_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{\n  // one\n  /* two\n  */ "mcpServers": {"a" {}}\n}')
    with pytest.raises(ConfigError, match="line 4"):
        read_server_config(path)


def test_a_disabled_server_misses_no_variable(tmp_path: Path) -> None:
    document = written(
        tmp_path,
        {
            "off": {"command": "x", "env": {"KEY": "${MISSING}"}, "disabled": True},
            "out": {"url": "https://${MISSING}/mcp", "enabled": False},
            "on": {"command": "x", "env": {"KEY": "${MISSING}"}},
        },
    )
    assert [(s.is_disabled, bool(s.problem)) for s in document.servers] == [
        (True, False),
        (True, False),
        (False, True),
    ]


def test_servers_under_both_keys_of_a_file_are_all_there(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"servers": {"a": {"command": "x"}}, "mcpServers": {"b": {"command": "y"}}}')
    assert {s.name for s in read_server_config(path).servers} == {"a", "b"}
    path.write_text('{"servers": {"a": {"command": "x"}}, "mcpServers": {"a": {"command": "y"}}}')
    with pytest.raises(ConfigError, match="so has another table"):
        read_server_config(path)


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1/mcp",
        "http://127.0.0.1:99999/mcp",
        "example.com/mcp?key=s3cret-s3cret",
        "https:///x",
    ],
)
def test_an_invalid_url_is_one_server_with_a_problem(tmp_path: Path, url: str) -> None:
    bad, good = written(tmp_path, {"bad": {"url": url}, "good": {"command": "x"}}).servers
    assert "not a valid URL" in bad.problem
    assert "s3cret" not in bad.problem
    assert not good.problem


def test_empty_entries_count_as_missing_and_values_are_written_as_json_writes_them(
    tmp_path: Path,
) -> None:
    (server,) = written(
        tmp_path,
        {
            "s": {
                **dict.fromkeys(("url", "type", "cwd", "headers", "allow")),
                "command": "x",
                "args": ["--port", 80],
                "env": {"DEBUG": True, "PORT": 8080, "UNSET": None, "NAME": "n"},
            }
        },
    ).servers
    assert not server.problem
    assert server.args == ("--port", "80")
    assert server.env == {"DEBUG": "true", "PORT": "8080", "NAME": "n"}


@pytest.mark.parametrize("kind", ["SSE", "streamableHttp", "Streamable-HTTP", "streamable_http"])
def test_types_are_known_in_every_spelling(tmp_path: Path, kind: str) -> None:
    (server,) = written(tmp_path, {"s": {"type": kind, "url": "https://example.com/x"}}).servers
    assert server.transport == ("sse" if kind == "SSE" else "http")


def test_secrets_written_into_a_header_or_an_address_are_hidden_wherever_they_come_back(
    tmp_path: Path,
) -> None:
    (server,) = written(
        tmp_path,
        {
            "s": {
                "url": "https://me:pass-word@example.com/mcp?apiKey=key-in-url",
                "headers": {"Authorization": "Bearer literal-token"},
            }
        },
    ).servers
    text = server.redact("refused: literal-token, key-in-url, pass-word at /mcp?apiKey=key-in-url")
    assert "refused" in text
    assert not any(secret in text for secret in ("literal-token", "key-in-url", "pass-word"))


def test_ordinary_settings_stay_readable_in_what_a_server_says(tmp_path: Path) -> None:
    (server,) = written(
        tmp_path,
        {
            "s": {
                "command": "run",
                "args": ["--root", "/srv/data", "${HOME}/site", "--max-tokens", "4096"],
                "env": {
                    "NODE_ENV": "production",
                    "HOST": "localhost",
                    "ROOT": "/srv/data",
                    "DEBUG": "${DEBUG}",
                    "TEAM": "${TEAM:-docs}",
                    "TOKENIZERS_PARALLELISM": "false",
                },
            }
        },
        DEBUG="true",
        HOME="/home/ann",
    ).servers
    text = "/home/ann/site: production.users on localhost, /srv/data, docs, 4096, true or false"
    assert server.redact(text) == text


@pytest.mark.parametrize(
    "entry",
    [
        {"env": {"GITHUB_PAT": "swordfish"}},
        {"env": {"dbPassword": "swordfish"}},
        {"env": {"NAME": "${ANY}"}},
        {"env": {"URL": "postgres://me:swordfish@db/site"}},
        {"args": ["--api-key", "swordfish"]},
        {"args": ["--token=swordfish"]},
        {"headers": {"X-Team": "swordfish"}},
        {"url": "https://swordfish@example.com/mcp"},
        {"url": "https://example.com/mcp?secret=swordfish"},
    ],
)
def test_values_named_or_given_as_a_secret_are_hidden(
    tmp_path: Path, entry: dict[str, Any]
) -> None:
    (server,) = written(tmp_path, {"s": {"command": "x", **entry}}, ANY="swordfish").servers
    assert server.redact("it was swordfish") == "it was •••"


@pytest.mark.parametrize(
    "value", ["sk-ant-api03-Ab12Cd34Ef56Gh78Ij90", "6f1c2d3e-4b5a-6978-8a9b-0c1d2e3f4a5b"]
)
@pytest.mark.parametrize("place", ["env", "args", "path"])
def test_text_that_looks_like_a_key_is_hidden_everywhere(
    tmp_path: Path, value: str, place: str
) -> None:
    entries: dict[str, dict[str, Any]] = {
        "env": {"command": "x", "env": {"WHO": value}},
        "args": {"command": "x", "args": [value]},
        "path": {"url": f"https://example.com/{value}/mcp"},
    }
    (server,) = written(tmp_path, {"s": entries[place]}).servers
    assert value not in server.redact(f"no such user {value}") + server.location
