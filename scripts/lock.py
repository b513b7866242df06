"""Pin every package with the hashes of all its files: `make lock`.

`requirements.txt` has the versions; it is also used as constraints, which may have no hashes.
`requirements-hashes.txt` has the same versions, those that only other systems need, and the SHA-256
of every file of each: wheels of all systems and the source. `make setup` installs from that one.

With `--hashes` only the second file is written again, for example after an edit of the first.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import dist

PROJECT = Path(__file__).resolve().parents[1]
PINS = PROJECT / "requirements.txt"
HASHES = PROJECT / "requirements-hashes.txt"
# The version of Debian 12; all packages of the tests and the documentation support it.
PYTHON = "3.11.2"
HEAD = "# Written by `make lock`; do not edit. Hashes of every file, for every system.\n"


def freeze() -> str:
    """The versions that are installed here."""
    pip = [sys.executable, "-m", "pip", "freeze", "--exclude-editable", "--exclude", "toolscout"]
    return subprocess.run(pip, capture_output=True, text=True, check=True).stdout


def hash_pins(pins: Path) -> str:
    """The pins with their hashes, and packages that only other systems need."""
    command = [dist.find_tool("uv"), "pip", "compile", "--universal", "--generate-hashes"]
    command += ["--no-header", "--no-annotate", "--quiet", "--python-version", PYTHON, str(pins)]
    return HEAD + dist.run([*command, "--no-emit-index-url", "--no-emit-find-links"])


def main(arguments: list[str]) -> None:
    if "--hashes" not in arguments:
        PINS.write_text(freeze(), encoding="utf-8")
    HASHES.write_text(hash_pins(PINS), encoding="utf-8")
    text = HASHES.read_text(encoding="utf-8")
    packages = sum("==" in line and not line.startswith(" ") for line in text.splitlines())
    hashes = text.count("--hash=sha256:")
    needs = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    print(f"{packages} packages, {hashes:,} hashes, for Python {needs['requires-python']}.")


if __name__ == "__main__":
    main(sys.argv[1:])
