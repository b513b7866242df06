"""Long work shows how far it is, on stderr; stdout has the answer alone."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

TOOLS = 4_000  # enough to take more than a second
SEARCH = (sys.executable, "-m", "toolscout.cli", "search", "send a parcel", "--json")
COUNT = re.compile(r"([\d,]+) of ([\d,]+)")
LIFE = 120.0


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some thousand tools with descriptions that differ."""
    path = tmp_path_factory.mktemp("many") / "tools.jsonl"
    verbs = ("send", "track", "cancel", "weigh", "label", "insure", "return", "store")
    rows = [
        {
            "name": f"{verbs[i % 8]}_parcel_{i}",
            "description": f"{verbs[i % 8].title()} parcel number {i} from depot {i * 7 % 991} to"
            f" customer {i * 13 % 1999}, with receipt {i * i} and a note to the driver.",
        }
        for i in range(TOOLS)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "TOOLSCOUT_HOME": str(home), "TERM": "xterm", "COLUMNS": "100"}


def search_in_pipe(catalog: Path, home: Path, *options: str) -> tuple[str, str]:
    """Search with neither stream on a terminal; what came on stdout and on stderr."""
    command = [*(part for part in SEARCH if part != "--json"), "-c", str(catalog), *options]
    done = subprocess.run(
        command, env=environment(home), capture_output=True, text=True, timeout=LIFE
    )
    assert done.returncode == 0
    return done.stdout, done.stderr


def start_on_terminal(catalog: Path, home: Path) -> tuple[subprocess.Popen[str], int]:
    """Search with stderr on a terminal and stdout in a pipe."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [*SEARCH, "-c", str(catalog)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        env=environment(home),
    )
    os.close(theirs)
    return child, ours


def read_terminal(ours: int, *, until: str = "") -> str:
    """What is written to a terminal, up to a text or to its end."""
    seen = b""
    while not until or until not in seen.decode(errors="replace"):
        try:
            chunk = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        seen += chunk
    return seen.decode(errors="replace")


def test_a_pipe_gets_lines_with_counts_and_a_clean_answer(catalog: Path, tmp_path: Path) -> None:
    out, err = search_in_pipe(catalog, tmp_path)

    assert "parcel" in out
    assert "Computing vectors" not in out
    found = [line for line in err.splitlines() if line.startswith("Computing vectors: ")]
    counts = [tuple(int(n.replace(",", "")) for n in COUNT.findall(line)[0]) for line in found]
    assert counts, err
    assert counts == sorted(counts)
    assert counts[-1][0] == counts[-1][1] >= TOOLS

    # All of it is cached now: there is nothing to wait for, and nothing to say.
    assert "Computing vectors" not in search_in_pipe(catalog, tmp_path)[1]


def test_with_json_stderr_in_a_pipe_stays_silent(catalog: Path, tmp_path: Path) -> None:
    out, err = search_in_pipe(catalog, tmp_path, "--json")

    assert json.loads(out)["hits"]
    assert err == ""


def test_a_terminal_gets_a_bar_that_disappears(catalog: Path, tmp_path: Path) -> None:
    child, ours = start_on_terminal(catalog, tmp_path)
    seen = read_terminal(ours)
    answer, _ = child.communicate(timeout=LIFE)
    os.close(ours)
    assert child.returncode == 0

    assert json.loads(answer)["hits"]
    assert re.search(r"Computing vectors.*\d+/\d+", seen), seen
    assert seen.rstrip().endswith(("\x1b[2K", "\x1b[?25h")), seen[-200:]  # erased, cursor shown


def test_ctrl_c_ends_the_wait_and_keeps_what_is_done(catalog: Path, tmp_path: Path) -> None:
    child, ours = start_on_terminal(catalog, tmp_path)
    read_terminal(ours, until="Computing vectors")
    child.send_signal(signal.SIGINT)
    seen = read_terminal(ours)
    answer, _ = child.communicate(timeout=LIFE)
    os.close(ours)
    assert (child.returncode, answer) == (130, "")
    assert "Traceback" not in seen
    assert seen.rstrip().endswith(("\x1b[2K", "\x1b[?25h")), seen[-200:]
    with closing(sqlite3.connect(next(tmp_path.rglob("vectors.db")))) as vectors:
        (count,) = vectors.execute("SELECT count(*) FROM vectors").fetchone()
    assert 0 < count < TOOLS
