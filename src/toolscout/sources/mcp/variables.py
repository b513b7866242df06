"""Expand `${…}` in a configuration: environment variables, files and entries of the keyring."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from ...errors import ConfigError, StoreError
from ...store.system_keyring import read_password

# `${NAME}`, `${env:NAME}` (VS Code) and `${NAME:-default}`; then files, whose path may itself have
# variables, such as `${CREDENTIALS_DIRECTORY}` of systemd. Last any other `${…}`, such as
# `${input:…}` of VS Code, so that it is reported and does not reach a server unchanged.
_REFERENCE = re.compile(
    r"\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}"
    r"|\$\{file:(?P<file>(?:[^{}]|\$\{[^{}]*\})*)\}"
    r"|\$\{keyring:(?P<keyring>[^}]*)\}"
    r"|\$\{(?P<other>[^}]*)\}"
)
_MAX_SECRET_BYTES = 65_536


def expand_variables(
    text: str,
    variables: Mapping[str, str],
    *,
    owner: str,
    folder: Path | None = None,
    on_value: Callable[[str], object] | None = None,
) -> str:
    """Replace `${NAME}`, `${file:PATH}` and `${keyring:SERVICE/NAME}`; a missing one is an error.

    Relative paths start at `folder`. `on_value` gets each value that was read, but not defaults:
    these are written in the file and are not secret.
    """

    def substitute(match: re.Match[str]) -> str:
        if (path := match["file"]) is not None:
            path = expand_variables(path, variables, owner=owner)
            value = _read_file(path, owner=owner, folder=folder)
        elif (entry := match["keyring"]) is not None:
            value = _read_keyring(entry, owner=owner)
        elif (name := match["name"]) is not None:
            value = variables.get(name) or ""
            if not value:
                return _default(match, owner=owner)
        else:
            raise ConfigError(
                f"{owner} uses ${{{match['other']}}}, which only another client supports.",
                hint="Write ${NAME} and set that environment variable.",
            )
        if on_value is not None:
            on_value(value)
        return value

    return _REFERENCE.sub(substitute, text)


def _default(match: re.Match[str], *, owner: str) -> str:
    name, default = match["name"], cast("str | None", match["default"])
    if default is None:
        raise ConfigError(
            f"{owner} needs the environment variable {name}, which is not set.",
            hint=f"Set {name}, or write ${{{name}:-default}}.",
        )
    return default


def _read_file(path: str, *, owner: str, folder: Path | None) -> str:
    file = _resolve(path, folder)
    try:
        # A pipe would wait for its writer.
        if not file.is_file():
            why = "is not a file" if file.exists() else "does not exist"
            raise _file_error(owner, file, why)
        with file.open("rb") as stream:
            content = stream.read(_MAX_SECRET_BYTES + 1)
        if len(content) > _MAX_SECRET_BYTES:
            raise _file_error(owner, file, f"is larger than {_MAX_SECRET_BYTES} bytes")
        value = content.decode().rstrip("\r\n")
    except OSError as error:
        raise _file_error(owner, file, f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise _file_error(owner, file, "is not UTF-8 text") from error
    if not value:
        raise _file_error(owner, file, "is empty")
    return value


def _resolve(path: str, folder: Path | None) -> Path:
    try:
        return Path(folder or "") / Path(path).expanduser()
    except RuntimeError:  # the home folder of an unknown user
        return Path(path)


def _file_error(owner: str, file: Path, why: str) -> ConfigError:
    return ConfigError(
        f"{owner} needs the file {file}, which {why}.",
        hint="Write the secret into it, on one line, readable by the gateway's user.",
    )


def _read_keyring(entry: str, *, owner: str) -> str:
    service, _, name = entry.partition("/")
    if not service or not name:
        raise ConfigError(
            f"{owner} uses ${{keyring:{entry}}}, which does not name an entry.",
            hint="Write ${keyring:SERVICE/NAME}.",
        )
    try:
        value = read_password(service, name)
    except StoreError as error:
        raise ConfigError(
            f"{owner} needs {entry} of the keyring. {error.message}", hint=error.hint
        ) from error
    if not value:
        raise ConfigError(
            f"{owner} needs {entry} of the keyring, which is not set.",
            hint=f"Set it: keyring set {service} {name}",
        )
    return value


def find_exposed_files(
    value: object, variables: Mapping[str, str], *, folder: Path
) -> Iterator[str]:
    """A warning for each file of a configuration's secrets that other users can read."""
    if isinstance(value, dict):
        for item in cast("dict[str, Any]", value).values():
            yield from find_exposed_files(item, variables, folder=folder)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from find_exposed_files(item, variables, folder=folder)
    elif isinstance(value, str):
        for match in _REFERENCE.finditer(value):
            if match["file"] and _is_exposed(match["file"], variables, folder):
                yield f"Every user can read {match['file']}, which holds a secret: chmod o-r it."


def _is_exposed(path: str, variables: Mapping[str, str], folder: Path) -> bool:
    if os.name != "posix":
        return False
    try:
        file = _resolve(expand_variables(path, variables, owner=""), folder)
        return bool(file.stat().st_mode & stat.S_IROTH)
    except (ConfigError, OSError, ValueError):
        return False
