"""The command itself: help, version, completion, and what it costs to start."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from toolscout.cli.app import COMMANDS, app

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"


def toolscout(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "toolscout.cli", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )


def test_version_and_help_answer(shell) -> None:
    assert re.search(r"toolscout, version \d+\.\d+", shell("--version").out)
    for word in ("search", "bench", "catalog", "completion"):
        assert word in shell("--help").out
        assert shell(word, "--help").code == 0


def test_help_imports_no_command(shell) -> None:
    code = (
        "import sys; from toolscout.cli.app import run; run(['--help']);"
        "print([m for m in sys.modules if m in ('numpy', 'toolscout.search', 'pydantic')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout.strip().endswith("[]")


def test_without_arguments_the_commands_are_listed(shell) -> None:
    done = shell()

    assert (done.code, done.err) == (0, "")
    assert "Commands:" in done.out


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_is_there_and_has_a_summary(name: str) -> None:
    command = app.get_command(click.Context(app), name)

    assert command is not None
    assert command.help
    assert COMMANDS[name].summary.endswith(".")


@pytest.mark.parametrize("name", ["search", "bench", "catalog", "completion"])
def test_every_option_is_documented(name: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    command = app.get_command(click.Context(app), name)
    assert command is not None
    commands = [command, *getattr(command, "commands", {}).values()]

    assert f"toolscout {name}" in page
    for option in (p for c in commands for p in c.params if isinstance(p, click.Option)):
        assert any(f"`{spelling}" in page for spelling in option.opts), option.opts


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(shell, shell_name: str) -> None:
    done = shell("completion", shell_name)

    assert done.code == 0
    assert "_TOOLSCOUT_COMPLETE" in done.out


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("toolscout sea", "search"),
        ("toolscout search --embedder n", "none"),
        ("toolscout catalog v", "validate"),
    ],
)
def test_completion_offers_what_is_there(typed: str, offered: str) -> None:
    done = toolscout(
        _TOOLSCOUT_COMPLETE="bash_complete",
        COMP_WORDS=typed,
        COMP_CWORD=str(len(typed.split()) - 1),
    )

    assert offered in done.stdout


def test_the_module_runs_like_the_command(home: Path) -> None:
    done = toolscout("search", "get_menu", "--embedder", "none", TOOLSCOUT_HOME=str(home))

    assert done.returncode == 0
    assert done.stdout.startswith("get_menu\t")
    assert done.stderr.startswith("Using the 81 tools of the example.")


def test_a_reader_that_goes_away_is_not_our_failure(home: Path) -> None:
    command = f"'{sys.executable}' -m toolscout.cli catalog list | head -n 1"
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        env={**os.environ, "TOOLSCOUT_HOME": str(home)},
        timeout=60,
        check=False,
    )

    assert done.stdout.startswith("send_email\t")
    assert "Traceback" not in done.stderr


def test_output_survives_a_terminal_without_unicode(home: Path) -> None:
    done = toolscout(
        "search",
        "ünïcödé → 邮件",
        "--explain",
        "--embedder",
        "none",
        TOOLSCOUT_HOME=str(home),
        PYTHONIOENCODING="ascii",
    )

    assert done.returncode == 0
    assert "Traceback" not in done.stderr
