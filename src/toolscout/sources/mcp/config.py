"""Read TOML and JSON configuration files as plain data."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any, cast

from ...errors import ConfigError

# Both patterns match strings first, so that `//` or a comma inside a string is left alone.
_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_COMMA = re.compile(r'"(?:\\.|[^"\\])*"|,(?=\s*[\]}])', re.DOTALL)
_SYNTAX_HINTS = {
    "JSON": "Fix that place: put keys and strings in double quotes and commas between entries.",
    "TOML": "Fix that place: put strings in quotes, and write each table and key only once.",
}


def load_config_file(path: str | Path) -> dict[str, Any]:
    """Read a file as plain data: TOML by its suffix, JSON otherwise; duplicate keys are errors."""
    path = Path(path)
    try:
        # Some editors on Windows write a byte order mark.
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"Cannot read {path}: {getattr(error, 'strerror', None) or error}.",
            hint="Check the path given with --config.",
        ) from error
    return parse_config_text(text, path)


def parse_config_text(text: str, path: Path) -> dict[str, Any]:
    """The text of a configuration file as plain data; the path decides on its format."""
    try:
        if path.suffix == ".toml":
            return tomllib.loads(text)
        document: object = json.loads(
            strip_json_comments(text), object_pairs_hook=_reject_duplicate_keys
        )
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        kind = "TOML" if path.suffix == ".toml" else "JSON"
        raise ConfigError(
            f"{path} is not valid {kind}: {error}.", hint=_SYNTAX_HINTS[kind]
        ) from error
    if not isinstance(document, dict):
        raise ConfigError(
            f"{path} must contain a JSON object.", hint='Start with {"mcpServers": …}.'
        )
    return cast("dict[str, Any]", document)


def strip_json_comments(text: str) -> str:
    """Blank out the comments and trailing commas that editors allow in JSON."""
    return _COMMA.sub(_blank_out, _COMMENT.sub(_blank_out, text))


def _blank_out(match: re.Match[str]) -> str:
    # With spaces of the same length, so that line and column in errors stay right.
    text = match.group()
    return text if text.startswith('"') else re.sub(r"[^\n]", " ", text)


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise ConfigError(
                f"The configuration has {key!r} twice in one object.",
                hint="Rename one of them; otherwise the second would silently replace the first.",
            )
        table[key] = value
    return table
