"""An overlay: its format, its errors and its limits."""

from __future__ import annotations

import pytest

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.overlay_parser import ALIASES_CAP, parse_overlay
from toolscout.catalog.sanitization import LINE_CAP, NAME_CAP, PHRASES_CAP
from toolscout.catalog.tool import Tool
from toolscout.errors import ConfigError


def test_texts_are_cleaned_and_capped_like_those_of_a_server() -> None:
    long = "x" * (LINE_CAP + 1)
    text = f'[a.b]\nphrases = ["two\\n\\u200bwords", "two words", "{long}"]\naliases = ["{long}"]\n'
    entry = parse_overlay(text, file="o.toml").entries["a", "b"]
    assert entry.phrases[0] == "two words"
    assert [len(phrase) for phrase in entry.phrases[1:]] == [LINE_CAP]
    assert len(entry.aliases[0]) == NAME_CAP


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[a.b]\nphrases = [\n", "The last table is in line 1.", "never closed"),
        ("[a.b]\nphrases = no\n", "at line 2", "Fix that line."),
        ("[a.b]\n\nphrases = 'x'\n", "line 3: phrases of a.b is not a list", "phrases = ["),
        ("[a.b]\naliases = [1]\n", "line 2: aliases of a.b is not a list", "phrases = ["),
        ("[a.b]\nphrases = ['x', ' \\u200b']\n".replace("'", '"'), "line 2: a.b has an empty", ""),
        ("[a.b]\nphrase = ['x']\n", "line 2: a.b has no 'phrase'.", "Did you mean phrases?"),
        ("# one\na = 1\n", "line 2: a is not a table.", "Write [server.tool]"),
        ("[a]\nb = ['x']\n", "a.b is not a table.", "Write [server.tool]"),
        (f"[a.b]\nphrases = {['x'] * 60}\n", "line 2: a.b has 60 phrases; at most 50", "Keep"),
        (f"[a.b]\naliases = {['x'] * 21}\n", "line 2: a.b has 21 aliases; at most 20", "Keep"),
        ("a = " + "[" * 5000, "not TOML", ""),
    ],
)
def test_a_mistake_is_reported_with_its_line_and_what_to_do(
    text: str, message: str, hint: str
) -> None:
    assert (PHRASES_CAP, ALIASES_CAP) == (50, 20)
    with pytest.raises(ConfigError) as caught:
        parse_overlay(text, file="o.toml")
    assert caught.value.message.startswith("o.toml")
    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ('{"tool": "b"}\n{"tool": "c"', "line 2: not JSON", "Fix that line."),
        ("[" * 50_000, "line 1: not JSON", "Fix that line."),
        ("\n\n[1]\n", "line 3: the row is not a table.", 'Write {"server"'),
        ('{"server": "a"}', "line 1: tool and server are the names", 'Write {"server"'),
        ('{"server": 1, "tool": "b"}', "line 1: tool and server are the names", "Write"),
        ('{"tool": "b"}\n\n{"server": "custom", "tool": "b"}', "already in line 1.", "one row"),
        ('{"tool": "b", "phrases": "x"}', "phrases of custom.b is not a list", "Write {"),
        ('{"tool": "b", "aliases": [1]}', "aliases of custom.b is not a list", "Write {"),
        ('{"tool": "b", "phrases": [" "]}', "custom.b has an empty text in phrases", "Remove"),
        ('{"tool": "b", "phrase": ["x"]}', "custom.b has no 'phrase'.", "Did you mean phrases?"),
        (f'{{"tool": "b", "aliases": {["x"] * 21}}}'.replace("'", '"'), "21 aliases", "Keep"),
    ],
)
def test_a_mistake_in_json_lines_is_reported_with_its_line(
    text: str, message: str, hint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_overlay(text, file="o.jsonl")
    assert caught.value.message.startswith("o.jsonl, line")
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_json_lines_have_the_same_entries_as_toml() -> None:
    rows = '{"server": "a", "tool": "b", "phrases": ["x"]}\r\n\n'
    rows += '{"tool": "c.d", "aliases": ["\u2028y"]}'
    toml = '[a.b]\nphrases = ["x"]\n\n[custom."c.d"]\naliases = ["y"]\n'
    overlay = parse_overlay(rows, file="o.JSONL")
    assert overlay.entries == parse_overlay(toml, file="o.toml").entries
    assert [entry.line for entry in overlay.entries.values()] == [1, 3]


def test_the_line_of_an_entry_is_that_of_its_own_table() -> None:
    text = '[a.b]\nphrases = ["x"]\n\n["a"."c.d"] # quoted\nphrases = ["y"]\n'
    overlay = parse_overlay(text, file="o.toml")
    catalog = Catalog([Tool(name="a__b", server="a")])
    (problem,) = overlay.find_problems(catalog)
    assert problem.where == "line 4, a.c.d"


def test_a_catalog_without_an_entry_stays_the_same_snapshot() -> None:
    catalog = Catalog([Tool(name="a__b", server="a", phrases=("x",))])
    overlay = parse_overlay('[a.b]\nphrases = ["x"]\n', file="o.toml")
    assert catalog.with_changed_tools(overlay.apply) is catalog


def test_the_fingerprint_of_a_tool_is_that_of_versions_without_overlays() -> None:
    tool = Tool(name="look", phrases=("x",))
    assert tool.fingerprint == "489e288a8763a414eb1838f6fdbf874e", "approvals on disk have it"
    assert tool.with_overlay(phrases=("y",), aliases=("z",)).fingerprint == tool.fingerprint


def test_many_problems_are_counted_rather_than_listed() -> None:
    text = "".join(f'[gone.tool_{n}]\nphrases = ["x"]\n' for n in range(15))
    problems = parse_overlay(text, file="o.toml").find_problems(Catalog())
    assert len(problems) == 11
    assert str(problems[-1]).startswith("overlay: 5 more entries like these.")
