"""Configuration files as plain data: TOML, or JSON as clients and their editors write it."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any, cast

from ....errors import ConfigError

_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_COMMA = re.compile(r'"(?:\\.|[^"\\])*"|,(?=\s*[\]}])', re.DOTALL)
_MEND = {
    "JSON": "Mend that place: keys and texts stand in double quotes, entries are parted by commas.",
    "TOML": "Mend that place: texts stand in quotes, and each table and key once.",
}


def load(path: str | Path) -> dict[str, Any]:
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
        found: object = json.loads(plain_json(text), object_pairs_hook=_once)
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        kind = "TOML" if path.suffix == ".toml" else "JSON"
        raise ConfigError(f"{path} is not valid {kind}: {error}.", hint=_MEND[kind]) from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path} must hold a JSON object.", hint='Start with {"mcpServers": …}.')
    return cast("dict[str, Any]", found)


def plain_json(text: str) -> str:
    """JSON without the comments and trailing commas that editors allow; all else stays in place."""
    return _COMMA.sub(_blank, _COMMENT.sub(_blank, text))


def _blank(match: re.Match[str]) -> str:
    found = match.group()
    return found if found.startswith('"') else re.sub(r"[^\n]", " ", found)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise ConfigError(
                f"The configuration has {key!r} twice in one object.",
                hint="Rename one; the later would silently replace the earlier.",
            )
        table[key] = value
    return table
