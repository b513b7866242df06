"""Server entries of other clients: convert them to the gateway's format, and print them safely."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from ...sources.mcp.secret_detection import (
    is_secret,
    secrets_in_arguments,
    secrets_in_headers,
    secrets_in_table,
    secrets_in_url,
)
from ...sources.mcp.server_entry import FILTER_SPELLINGS

_INPUT = re.compile(r"\$\{input:([^}]+)\}")
_SHELL_VARIABLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_BRACE_VARIABLE = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_REDACTED = "•••"
_VARIABLE = re.compile(r"(?:\w+ )?\$\{[^}]+\}")
# Replacing shorter values would hide parts of ordinary words.
_MIN_SECRET_LENGTH = 4


def as_table(value: object) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def convert_entry(client: str, entry: dict[str, Any], inputs: Mapping[str, str]) -> dict[str, Any]:
    """A client's entry in the gateway's format, which most clients use already."""
    # VS Code asks the user for `${input:api-key}`. The gateway cannot, so it becomes an environment
    # variable.
    named = _map_strings(entry, lambda text: _INPUT.sub(lambda m: f"${{{inputs[m[1]]}}}", text))
    converted = _CONVERTERS.get(client, dict)(cast("dict[str, Any]", named))
    return {FILTER_SPELLINGS.get(key, key): value for key, value in converted.items()}


def fill_workspace(entry: dict[str, Any], project: str) -> dict[str, Any]:
    """An entry with the folder of its project in place of `${workspaceFolder}`."""
    filled = _map_strings(entry, lambda text: text.replace("${workspaceFolder}", project))
    return cast("dict[str, Any]", filled)


def is_built_in(client: str, entry: object) -> bool:
    """Whether an entry is a part of its client, which only the client can start."""
    table = as_table(entry)
    match client:
        case "goose":
            return table.get("type") not in ("stdio", "sse", "streamable_http")
        case "zed":
            return table.get("source") == "extension" or not (table.keys() & {"command", "url"})
        case _:
            return False


def name_inputs(servers: Mapping[str, Any]) -> dict[str, str]:
    """The variable for each input of a file: its environment key, or else a name from its id."""
    keys: dict[str, str] = {}
    ids: dict[str, set[str]] = {}
    for entry in servers.values():
        for key, value in as_table(as_table(entry).get("env")).items():
            if match := _INPUT.fullmatch(str(value)):
                keys.setdefault(match[1], key)
                ids.setdefault(key, set()).add(match[1])
    every_id = dict.fromkeys(_INPUT.findall(json.dumps(servers, default=str)))
    # Two servers may use one key for different secrets. Their ids then distinguish them.
    return {
        i: keys[i]
        if i in keys and len(ids[keys[i]]) == 1
        else re.sub(r"[^A-Za-z0-9]+", "_", i).upper()
        for i in every_id
    }


def _map_strings(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        return {k: _map_strings(v, change) for k, v in table.items()}
    if isinstance(value, list):
        return [_map_strings(v, change) for v in cast("list[Any]", value)]
    return value


def _convert_codex(entry: dict[str, Any]) -> dict[str, Any]:
    # Codex names environment variables where others have `${NAME}`, and has its own names for
    # timeouts.
    entry = dict(entry)
    headers = {**as_table(entry.pop("http_headers", None))}
    headers |= {h: f"${{{v}}}" for h, v in as_table(entry.pop("env_http_headers", None)).items()}
    if variable := entry.pop("bearer_token_env_var", None):
        headers["Authorization"] = f"Bearer ${{{variable}}}"
    env = {**as_table(entry.pop("env", None))}
    for variable in as_list(entry.pop("env_vars", None)):
        # Newer versions also say where it comes from: {name = "KEY", source = "local"}.
        name = str(as_table(variable).get("name") or variable)
        env[name] = f"${{{name}}}"
    if isinstance(limit := entry.pop("startup_timeout_ms", None), int | float):
        entry.setdefault("startup_timeout_sec", limit / 1_000)
    for theirs, ours in (
        ("startup_timeout_sec", "connect_timeout_seconds"),
        ("tool_timeout_sec", "call_timeout_seconds"),
    ):
        if theirs in entry:
            entry[ours] = entry.pop(theirs)
    return entry | ({"headers": headers} if headers else {}) | ({"env": env} if env else {})


def _convert_zed(entry: dict[str, Any]) -> dict[str, Any]:
    # Older versions have an object instead of the command.
    entry = {k: v for k, v in entry.items() if k not in ("source", "settings", "remote")}
    if command := as_table(entry.get("command")):
        entry["command"] = command.get("path")
        entry |= {key: command[key] for key in ("args", "env") if command.get(key)}
    return entry


def _convert_gemini(entry: dict[str, Any]) -> dict[str, Any]:
    # `url` means SSE unless a type is given; `$NAME` is a variable; times are in milliseconds.
    entry = cast("dict[str, Any]", _map_strings(entry, _rewrite_shell_variables))
    if entry.get("url") and not entry.get("httpUrl"):
        entry.setdefault("type", "sse")
    return _convert_timeout(entry, milliseconds=True)


def _convert_copilot(entry: dict[str, Any]) -> dict[str, Any]:
    entry = cast("dict[str, Any]", _map_strings(entry, _rewrite_shell_variables))
    tools = as_list(entry.pop("tools", None))
    if tools and "*" not in tools:
        entry["allow"] = tools
    return _convert_timeout(entry, milliseconds=True)


def _convert_goose(entry: dict[str, Any]) -> dict[str, Any]:
    # Values of `env_keys` are in the keyring of goose, out of reach for the gateway.
    env = {**as_table(entry.get("envs"))}
    env |= {str(name): f"${{{name}}}" for name in as_list(entry.get("env_keys"))}
    kind = {"streamable_http": "http"}.get(str(entry.get("type")), entry.get("type"))
    converted = {
        "type": kind,
        "command": entry.get("cmd"),
        "args": entry.get("args"),
        "env": env,
        "cwd": entry.get("cwd"),
        "url": entry.get("uri"),
        "headers": entry.get("headers"),
        "allow": entry.get("available_tools"),
        "timeout": entry.get("timeout"),
        "disabled": entry.get("enabled") is False,
    }
    return _convert_timeout({k: v for k, v in converted.items() if v}, milliseconds=False)


def _convert_opencode(entry: dict[str, Any]) -> dict[str, Any]:
    # The command is a list with its arguments; `{env:NAME}` is a variable.
    entry = cast(
        "dict[str, Any]", _map_strings(entry, lambda text: _BRACE_VARIABLE.sub(r"${\1}", text))
    )
    if isinstance(entry.get("command"), list):
        command, *args = [*as_list(entry["command"]), ""][:1] + as_list(entry["command"])[1:]
        entry["command"] = command
        entry |= {"args": args} if args else {}
    env = entry.pop("environment", None)
    entry |= {"env": env} if env else {}
    if entry.get("oauth") is False:
        del entry["oauth"]
    return _convert_timeout(entry, milliseconds=True)


def _convert_timeout(entry: dict[str, Any], *, milliseconds: bool) -> dict[str, Any]:
    entry = dict(entry)
    limit = entry.pop("timeout", None)
    if isinstance(limit, int | float) and not isinstance(limit, bool) and limit > 0:
        entry["call_timeout_seconds"] = limit / 1_000 if milliseconds else limit
    return entry


def _rewrite_shell_variables(text: str) -> str:
    return _SHELL_VARIABLE.sub(r"${\1}", text)


_CONVERTERS: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "codex": _convert_codex,
    "zed": _convert_zed,
    "gemini-cli": _convert_gemini,
    "copilot-cli": _convert_copilot,
    "goose": _convert_goose,
    "opencode": _convert_opencode,
}


def entry_summary(entry: Mapping[str, Any]) -> str:
    """The command or address of an entry in one line, with secrets redacted."""
    url = next((str(entry[k]) for k in ("url", "serverUrl", "httpUrl") if entry.get(k)), "")
    command = str(entry.get("command") or "")
    words = [command, *map(str, as_list(entry.get("args")))] if command else [url]
    text = " ".join(_redact_url(word) if "://" in word else word for word in words)
    # The longest first: a secret may contain a shorter one, whose removal would hide it.
    for secret in sorted(set(_secrets(entry, words)), key=len, reverse=True):
        # `${NAME}` is the place for a secret, not a secret.
        if len(secret) >= _MIN_SECRET_LENGTH and not _VARIABLE.fullmatch(secret):
            text = text.replace(secret, _REDACTED)
    return text


def _secrets(entry: Mapping[str, Any], words: list[str]) -> Iterator[str]:
    yield from secrets_in_arguments(words[1:])
    yield from secrets_in_table(_string_values(entry.get("env")))
    yield from secrets_in_headers(_string_values(entry.get("headers") or entry.get("http_headers")))
    for word in words:
        if "://" in word:
            yield from secrets_in_url(_find_url(word))
        else:  # a header, as bridges to a remote server take it
            name, _, value = word.partition(":")
            yield value.strip() if is_secret(name, "") else ""


def _string_values(table: object) -> dict[str, str]:
    return {name: str(value) for name, value in as_table(table).items()}


def _redact_url(word: str) -> str:
    """An address without user, password, query and fragment."""
    url = _find_url(word)
    if not url:
        return _REDACTED
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return word.removesuffix(url) + f"{parts.scheme}://{host}{parts.path}"


def _find_url(word: str) -> str:
    """The address in an argument like `--url=https://…`; empty if it cannot be parsed."""
    start = re.search(r"[A-Za-z][A-Za-z0-9+.-]*://", word)
    url = word[start.start() :] if start else ""
    try:
        urlsplit(url)
    except ValueError:
        return ""
    return url
