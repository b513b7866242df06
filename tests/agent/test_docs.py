"""What the documentation shows runs as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("agent", "approvals", "telemetry")
BLOCKS = [
    (f"{page}-{number}", code)
    for page in PAGES
    for number, code in enumerate(
        re.findall(r"```python\n(.*?)```", (ROOT / f"docs/{page}.md").read_text("utf-8"), re.DOTALL)
    )
]


def ran(arguments: list[str], home: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TOOLSCOUT_HOME": str(home)}
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("code", [c for _, c in BLOCKS], ids=[n for n, _ in BLOCKS])
def test_every_example_of_the_documentation_runs(code: str, tmp_path: Path) -> None:
    done = ran(["-c", code], tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.behaviour("B79")
def test_the_example_of_a_documentation_agent_finds_and_uses_its_tools(tmp_path: Path) -> None:
    done = ran([str(ROOT / "examples" / "documentation.py")], tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("→ search_tools")
    assert "+ search_documentation, read_documentation" in lines
    assert lines[-1] == "Thirty days after you last used it."
