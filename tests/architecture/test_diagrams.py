"""Diagrams are drawn by a script, and the site needs nothing from the internet."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from scripts.diagrams import DIAGRAMS, FIGURES

PROJECT = Path(__file__).parents[2]
# What a browser fetches by itself, unlike the target of a link.
FETCHED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*(?:src|href)=[\"']?(?:https?:)?//[^>]*>")


@pytest.mark.parametrize("name", DIAGRAMS)
def test_a_diagram_is_the_output_of_its_script(name: str):
    text = (FIGURES / name).read_text(encoding="utf-8")
    assert text == DIAGRAMS[name]().render(), "run `make docs`"
    assert ET.fromstring(text).tag.endswith("svg")


@pytest.mark.slow
def test_the_site_loads_nothing_from_other_hosts(tmp_path: Path):
    site = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(site)],
        cwd=PROJECT, capture_output=True, text=True, check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3_000:]
    pages = [*site.rglob("*.html")]
    assert len(pages) > 30
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert FETCHED.findall(text) == [], page.name
        # The theme fetches a script from a CDN for every element of this class.
        assert 'class="mermaid"' not in text, page.name
