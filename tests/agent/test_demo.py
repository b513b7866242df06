"""The three conversations of the example site: what they do, and what they cost."""

from __future__ import annotations

import json
import sys
from datetime import date
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from cms.cms import RULES, WORKFLOWS, open_cms
from cms.conversations import CONVERSATIONS, Conversation
from cms.demo import play
from cms.prompt import core_prompt, full_prompt
from toolscout.agent.steps import Run
from toolscout.agent.stream_events import RunEndEvent, StreamEvent
from toolscout.cli.app import run as run_command
from toolscout.disclosure.profiles import get_profile
from toolscout.disclosure.session_state import SessionState
from toolscout.disclosure.view import view
from toolscout.guidance.rules import Rules
from toolscout.tokens import get_counter

TODAY = date(2026, 3, 2)
EXACT = get_counter("o200k_base")


def events() -> tuple[dict[str, Run], object]:
    """The runs of the conversations by their kind, and who listens for them."""
    runs: dict[str, Run] = {}

    def watch(conversation: Conversation, event: StreamEvent | None) -> None:
        if isinstance(event, RunEndEvent):
            runs[conversation.kind] = event.run

    return runs, watch


@pytest.mark.behaviour("E2", "E3", "E116", "E117", "E119", "E129", "E136")
async def test_the_three_conversations_do_what_was_asked_at_a_counted_cost(tmp_path: Path) -> None:
    """Words alone find the tools here: there are no vectors in this engine."""
    runs, watch = events()
    simple, one, several = await play(tmp_path, by=EXACT, on_event=watch)  # type: ignore[arg-type]

    assert (runs["A"].searches, len(runs["A"].steps), runs["A"].tools_used) == (0, 1, ())
    assert runs["B"].searches == 1
    assert "cms_searchImages" in runs["B"].tools_loaded
    assert runs["B"].tools_used == ("cms_searchImages",)
    assert runs["C"].searches == 5
    assert len(runs["C"].steps) == 14
    assert runs["C"].text.startswith("Done: the page Kayaking")
    assert not any(
        r.result.is_error for run in runs.values() for s in run.steps for r in s.outcomes
    )

    assert simple.requests[0].total < 500
    assert simple.last > 0.92
    assert one.last > 0.8
    assert several.last > 0.55
    assert simple.everything == one.everything == several.everything
    for account in (simple, one, several):
        assert account.overall <= account.last


@pytest.mark.behaviour("E3", "E119")
async def test_the_baseline_is_every_definition_once_and_every_workflow_once(
    tmp_path: Path,
) -> None:
    """Nothing pads it: what the model would get with everything loaded, by the same counter."""
    _, watch = events()
    account, *_ = await play(tmp_path / "played", by=EXACT, on_event=watch)  # type: ignore[arg-type]
    async with open_cms(tmp_path / "counted") as cms:
        definitions = [
            {"name": t.name, "description": t.description, "parameters": t.parameters.value}
            for t in cms.tools
        ]
    files = [path.read_text(encoding="utf-8").strip() for path in WORKFLOWS.glob("*.md")]
    assert len(files) == 6
    rules = "\n\n".join(files)
    text = json.dumps(definitions, ensure_ascii=False, separators=(",", ":"))
    expected = EXACT.count(text) + EXACT.count(core_prompt(TODAY)) + EXACT.count(rules)
    assert len(definitions) == 45
    assert account.everything == pytest.approx(expected, rel=0.02)


@pytest.mark.behaviour("E117")
async def test_after_the_long_conversation_the_site_is_as_the_user_wanted(tmp_path: Path) -> None:
    _, watch = events()
    await play(tmp_path, by=EXACT, on_event=watch)  # type: ignore[arg-type]
    async with open_cms(tmp_path) as cms:
        page = cms.database.one("SELECT * FROM pages WHERE name = 'Kayaking'")
        assert page is not None
        hero = cms.database.one("SELECT * FROM sections WHERE page_id = ?", page["id"])
        item = cms.database.one("SELECT * FROM navigation WHERE label = 'Kayaking'")
        post = cms.database.one("SELECT * FROM posts WHERE title = 'Kayaks are here'")
    assert hero is not None
    assert json.loads(hero["content"])["image"].startswith("/uploads/images/")
    assert item is not None
    assert item["page_id"] == page["id"]
    assert post is not None
    assert post["status"] == "published"


@pytest.mark.behaviour("E71", "E73")
async def test_the_core_instructions_are_short_and_have_every_section(tmp_path: Path) -> None:
    async with open_cms(tmp_path) as cms, cms.toolbox(store="memory") as box:
        shown = view(get_profile("cms"), box.catalog, SessionState("s"))
    text = f"{core_prompt(TODAY)}\n\n{shown.instructions}"
    for section in (
        *("agent", "identity", "react-pattern", "reasoning-rules", "confirmation-pattern"),
        *("content-fetching", "reference-resolution", "working-memory", "context"),
        *("core-example", "tool-discovery"),
    ):
        assert f"<{section}>" in text
        assert f"</{section}>" in text
    assert "2026-03-02" in text
    assert EXACT.count(text) <= 320


@pytest.mark.behaviour("E72")
async def test_the_instructions_of_an_agent_with_every_tool_hold_every_workflow() -> None:
    text = full_prompt(TODAY, Rules(WORKFLOWS))
    assert text.startswith(core_prompt(TODAY))
    files = [path.read_text(encoding="utf-8").strip() for path in WORKFLOWS.glob("*.md")]
    assert len(files) == 6
    assert all(text.count(workflow) == 1 for workflow in files)


@pytest.mark.behaviour("E128")
async def test_the_facts_about_a_tool_are_written_in_one_place(tmp_path: Path) -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in RULES.parent.glob("*.py"))
    async with open_cms(tmp_path) as cms, cms.toolbox(store="memory") as box:
        for tool in cms.tools:
            assert sources.count(f'name="{tool.name}"') == 1
            known = box.catalog.get(tool.name)
            assert known is not None
            assert (known.phrases, known.risk) == (tool.phrases, tool.risk)


@pytest.mark.behaviour("E3", "E119")
def test_the_demo_prints_the_figures_beside_what_the_design_expects(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command(["demo", "--profile", "cms", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    figures = {row["kind"]: row for row in report["conversations"]}
    assert {kind: row["expected"] for kind, row in figures.items()} == {
        "A": 0.97,
        "B": None,
        "C": 0.91,
    }
    for row in figures.values():
        assert row["saved"] == round(1 - row["last"] / row["everything"], 4)
        assert len(row["each"]) == row["requests"]
        charged = row["everything"] * (row["requests"] - row["searches"])
        assert row["saved_over_all"] == round(1 - sum(row["each"]) / charged, 4)


def test_the_documented_figures_are_about_those_of_the_demo(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Which tools are loaded beside the right ones depends on ranking, so a little may change."""
    assert run_command(["demo", "--profile", "cms", "--json"]) == 0
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
    for row in json.loads(capsys.readouterr().out)["conversations"]:
        line = next(x for x in page.splitlines() if x.startswith(f"| {row['kind']} | "))
        cells = [cell.strip().rstrip(" %").replace(",", "") for cell in line.split("|")[2:9]]
        requests, searches, *tokens, saved, over_all = (float(cell) for cell in cells)
        assert (requests, searches) == (row["requests"], row["searches"])
        assert tokens == pytest.approx([row["first"], row["last"], row["everything"]], rel=0.1)
        shares = [row["saved"] * 100, row["saved_over_all"] * 100]
        assert [saved, over_all] == pytest.approx(shares, abs=5)


@pytest.mark.behaviour("E3", "E119")
def test_the_demo_and_the_page_show_every_line_of_the_last_request(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command(["demo", "--profile", "cms", "--json"]) == 0
    conversations = json.loads(capsys.readouterr().out)["conversations"]
    columns = [*(row["lines"] for row in conversations), conversations[0]["everything_lines"]]
    assert run_command(["demo", "--profile", "cms"]) == 0
    printed = capsys.readouterr().out
    page = (Path(__file__).parents[2] / "docs" / "cms.md").read_text(encoding="utf-8")
    for name in columns[0]:
        title = name.replace("_", " ")
        line = next(x for x in page.splitlines() if x.startswith(f"| {title} | "))
        cells = [float(cell.replace(",", "")) for cell in line.split("|")[2:6]]
        assert cells == pytest.approx([column[name] for column in columns], rel=0.1, abs=10)
        assert "\t".join([title, *(str(column[name]) for column in columns)]) in printed
    for row in conversations:
        assert row["last"] == sum(row["lines"].values())


def test_the_demo_tells_the_story_step_by_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["demo", "--profile", "cms"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[0] for line in lines if line[1:3] == ": "] == ["A", "B", "C"]
    assert any(line.startswith("step 1") and "1 in view: tool_search" in line for line in lines)
    assert any("search   tool_search" in line for line in lines)
    assert any(line.startswith("C\t14\t5\t") for line in lines)
    assert len(CONVERSATIONS) == 3
