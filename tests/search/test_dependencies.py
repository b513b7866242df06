"""Every dependency has its reason on the page that gives them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def test_every_dependency_has_a_row_and_every_row_a_dependency() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [("", each) for each in project["dependencies"]]
    wanted += [(extra, each) for extra, list_ in extras.items() for each in list_ if extra != "all"]
    named = {(extra, re.split(r"[<>=!\[ ]", each)[0]) for extra, each in wanted}

    page = (PROJECT / "docs" / "decisions" / "dependencies.md").read_text(encoding="utf-8")
    always, _, optional = page.partition("## Extras")
    rows = {("", name) for name in re.findall(r"^\| ([\w-]+) \| [\d.]+ \|", always, re.MULTILINE)}
    for extra, names in re.findall(r"^\| `(\w+)` \| ([\w, -]+) \|", optional, re.MULTILINE):
        rows |= {(extra, name.strip()) for name in names.split(",")}

    assert rows == named
