"""Every block on a page is of a kind that is checked, and what it imports is explained."""

import ast
import json
import re
import tomllib
from collections.abc import Iterator
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
TYPED = ("toolscout ", "pip install", "make ", "printf ", "python ", "cd ", "export ",
         "claude mcp ", "codex mcp ", "npx @modelcontextprotocol/")  # fmt: skip
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


def used() -> set[str]:
    """Whatever the examples import, by its full name; constants are shown where they are used."""
    found = {f"toolscout.{name}" for name in toolscout.__all__}
    for page in PAGES:
        for block in FENCE.finditer(page.read_text(encoding="utf-8")):
            if block["kind"] == "python":
                found |= {*imported(block["body"])}
    return {name for name in found if not name.rpartition(".")[2].isupper()}


def imported(code: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("toolscout."):
                yield from (f"{module}.{alias.name}" for alias in names)
            case _:
                pass


def test_whatever_is_public_or_shown_in_an_example_has_an_entry_in_the_reference():
    page = (DOCS / "reference" / "library.md").read_text(encoding="utf-8")
    entries = {target: re.findall(r"\w+", members) for target, members in ENTRY.findall(page)}

    def is_explained(name: str) -> bool:
        home, _, last = name.rpartition(".")
        if home == "toolscout":
            home = getattr(toolscout, last).__module__
        members = entries.get(home)
        return f"{home}.{last}" in entries or (members is not None and last in (members or [last]))

    assert [name for name in sorted(used()) if not is_explained(name)] == []
