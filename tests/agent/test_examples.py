"""The example programs run as they stand, in a process of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from toolscout.cli.app import COMMANDS

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


@pytest.mark.behaviour("B79")
def test_the_example_of_a_documentation_agent_finds_and_uses_its_tools(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / "documentation.py")],
        capture_output=True,
        text=True,
        env={**os.environ, "TOOLSCOUT_HOME": str(tmp_path)},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("→ search_tools")
    assert "+ search_documentation, read_documentation" in lines
    assert lines[-1] == "Thirty days after you last used it."


@pytest.mark.behaviour("E127")
def test_the_runbook_tells_how_to_add_change_and_look_and_names_only_what_there_is() -> None:
    page = (ROOT / "docs" / "cms.md").read_text(encoding="utf-8")
    for heading in ("Add a tool", "Change rules", "Find out why a tool was not found"):
        assert f"### {heading}" in page
    assert set(re.findall(r"toolscout (\w+)", page)) <= {*COMMANDS, "import"}
    table = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    files = [name for cell in table for name in re.findall(r"`([\w/.*]+)`", cell)]
    assert len(files) > 15
    for name in files:
        assert [*(EXAMPLES / "cms").glob(name.rstrip("/"))], name


def test_the_site_opens_and_searches_as_its_page_shows(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "cms.md").read_text(encoding="utf-8")
    program = re.search(r'python -c "\n(.*?)"\n```', page, re.DOTALL)
    assert program is not None
    done = subprocess.run(
        [sys.executable, "-c", program[1].replace("'site'", repr(str(tmp_path / "site")))],
        capture_output=True,
        text=True,
        cwd=EXAMPLES,
        env={**os.environ, "TOOLSCOUT_HOME": str(tmp_path)},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "cms_updateSectionImage" in done.stdout
