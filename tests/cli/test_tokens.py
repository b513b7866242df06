"""What tools cost, and a word where a profile costs more than it saves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Shell


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    path = tmp_path / "tools.jsonl"
    rows = [
        {"name": f"tool_{n}", "server": "office", "description": f"Does thing {n} at length. " * 9}
        for n in range(40)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.mark.behaviour("A28")
def test_a_profile_that_costs_more_than_everything_is_explained(shell: Shell, catalog: Path):
    report = json.loads(shell("tokens", "--catalog", str(catalog), "--json").out)
    everything, rows = report["everything"], report["profiles"]
    assert rows["solaris"]["start"] > everything
    assert {n for n, row in rows.items() if "note" in row} == {
        n for n, row in rows.items() if row["start"] > everything
    }
    printed = shell("tokens", "--catalog", str(catalog), "--profile", "solaris").out
    words = " ".join(printed.split())
    assert "solaris costs more than everything loaded. Every tool stays in the list" in words
    assert rows["solaris"]["note"] in words


@pytest.mark.behaviour("A28")
def test_the_note_counts_the_prompt_beside_one_that_describes_every_tool(
    shell: Shell, catalog: Path
):
    out = shell("tokens", "--catalog", str(catalog), "--profile", "solaris", "--json").out
    note = json.loads(out)["profiles"]["solaris"]["note"]
    figures = [int(w.replace(",", "")) for w in note.split() if w[0].isdigit()]
    assert figures[0] < figures[1] / 3


def test_a_catalog_too_small_for_a_search_is_explained_too(shell: Shell, tmp_path: Path):
    path = tmp_path / "tools.jsonl"
    path.write_text('{"name": "ping", "description": "Ping."}')
    report = json.loads(shell("tokens", "--catalog", str(path), "--profile", "cms", "--json").out)
    assert "too small" in report["profiles"]["cms"]["note"]


def test_a_profile_that_keeps_every_tool_in_the_list_is_not_blamed_on_a_small_catalog(
    shell: Shell, tmp_path: Path
):
    path = tmp_path / "tools.jsonl"
    tools = [{"name": f"tool_{n}", "description": f"Does thing {n}."} for n in range(60)]
    path.write_text("\n".join(map(json.dumps, tools)))
    rows = json.loads(shell("tokens", "--catalog", str(path), "--json").out)["profiles"]
    assert rows["everruns"]["note"].startswith("Every tool stays in the list")
    assert "it saves nothing" in rows["solaris"]["note"]
