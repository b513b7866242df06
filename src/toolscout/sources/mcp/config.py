"""Read configuration files as plain data: TOML or JSON, with environment variables expanded."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from ...errors import ConfigError

_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{([^}]*)\}")


def expand_variables(
    text: str,
    variables: Mapping[str, str],
    *,
    whose: str,
    found: Callable[[str], object] | None = None,
) -> str:
    """Replace `${NAME}` and `${NAME:-default}`; an unset variable is an error, never empty.

    `found` hears the values that came from the environment: a default stands in the file.
    """

    def substitute(match: re.Match[str]) -> str:
        name, default, foreign = cast("tuple[str | None, str | None, str | None]", match.groups())
        if name is None:
            raise ConfigError(
                f"{whose} uses ${{{foreign}}}, which only another client can fill in.",
                hint="Write ${NAME} and set that environment variable.",
            )
        given = variables.get(name)
        if given and found is not None:
            found(given)
        given = given or default
        if given is None:
            raise ConfigError(
                f"{whose} needs the environment variable {name}, which is not set.",
                hint=f"Set {name}, or write ${{{name}:-default}}.",
            )
        return given

    return _VARIABLE.sub(substitute, text)


_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_COMMA = re.compile(r'"(?:\\.|[^"\\])*"|,(?=\s*[\]}])', re.DOTALL)
_SYNTAX_HINTS = {
    "JSON": "Mend that place: keys and texts stand in double quotes, entries are parted by commas.",
    "TOML": "Mend that place: texts stand in quotes, and each table and key once.",
}


def load_config_file(path: str | Path) -> dict[str, Any]:
    """The file as plain data: TOML by its suffix, JSON otherwise, each key given once."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"Cannot read {path}: {getattr(error, 'strerror', None) or error}.",
            hint="Check the path given with --config.",
        ) from error
    try:
        if path.suffix == ".toml":
            return tomllib.loads(text)
        found: object = json.loads(
            strip_json_comments(text), object_pairs_hook=_reject_duplicate_keys
        )
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        kind = "TOML" if path.suffix == ".toml" else "JSON"
        raise ConfigError(
            f"{path} is not valid {kind}: {error}.", hint=_SYNTAX_HINTS[kind]
        ) from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path} must hold a JSON object.", hint='Start with {"mcpServers": …}.')
    return cast("dict[str, Any]", found)


def strip_json_comments(text: str) -> str:
    """JSON without the comments and trailing commas that editors allow; all else stays in place."""
    return _COMMA.sub(_blank_out, _COMMENT.sub(_blank_out, text))


def _blank_out(match: re.Match[str]) -> str:
    found = match.group()
    return found if found.startswith('"') else re.sub(r"[^\n]", " ", found)


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise ConfigError(
                f"The configuration has {key!r} twice in one object.",
                hint="Rename one; the later would silently replace the earlier.",
            )
        table[key] = value
    return table
