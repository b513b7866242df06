"""How the user runs this program, so that every command it prints can be run as it stands."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_NAME = "toolscout"
_PACKAGE = Path(__file__).parent
_MODULE_FILES = (str(_PACKAGE / "__main__.py"), str(_PACKAGE / "cli" / "__main__.py"))
# Where uvx and pipx put an environment that they made for one run. uvx also adds it to PATH.
_UVX_FOLDER = re.compile(r"[/\\](?:archive|environments|builds)-v\d+[/\\]")
# These read the state folder, which a configuration may set.
_STATE_COMMANDS = ("pins", "logs")
_config_files: list[Path] = []
_PIPX_FOLDER = re.compile(r"[/\\]pipx[/\\](?:\.cache|Cache)[/\\]|[/\\]\.?cache[/\\]pipx[/\\]", re.I)


def set_state_file(path: Path | None) -> None:
    """Name the configuration that sets the state folder in the commands that are printed."""
    _config_files[:] = [path] if path else []


def command_line(*words: str) -> str:
    """A command of this program that the user can copy into a shell, each word quoted if needed."""
    words += _state_words(words, str)
    return " ".join([_find_program(), *map(shlex.quote, words)])


def remote_command_line(*words: str) -> str:
    """The same for a reply to a client, which must not learn paths of this machine."""
    program = _find_program()
    words += _state_words(words, lambda file: file.name)
    return " ".join([_NAME if os.sep in program else program, *map(shlex.quote, words)])


def _state_words(words: tuple[str, ...], name: Callable[[Path], str]) -> tuple[str, ...]:
    if not words or words[0] not in _STATE_COMMANDS or "--config" in words:
        return ()
    return ("--config", name(_config_files[0])) if _config_files else ()


def launcher_words() -> tuple[str, ...]:
    """How uvx or pipx starts this program, if one of them made an environment for this run."""
    environment = f"{sys.prefix}{os.sep}"
    # Another run may make another environment, and the gateway needs what the extra installs.
    package = f"{_NAME}[mcp]" if find_spec("fastmcp") else _NAME
    if _UVX_FOLDER.search(environment):
        return ("uvx", "--from", package, _NAME)
    if _PIPX_FOLDER.search(environment):
        return ("pipx", "run", "--spec", package, _NAME)
    return ()


@cache
def _find_program() -> str:
    """The words before a subcommand: `toolscout`, unless it was started in another way."""
    started = sys.argv[0] if sys.argv else ""
    if started in _MODULE_FILES:
        return shlex.join([_find_python(), "-m", _NAME])
    if Path(started).name.removesuffix(".exe") != _NAME:  # a program that uses the library
        return _NAME
    launcher = launcher_words()
    if launcher:
        return shlex.join(launcher)
    return _NAME if _is_on_path(started) else shlex.quote(started)


def _is_on_path(started: str) -> bool:
    found = shutil.which(_NAME)
    return found is not None and Path(found).resolve() == Path(started).resolve()


def _find_python() -> str:
    """`python` or `python3` if that starts this interpreter, else its path."""
    for name in ("python", "python3"):
        found = shutil.which(name)
        # Not resolved: an environment's interpreter is often a link to another one.
        if found is not None and Path(found).absolute() == Path(sys.executable).absolute():
            return name
    return sys.executable
