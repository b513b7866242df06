"""Run the official conformance suites: `python -m tests.gateway.conformance.run`.

The gateway shows everything and stands before one upstream (`upstream.py`), so a pass proves that
it passes on faithfully. `--write FILE` writes the results as a page. Exits 1 when a scenario fails
that the suite scores.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from tests.gateway import node

UPSTREAM = Path(__file__).parent / "upstream.py"
LINE = re.compile(r"^[✓✗] (?P<name>[\w/-]+): (?P<passed>\d+) passed, (?P<failed>\d+) failed")
UNSCORED = re.compile(r"^  [✓✗] (?P<name>[\w/-]+) \((?P<why>\w+)\)")
REASONS = {
    "server-sse-polling": "The scenario uses a client of 2025-03-26. The event that opens a "
    "stream, with the time to reconnect, goes only to clients from 2025-11-25 on, because older "
    "ones cannot read an event without data; this is a rule of the SDK. Both resume a broken "
    "stream from the last event that they received (`tests/gateway/test_event_store.py`).",
    "tasks": "The tasks extension is not offered: calls are passed on and answered, never queued.",
}


@dataclass(frozen=True)
class Outcome:
    scenario: str
    passed: int
    failed: int
    why_unscored: str = ""

    @property
    def says(self) -> str:
        if not self.passed + self.failed:
            return "warnings only"
        return "pass" if not self.failed else f"{self.failed} of {self.passed + self.failed} fail"

    @property
    def reason(self) -> str:
        if not self.failed and self.passed:
            return ""
        key = "tasks" if self.scenario.startswith("tasks-") else self.scenario
        return REASONS.get(key, "")


@contextmanager
def serving(protocol: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        entry = {"command": sys.executable, "args": [str(UPSTREAM)], "prefix": False}
        config = Path(folder) / "mcp.json"
        servers = {"everything": {**entry, "protocol": protocol}}
        config.write_text(json.dumps({"mcpServers": servers}))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        toolscout = Path(sys.executable).with_name("toolscout")
        args = ["serve", "--config", str(config), "--http", str(port), "--profile", "everything"]
        process = subprocess.Popen(
            [str(toolscout), *args, "--wait", "60"], env={**os.environ, "TOOLSCOUT_HOME": folder}
        )
        try:
            wait(f"http://127.0.0.1:{port}/health")
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()
            process.wait()


def wait(url: str) -> None:
    for _ in range(300):
        try:
            with urlopen(url) as answer:
                if json.load(answer)["ready"]:
                    return
        except (URLError, ConnectionError):
            pass
        time.sleep(0.2)
    raise TimeoutError("The gateway did not start.")


def outcomes(folder: Path, url: str, *options: str) -> list[Outcome]:
    binary = folder / "node_modules" / ".bin" / "node"
    suite = folder / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    run = subprocess.run(
        [str(binary), str(suite), "server", "--url", url, *options],
        capture_output=True,
        text=True,
        check=False,
    )
    unscored = {m["name"]: m["why"] for m in map(UNSCORED.match, run.stdout.splitlines()) if m}
    found = [
        Outcome(m["name"], int(m["passed"]), int(m["failed"]), unscored.get(m["name"], ""))
        for m in map(LINE.match, run.stdout.splitlines())
        if m
    ]
    if not found:
        raise RuntimeError(run.stdout + run.stderr)
    return found


def table(title: str, rows: list[Outcome]) -> str:
    scored = [r for r in rows if not r.why_unscored]
    passing = sum(r.says == "pass" for r in scored)
    lines = [f"## {title}", "", f"{passing} of {len(scored)} scored scenarios pass.", ""]
    lines += ["| scenario | checks | result | |", "|---|---|---|---|"]
    for r in rows:
        note = " · ".join(
            filter(None, (r.why_unscored and f"not scored: {r.why_unscored}", r.reason))
        )
        lines.append(f"| `{r.scenario}` | {r.passed + r.failed} | {r.says} | {note} |")
    return "\n".join(lines)


PAGE = """# Conformance

The results of the official suite (npm `@modelcontextprotocol/conformance`) against the gateway. The
gateway uses the surface that shows everything, in front of one server that offers everything the
scenarios need. A pass shows that the gateway passes it on unchanged. `make conformance` writes this
page.

"""


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--write", type=Path)
    write: Path | None = reader.parse_args().write
    if why := node.missing():
        sys.stderr.write(f"Cannot run: {why}.\n")
        return 2
    with serving("handshake") as url:
        suite = node.installed("conformance", node.SUITE)
        handshake = outcomes(suite, url, "--suite", "all")
    with serving("auto") as url:
        suite = node.installed("conformance-stateless", node.STATELESS_SUITE)
        stateless = outcomes(suite, url, "--requirements", "2026-07-28")
    page = PAGE + "\n\n".join(
        (
            table("Handshake versions, suite 0.1.16", handshake),
            table("Stateless 2026-07-28, suite 0.2.0-alpha.12", stateless),
        )
    )
    sys.stdout.write(page + "\n")
    if write is not None:
        write.write_text(page + "\n", encoding="utf-8")
    return int(any(r.failed and not r.why_unscored for r in (*handshake, *stateless)))


if __name__ == "__main__":
    sys.exit(main())
