"""The peers' environments: made once, anew when a pin changes."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from .contestants import Contestant

FOLDER = Path(__file__).parents[2] / ".cache" / "peers"
_MARK = "pinned"

Say = Callable[[str], None]


def python(contestant: Contestant) -> Path:
    """The interpreter that a contestant runs under."""
    if not contestant.environment:
        return Path(sys.executable)
    return FOLDER / contestant.environment / "bin" / "python"


def install(contestants: Iterable[Contestant], *, say: Say) -> dict[str, str]:
    """Make the environments that are missing; what could not be made, with the reason."""
    failed: dict[str, str] = {}
    for name, requirements in {c.environment: c.requirements for c in contestants}.items():
        if not name or _is_current(name, requirements):
            continue
        say(f"installing {name}")
        if reason := _make(name, requirements):
            failed[name] = reason
    return failed


def _is_current(name: str, requirements: Path) -> bool:
    mark = FOLDER / name / _MARK
    return mark.is_file() and mark.read_text(encoding="utf-8") == _digest(requirements)


def _digest(requirements: Path) -> str:
    return hashlib.blake2b(requirements.read_bytes(), digest_size=16).hexdigest()


def _make(name: str, requirements: Path) -> str:
    """Why it could not be made; nothing if it was."""
    place = FOLDER / name
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    steps = (
        [sys.executable, "-m", "venv", "--clear", str(place)],
        [*pip, "--disable-pip-version-check", "--requirement", str(requirements)],
    )
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            return (lines or ["it ended without a word"])[0].removeprefix("ERROR: ")[:300]
    (place / _MARK).write_text(_digest(requirements), encoding="utf-8")
    return ""
