"""The first answer to a client over stdio, as far as it is known before anything is loaded.

Only the standard library is imported here. There are two sources: the answer of an earlier start,
if nothing that it depends on has changed since, and a fixed answer for profiles whose instructions
need no catalog. In all other cases there is no greeting, and the gateway itself answers.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, cast

from ..disclosure.prompt_texts import (
    DISPATCH_CALL,
    deferred_tools_text,
    discovery_text,
    stub_text,
)
from ..errors import ConfigError
from ..folders import find_settings_file

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The protocol versions that a client can agree on with `initialize`."""
MODERN_VERSION = "2026-07-28"
"""The stateless protocol version, whose clients begin with `server/discover`."""

Table = Mapping[str, Any]

_META = "io.modelcontextprotocol/"
_DEFAULT_TEXT = deferred_tools_text("tool_search", DISPATCH_CALL)
# Profiles whose instructions are the same for every catalog, apart from the list of what exists.
_INSTRUCTIONS: Mapping[str, str] = {
    "default": _DEFAULT_TEXT,
    "compact": _DEFAULT_TEXT,
    "cms": discovery_text("tool_search"),
    "everruns": stub_text("tool_search"),
    "everything": "",
}
# What the gateway declares; a test compares it with the gateway's own answer.
_CAPABILITIES: Table = {
    "logging": {},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "tools": {"listChanged": True},
    "completions": {},
}
# Settings that add text to the instructions which only the gateway can read.
_FEATURES = ("rules", "skills", "memory")


@dataclass(frozen=True, slots=True)
class Greeting:
    """The results of `initialize`, without its protocol version, and of `server/discover`.

    A result that is not known is empty.
    """

    initialize: Table = field(default_factory=dict[str, Any])
    discover: Table = field(default_factory=dict[str, Any])

    def or_else(self, other: Greeting) -> Greeting:
        """This greeting, with missing results filled in from another."""
        return Greeting(self.initialize or other.initialize, self.discover or other.discover)

    def answer(self, method: str, params: Table) -> Table | None:
        """The result for a first request; None if the gateway itself has to answer it."""
        if method == "initialize" and self.initialize and _is_plain_initialize(params):
            asked = params["protocolVersion"]
            version = asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
            return {"protocolVersion": version, **self.initialize}
        if method == "server/discover" and self.discover and _is_plain_envelope(params):
            return self.discover
        return None


def _is_plain_initialize(params: Table) -> bool:
    return (
        isinstance(params.get("protocolVersion"), str)
        and _is_table_of_tables(params.get("capabilities"))
        and _is_program(params.get("clientInfo"))
    )


def _is_plain_envelope(params: Table) -> bool:
    meta = as_table(params.get("_meta"))
    return (
        meta.get(f"{_META}protocolVersion") == MODERN_VERSION
        and _is_table_of_tables(meta.get(f"{_META}clientCapabilities"))
        and _is_program(meta.get(f"{_META}clientInfo"))
    )


def is_modern(params: Table) -> bool:
    """Whether a request has the envelope of the stateless protocol."""
    return f"{_META}protocolVersion" in as_table(params.get("_meta"))


def _is_program(value: object) -> bool:
    info = as_table(value)
    return isinstance(info.get("name"), str) and isinstance(info.get("version"), str)


def _is_table_of_tables(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(each, dict) for each in cast("dict[str, object]", value).values()
    )


def as_table(value: object) -> Table:
    """The value if it is a JSON object, else an empty one."""
    return cast("Table", value) if isinstance(value, dict) else {}


def fixed_greeting(path: Path | None, overrides: Table) -> Greeting:
    """The greeting of a configuration that needs no catalog for it; empty for others.

    `path` is the configuration, None for the built-in example; `overrides` are options from the
    command line.
    """
    try:
        document: Table = _read_file(path) if path else {}
        file = find_settings_file(os.environ)
        own: Table = _read_file(file) if file else {}
    except (OSError, ValueError, ConfigError):
        return Greeting()  # the gateway reports what is wrong
    given = {name: value for name, value in overrides.items() if value is not None}
    gateway = {**as_table(document.get("gateway")), **given}
    settings = [gateway, *(as_table(table.get("settings")) for table in (document, own))]
    if document.get("profile") or any(s.get(name) for s in settings for name in _FEATURES):
        return Greeting()
    if any(os.environ.get(f"TOOLSCOUT_{name.upper()}") for name in _FEATURES):
        return Greeting()
    # With `load`, a small catalog is shown as a whole, which cannot be known yet.
    if gateway.get("surface", "dispatch") != "dispatch":
        return Greeting()
    profile = gateway.get("profile", "default")
    text = _INSTRUCTIONS.get(profile) if isinstance(profile, str) else None
    if text is None:
        return Greeting()
    return _build_greeting(text)


def _read_file(path: Path) -> Table:
    text = path.read_text(encoding="utf-8-sig")
    return as_table(tomllib.loads(text) if path.suffix == ".toml" else json.loads(text))


def _build_greeting(text: str) -> Greeting:
    info = {"name": "toolscout", "version": metadata.version("toolscout")}
    instructions = {"instructions": text} if text else {}
    return Greeting(
        initialize={
            "capabilities": _CAPABILITIES,
            "serverInfo": info,
            **instructions,
        },
        discover={
            "_meta": {f"{_META}serverInfo": info},
            "ttlMs": 0,
            "cacheScope": "private",
            "supportedVersions": [MODERN_VERSION],
            "capabilities": {
                **_CAPABILITIES,
                "extensions": {f"{_META}ui": {}},
            },
            **instructions,
            "resultType": "complete",
        },
    )
