"""Every block on a page is of a kind that is checked; every public name is explained."""

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

import toolscout

PROJECT = Path(__file__).parents[2]
DOCS = PROJECT / "docs"
PAGES = [*sorted(PROJECT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(r"^(?P<indent> *)```(?P<kind>[^\n`]*)\n(?P<body>.*?)^ *```$", re.M | re.S)
ENTRY = re.compile(r"^::: ([\w.]+)\n(?:    options:\n      members: \[([^]]*)\])?", re.M)
# What a reader may type at the prompt, besides the commands of Toolscout itself.
TYPED = ("toolscout", "pip install", "make ", "printf", "python ", "cd ", "export ")
# Run, parsed as commands, read as data, or only looked at.
KINDS = {"python", "console", "json", "yaml", "toml", "text", "mermaid", ""}


def blocks() -> list[object]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            name = f"{page.relative_to(PROJECT).as_posix()}:{line}"
            found.append(pytest.param(match, id=name))
    return found


@pytest.mark.parametrize("block", blocks())
def test_a_block_is_of_a_kind_that_is_checked_and_is_what_it_says(block: re.Match[str]):
    assert block["kind"] in KINDS
    body = block["body"]
    match block["kind"]:
        case "python":
            assert not block["indent"], "a block inside a list would not be run"
        case "json":  # one value, or one after another
            rest = body
            while rest := rest.strip():
                rest = rest[json.JSONDecoder().raw_decode(rest)[1] :]
        case "toml":
            tomllib.loads(body)
        case "yaml":
            assert [*yaml.safe_load_all(body)]
        case "console":
            typed = [line[2:] for line in body.splitlines() if line.startswith("$ ")]
            assert typed
            assert [line for line in typed if not line.startswith(TYPED)] == []
        case _:
            assert "$ toolscout" not in body
            assert "import toolscout" not in body


def test_every_public_name_has_an_entry_in_the_reference():
    page = (DOCS / "reference" / "library.md").read_text(encoding="utf-8")
    entries = {target: re.findall(r"\w+", members) for target, members in ENTRY.findall(page)}

    def is_explained(thing: type) -> bool:
        home, name = thing.__module__, thing.__name__
        of_home = entries.get(home)
        return f"{home}.{name}" in entries or (of_home is not None and name in (of_home or [name]))

    public = [getattr(toolscout, name) for name in toolscout.__all__]
    assert [thing.__name__ for thing in public if not is_explained(thing)] == []
