"""The example programs run as they stand, in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


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
