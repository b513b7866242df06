"""Server entries of other clients: convert them to the gateway's format, and print them safely."""

from __future__ import annotations

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

_INPUT = re.compile(r"\$\{input:([^}]+)\}")
_REDACTED = "•••"
_VARIABLE = re.compile(r"(?:\w+ )?\$\{[^}]+\}")
# Replacing shorter values would blot out parts of ordinary words.
_MIN_SECRET_LENGTH = 4


def as_table(value: object) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def convert_entry(client: str, entry: dict[str, Any]) -> dict[str, Any]:
    """A client's entry in the gateway's format, which most clients use already."""
    return _CONVERTERS.get(client, dict)(entry)


def _convert_vscode(entry: dict[str, Any]) -> dict[str, Any]:
    # VS Code asks the user for `${input:api-key}`. The gateway cannot, so it becomes the
    # environment variable API_KEY.
    return cast("dict[str, Any]", _replace_inputs(entry))


def _replace_inputs(value: Any) -> Any:
    if isinstance(value, str):
        return _INPUT.sub(lambda m: f"${{{re.sub(r'[^A-Za-z0-9]+', '_', m[1]).upper()}}}", value)
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        return {k: _replace_inputs(v) for k, v in table.items()}
    if isinstance(value, list):
        return [_replace_inputs(v) for v in cast("list[Any]", value)]
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


_CONVERTERS: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "vscode": _convert_vscode,
    "codex": _convert_codex,
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
