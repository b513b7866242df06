"""A server's entry from options of the command line, and advice about secrets among them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import ConfigError
from ...program import command_line
from ...sources.mcp.secret_detection import (
    is_secret,
    secrets_in_arguments,
    secrets_in_url,
)
from ...sources.mcp.server_config import normalise_server_name

_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"\$\{[^}]+\}")


def build_entry(
    name: str,
    *,
    words: Sequence[str],
    url: str = "",
    is_sse: bool = False,
    headers: Sequence[str] = (),
    variables: Sequence[str] = (),
    cwd: str = "",
) -> dict[str, Any]:
    """The entry of a new server; raises for options that contradict each other."""
    if normalise_server_name(name) != name:
        raise ConfigError(
            f"{name!r} cannot be the name of a server.",
            hint=f"Use letters, digits, _ and -, for example {normalise_server_name(name)!r}.",
        )
    if bool(words) == bool(url):
        raise ConfigError(
            "Give either a command or a url.",
            hint=f"For example: {command_line('add', name)} -- COMMAND, or"
            f" {command_line('add', name)} --url https://HOST/mcp.",
        )
    if words:
        _refuse({"--header": headers, "--sse": is_sse}, "a server that is a command")
        command, *args = words
        entry = {
            "command": _absolute_command(command),
            "args": args,
            "env": _parse_env(variables),
            "cwd": _folder_of(args, cwd),
        }
    else:
        _refuse({"--env": variables, "--cwd": cwd}, "a server with a url")
        kind = "sse" if is_sse else "http"
        entry = {"type": kind, "url": url, "headers": _parse_headers(headers)}
    return {key: value for key, value in entry.items() if value}


def _absolute_command(command: str) -> str:
    # The gateway runs in another folder. A name without a slash is looked up in PATH.
    is_path = Path(command).name != command
    return str(Path(command).expanduser().absolute()) if is_path else command


def _folder_of(args: Sequence[str], cwd: str) -> str:
    """Where the command runs: as given, or here if its arguments name files of this folder."""
    if cwd:
        return str(Path(cwd).expanduser().absolute())
    return str(Path.cwd()) if any(_is_relative_path(word) for word in args) else ""


def _is_relative_path(word: str) -> bool:
    if word.startswith("-") or not word or Path(word).is_absolute():
        return False
    try:
        return word.startswith(("./", "../")) or Path(word).exists()
    except (OSError, ValueError):  # too long for a name, or with a NUL in it
        return False


def secret_advice(name: str, entry: Mapping[str, Any]) -> Iterator[str]:
    """For every secret written as a value: how to refer to a variable instead."""
    prefix = re.sub(r"[^A-Z0-9]+", "_", name.upper())
    for key, value in entry.get("env", {}).items():
        if is_secret(key, value) and not _REFERENCE.search(value):
            yield _advice(f"The value of {key}", f"--env '{key}=${{{key}}}'", key)
    for key, value in entry.get("headers", {}).items():
        # Most headers of a server are there to authenticate.
        if not _REFERENCE.search(value):
            scheme = "Bearer " if value.startswith("Bearer ") else ""
            variable = f"{prefix}_TOKEN"
            option = f"--header '{key}: {scheme}${{{variable}}}'"
            yield _advice(f"The header {key}", option, variable)
    found = [*secrets_in_arguments(entry.get("args", ())), *secrets_in_url(entry.get("url", ""))]
    if any(secret and not _REFERENCE.search(secret) for secret in found):
        variable = f"{prefix}_KEY"
        where = "the url" if entry.get("url") else "the arguments"
        yield _advice(f"A part of {where}", f"'${{{variable}}}'", variable)


def _advice(what: str, option: str, variable: str) -> str:
    return (
        f"{what} looks like a secret, and is now in the file, which only you can read. Write"
        f" {option} instead, and set {variable} where the gateway starts."
    )


def _refuse(options: Mapping[str, object], target: str) -> None:
    for option, value in options.items():
        if value:
            raise ConfigError(f"{option} cannot be used for {target}.", hint="Remove it.")


def _parse_env(variables: Sequence[str]) -> dict[str, str]:
    env: dict[str, str] = {}
    for text in variables:
        key, has_value, value = text.partition("=")
        if not _VARIABLE_NAME.fullmatch(key):
            raise ConfigError(
                f"{text.partition('=')[0]!r} is not the name of a variable.",
                hint="Write --env KEY=VALUE, or --env KEY to take it from the environment.",
            )
        env[key] = value if has_value else f"${{{key}}}"
    return env


def _parse_headers(headers: Sequence[str]) -> dict[str, str]:
    table: dict[str, str] = {}
    for text in headers:
        key, colon, value = text.partition(":")
        if not colon or not key.strip():
            raise ConfigError(
                f"The header {key!r} has no value.", hint="Write --header 'NAME: VALUE'."
            )
        table[key.strip()] = value.strip()
    return table
