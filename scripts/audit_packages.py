"""Look up every pinned package in a database of known vulnerabilities: `make audit`.

Exit code 0: all were looked up, nothing is known. 1: there are vulnerabilities. 3: it could not be
done, or not for all packages: that says nothing about their safety.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import dist

PROJECT = Path(__file__).resolve().parents[1]
FILES = (PROJECT / "requirements-hashes.txt",)
EXIT_FOUND, EXIT_NOT_RUN = 1, 3
TIMEOUT_SECONDS = 600


def look_up(file: Path) -> list[dict[str, Any]] | str:
    """What the database says of each package; a text says why it could not be asked."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [dist.find_tool("pip-audit"), "--requirement", str(file), "--disable-pip"]
        command += ["--require-hashes", "--format", "json", "--output", str(answer)]
        command += ["--progress-spinner", "off", *sys.argv[1:]]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=False,
                timeout=TIMEOUT_SECONDS,
                env={**os.environ, "PIP_NO_INPUT": "1"},
            )
        except subprocess.TimeoutExpired:
            return f"no answer within {TIMEOUT_SECONDS} seconds"
        try:
            return json.loads(answer.read_text(encoding="utf-8"))["dependencies"]
        except (OSError, ValueError, KeyError):
            lines = done.stderr.strip().splitlines() or ["pip-audit wrote no answer"]
            return lines[-1][:300]


def judge(found: list[dict[str, Any]] | str) -> int:
    """Print what was found; the exit code."""
    if isinstance(found, str):
        print(f"could not run: {found}")
        return EXIT_NOT_RUN
    # pip-audit succeeds even if it could look up nothing.
    skipped = [each for each in found if "skip_reason" in each]
    bad = [each for each in found if each.get("vulns")]
    for each in bad:
        for known in each["vulns"]:
            fixed = ", ".join(known["fix_versions"]) or "no version yet"
            print(f"{each['name']} {each['version']}: {known['id']}, fixed in {fixed}")
    if skipped or not found:
        print(
            f"could not run: {len(skipped)} of {len(found)} packages were not looked up"
            f"{': ' + skipped[0]['skip_reason'] if skipped else ''}"
        )
        return EXIT_FOUND if bad else EXIT_NOT_RUN
    print(f"{len(found)} packages, {len(bad)} with known vulnerabilities.")
    return EXIT_FOUND if bad else 0


def main() -> int:
    return max(judge(look_up(file)) for file in FILES)


if __name__ == "__main__":
    sys.exit(main())
