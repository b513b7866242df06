"""The recording in the README shows what the commands print today."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]
RUN = "import recording; print(recording.draw())"
RECORDED = (PROJECT / "docs" / "figures" / "terminal.svg").read_text(encoding="utf-8")


def test_the_commands_still_print_what_was_recorded(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=PROJECT / "scripts",
        env={**os.environ, "TOOLSCOUT_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    sys.path.insert(0, str(PROJECT / "scripts"))
    from recording import outline

    assert outline(done.stdout) == outline(RECORDED), "run: make recording"


def test_it_loads_nothing_from_the_internet() -> None:
    assert RECORDED.count("http") == RECORDED.count('xmlns="http://www.w3.org/2000/svg"')
    assert "docs/figures/terminal.svg" in (PROJECT / "README.md").read_text(encoding="utf-8")
