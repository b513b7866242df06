"""Where a user's files are: settings, servers, state and caches. Standard library only.

Separate from `config`, so that a gateway over stdio can find its files before anything is loaded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from .errors import ConfigError

PREFIX = "TOOLSCOUT_"
FILE_VARIABLE = f"{PREFIX}CONFIG"
_SETTINGS_FILE = "config.toml"
_SERVERS_FILE = "mcp.json"


def config_folder() -> Path:
    """The user's folder for configuration: in XDG_CONFIG_HOME, or the folder of the platform."""
    fallback = {"darwin": ("Library", "Application Support"), "win32": ("AppData", "Roaming")}
    if sys.platform == "win32" and not os.environ.get("XDG_CONFIG_HOME"):
        return user_folder("APPDATA", *fallback["win32"])
    return user_folder("XDG_CONFIG_HOME", *fallback.get(sys.platform, (".config",)))


def user_servers_file() -> Path:
    """The user's own list of MCP servers, used where no other file is named."""
    return config_folder() / _SERVERS_FILE


def find_settings_file(environment: Mapping[str, str]) -> Path | None:
    """The settings file that the environment names, or the default one if it exists."""
    if named := environment.get(FILE_VARIABLE):
        return Path(named)
    # The second is where version 0.1 looked on every platform.
    for folder in (config_folder(), user_folder("XDG_CONFIG_HOME", ".config")):
        if (folder / _SETTINGS_FILE).is_file():
            return folder / _SETTINGS_FILE
    return None


def user_folder(variable: str, *fallback: str) -> Path:
    """The folder of Toolscout under the one that a variable names, or under the home folder."""
    base = os.environ.get(variable, "")
    # The XDG specification: relative paths are invalid and must be ignored.
    if base and Path(base).is_absolute():
        return Path(base) / "toolscout"
    try:
        return Path.home().joinpath(*fallback) / "toolscout"
    except RuntimeError as error:
        raise ConfigError(
            "No home folder was found for state and caches.",
            hint=f"Set {PREFIX}HOME to a folder.",
        ) from error
