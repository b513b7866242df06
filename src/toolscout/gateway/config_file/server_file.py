"""The servers in a configuration file: add, remove, enable and disable them safely."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from ...errors import ConfigError
from ...program import command_line
from ...sources.mcp.config import load_config_file, parse_config_text
from ...sources.mcp.server_config import normalise_server_name
from ...store.user_files import lock_config_file, write_atomically
from ...toml_edit import TOMLEditError, remove_toml_table, set_toml_flag, set_toml_table
from .json_edit import remove_json_value, set_json_value

TABLES = ("mcpServers", "servers", "mcp_servers")
"""The keys under which servers are read. A new JSON file gets the first, a TOML file the second."""

_MAX_NEAR_NAMES = 3


@dataclass(frozen=True, slots=True)
class ServerFile:
    """A configuration file whose servers can be changed; other keys and comments stay."""

    path: Path

    def entries(self) -> dict[str, Any]:
        """The servers in the file by name; none if there is no file."""
        document = load_config_file(self.path) if self.path.exists() else {}
        return {name: entry for table in _tables(document) for name, entry in table.items()}

    def find(self, name: str) -> str | None:
        """The name in the file of the server that is meant, if there is one."""
        return _find_name(self.entries(), name)

    def require(self, name: str) -> str:
        """The name in the file; the error for an unknown one suggests similar names."""
        entries = self.entries()
        found = _find_name(entries, name)
        if found is None:
            raise ConfigError(
                f"There is no server {name!r} in {self.path}.", hint=_name_hint(name, entries)
            )
        return found

    def put(self, name: str, entry: Mapping[str, Any], *, replaces: bool = False) -> None:
        """Add a server, or replace the one with this name."""

        def change(text: str) -> str:
            document = self._parse(text)
            known = _find_name(_all_entries(document), name)
            if known is not None and not replaces:
                raise _taken_error(known, self.path)
            label = name if known is None else known
            keys = (_table_of(document, label, is_toml=self._is_toml), label)
            if self._is_toml:
                return set_toml_table(text, keys, entry)
            return set_json_value(text or "{}\n", keys, dict(entry))

        self._edit(change)

    def remove(self, name: str) -> None:
        """Remove a server from the file."""

        def change(text: str) -> str:
            document = self._parse(text)
            keys = (_table_of(document, name, is_toml=self._is_toml), name)
            if not self._is_toml:
                return remove_json_value(text, keys)
            result = remove_toml_table(text, keys)
            # Without any table of servers the file would not be read as a configuration.
            has_table = any(key in self._parse(result) for key in (*TABLES, "openapi"))
            return result if has_table else f"{result.rstrip()}\n\n[{keys[0]}]\n".lstrip()

        self._edit(change)

    def switch(self, name: str, *, is_enabled: bool) -> bool:
        """Enable or disable a server; returns whether the file changed."""
        entry = self.entries()[name]
        if not isinstance(entry, dict):
            raise ConfigError(f"The entry of {name!r} is not an object.", hint=f"See {self.path}.")
        flags = _flag_changes(cast("dict[str, Any]", entry), is_enabled=is_enabled)

        def change(text: str) -> str:
            keys = (_table_of(self._parse(text), name, is_toml=self._is_toml), name)
            for flag, value in flags.items():
                if self._is_toml:
                    text = set_toml_flag(text, keys, flag, value=value)
                elif value is None:
                    text = remove_json_value(text, (*keys, flag))
                else:
                    text = set_json_value(text, (*keys, flag), value)
            return text

        if flags:
            self._edit(change)
        return bool(flags)

    @property
    def _is_toml(self) -> bool:
        return self.path.suffix == ".toml"

    def _parse(self, text: str) -> dict[str, Any]:
        return parse_config_text(text, self.path) if text.strip() else {}

    def _edit(self, change: Callable[[str], str]) -> None:
        """Read, change and write under a lock, so that two commands at once both take effect."""
        with lock_config_file(self.path):
            text = ""
            if self.path.exists():
                text = self.path.read_text(encoding="utf-8-sig")
                self._parse(text)  # raises for a file that cannot be read, before it is written
            try:
                result = change(text)
            except (TOMLEditError, ValueError) as error:
                raise ConfigError(
                    f"{self.path} has a layout that cannot be edited automatically.",
                    hint="Edit it by hand, with one table for each server.",
                ) from error
            self._parse(result)  # raises rather than write what cannot be read back
            write_atomically(self.path, result)


def restrict_to_owner(path: Path) -> bool:
    """Make a file with secrets readable by its owner only; returns whether it was not."""
    mode = path.stat().st_mode & 0o777
    if os.name == "nt" or mode & 0o077 == 0:
        return False
    path.chmod(mode & 0o700)
    return True


def _tables(document: Mapping[str, Any], keys: Sequence[str] = TABLES) -> list[dict[str, Any]]:
    tables = (document.get(key) for key in keys)
    return [cast("dict[str, Any]", table) for table in tables if isinstance(table, dict)]


def _all_entries(document: Mapping[str, Any]) -> dict[str, Any]:
    apis = document.get("openapi")
    # APIs share the names with servers, since both prefix their tools.
    tables = [
        *_tables(document),
        *([cast("dict[str, Any]", apis)] if isinstance(apis, dict) else []),
    ]
    return {name: entry for table in tables for name, entry in table.items()}


def _table_of(document: Mapping[str, Any], name: str, *, is_toml: bool) -> str:
    """The key of the table that has a server, or that a new one goes into."""
    present = [key for key in TABLES if isinstance(document.get(key), dict)]
    default = "servers" if is_toml else TABLES[0]
    return next((key for key in present if name in document[key]), (*present, default)[0])


def _find_name(entries: Mapping[str, Any], name: str) -> str | None:
    if name in entries:
        return name
    # The name that commands and clients show is the normalised one.
    wanted = normalise_server_name(name)
    return next((label for label in entries if normalise_server_name(label) == wanted), None)


def _name_hint(name: str, entries: Mapping[str, Any]) -> str:
    by_lower = {label.lower(): label for label in entries}
    near = get_close_matches(name.lower(), by_lower, _MAX_NEAR_NAMES)
    if near:
        return f"Did you mean {' or '.join(by_lower[n] for n in near)}?"
    if entries:
        return f"Known: {', '.join(entries)}."
    return f"There are no servers yet: add one with {command_line('add')}."


def _taken_error(name: str, path: Path) -> ConfigError:
    return ConfigError(
        f"There is already a server {name!r} in {path}.",
        hint="Replace it with --force, or choose another name.",
    )


def _flag_changes(entry: Mapping[str, Any], *, is_enabled: bool) -> dict[str, bool | None]:
    if not is_enabled:
        return {} if entry.get("disabled") is True else {"disabled": True}
    changes: dict[str, bool | None] = {"disabled": None} if "disabled" in entry else {}
    return changes | ({"enabled": None} if entry.get("enabled") is False else {})
