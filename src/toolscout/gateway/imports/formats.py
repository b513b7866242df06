"""How each client writes a server down, put into the form that the gateway reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

_INPUT = re.compile(r"\$\{input:([^}]+)\}")


def convert_entry(client: str, entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of this client's file in the gateway's form; most clients have that form."""
    return _CONVERTERS.get(client, dict)(entry)


def as_table(value: object) -> dict[str, Any]:
    """The value where it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """The value where it is a list, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def _convert_vscode(entry: dict[str, Any]) -> dict[str, Any]:
    """What VS Code would ask for becomes a variable of the environment."""
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
    """Codex names variables in place of values, and seconds by other names."""
    entry = dict(entry)
    headers = {**as_table(entry.pop("http_headers", None))}
    headers |= {h: f"${{{v}}}" for h, v in as_table(entry.pop("env_http_headers", None)).items()}
    if variable := entry.pop("bearer_token_env_var", None):
        headers["Authorization"] = f"Bearer ${{{variable}}}"
    env = {**as_table(entry.pop("env", None))}
    for variable in as_list(entry.pop("env_vars", None)):
        # Newer versions say where it comes from, too: {name = "KEY", source = "local"}.
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
