"""Every example in the documentation runs as it stands."""

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples() -> list[object]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(pytest.param(page, line, match[1], id=f"{page.name}:{line}"))
    return found


@pytest.mark.parametrize(("page", "line", "code"), examples())
def test_an_example_runs(page: Path, line: int, code: str, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    padded = "\n" * line + code  # so that a failure names the line of the page
    exec(compile(padded, str(page), "exec"), {"__name__": "__main__"})
