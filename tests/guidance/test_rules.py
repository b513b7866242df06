"""Rules of use: what comes with tools, when, and what happens when a file breaks."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from toolscout.catalog.tool import Tool
from toolscout.errors import ConfigError
from toolscout.events import Event
from toolscout.guidance.rulebook import RuleKey
from toolscout.guidance.rules import Rules
from toolscout.toolbox.toolbox import Toolbox

FIND_IMAGE = Tool(name="find_image", category="images", server="cms")
ADD_IMAGE = Tool(name="add_image", category="images", server="cms")
GET_PAGE = Tool(name="get_page", category="pages", server="cms")
PING = Tool(name="ping")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "images.md").write_text("\n**Images:** look before you load.\n\n")
    (tmp_path / "pages.md").write_text("**Pages:** one home only.")
    (tmp_path / "empty.md").write_text("  \n")
    (tmp_path / "notes.txt").write_text("not a rule")
    return tmp_path


@pytest.mark.behaviour("E54", "E57")
def test_every_markdown_file_is_the_rule_of_the_category_it_is_named_for(folder: Path):
    rules = Rules(folder)
    assert {str(k): t for k, t in rules.book.texts.items()} == {
        "category:images": "**Images:** look before you load.",
        "category:pages": "**Pages:** one home only.",
    }
    assert rules.health() == ("ok", {"rules": 2, "problems": []})


@pytest.mark.behaviour("E57")
def test_a_missing_folder_is_reported_at_once(tmp_path: Path):
    with pytest.raises(ConfigError, match="no folder of rules"):
        Rules(tmp_path / "nowhere")


@pytest.mark.behaviour("E58", "E59", "E61")
def test_tools_bring_the_rules_of_their_categories_each_once_in_first_seen_order(folder: Path):
    rules = Rules(folder)
    text = rules.text_for([GET_PAGE, FIND_IMAGE, ADD_IMAGE, GET_PAGE])
    assert text == "**Pages:** one home only.\n\n**Images:** look before you load."
    assert rules.text_for([PING, Tool(name="x", category="unknown")]) == ""
    assert rules.text_for([]) == ""


def test_rules_may_be_for_a_server_or_a_single_tool(folder: Path):
    (folder / "servers").mkdir()
    (folder / "servers" / "cms.md").write_text("The CMS is live.")
    (folder / "tools").mkdir()
    (folder / "tools" / "add-image.md").write_text("Name the field first.")
    rules = Rules(folder)
    assert rules.text_for([ADD_IMAGE, GET_PAGE]).split("\n\n") == [
        "The CMS is live.",
        "**Images:** look before you load.",
        "Name the field first.",
        "**Pages:** one home only.",
    ]


def test_rules_can_be_given_without_files_and_match_whatever_the_case_style():
    rules = Rules(
        categories={"Browser Automation": "Close it."},
        servers={"git": "Pull first."},
        tools={"sendEmail": "Ask first."},
    )
    tool = Tool(name="git__send_email", server="git", category="browser_automation")
    assert rules.text_for([tool]) == "Pull first.\n\nClose it.\n\nAsk first."


@pytest.mark.behaviour("E53", "E61")
def test_a_conversation_gets_each_rule_once_and_again_when_it_changed(folder: Path):
    rules = Rules(folder)
    first, section = rules.deliver(None, [FIND_IMAGE])
    assert first == "**Images:** look before you load."
    again, section = rules.deliver(section, [ADD_IMAGE])
    assert again == ""
    more, section = rules.deliver(section, [ADD_IMAGE, GET_PAGE])
    assert more == "**Pages:** one home only."
    (folder / "images.md").write_text("**Images:** new words.")
    assert rules.reload() == ("category:images",)
    changed, section = rules.deliver(section, [FIND_IMAGE, GET_PAGE])
    assert changed == "**Images:** new words."
    assert rules.deliver(section, [FIND_IMAGE, GET_PAGE]) == ("", section)
    other, _ = rules.deliver(None, [FIND_IMAGE])
    assert other == "**Images:** new words."


@pytest.mark.parametrize(
    "section", ["", "{", "[]", '{"given": 5}', '{"given": {"category:images": 7}}']
)
def test_a_section_that_cannot_be_read_means_that_rules_come_once_more(folder: Path, section: str):
    text, after = Rules(folder).deliver(section, [FIND_IMAGE])
    assert text == "**Images:** look before you load."
    assert Rules(folder).deliver(after, [FIND_IMAGE]) == ("", after)


@pytest.mark.parametrize(
    ("content", "word"),
    [(b"\xff\xfe broken", "UTF-8"), (b"a\0b", "not text"), (b"x" * 10_000_000, "10,000,000 bytes")],
)
def test_a_file_that_breaks_keeps_its_last_good_text_and_is_reported(
    folder: Path, content: bytes, word: str
):
    events: list[Event] = []
    rules = Rules(folder, sink=events.append)
    (folder / "images.md").write_bytes(content)
    (folder / "posts.md").write_bytes(content)
    rules.reload()
    rules.reload()
    assert rules.text_for([FIND_IMAGE]) == "**Images:** look before you load."
    assert rules.text_for([Tool(name="t", category="posts")]) == ""
    assert [p.where for p in rules.problems] == ["images.md", "posts.md"]
    assert all(word in str(p) for p in rules.problems)
    assert [e.kind for e in events].count("rules_failed") == 2
    status, facts = rules.health()
    assert status == "degraded"
    assert len(facts["problems"]) == 2
    (folder / "images.md").write_text("Mended.")
    (folder / "posts.md").unlink()
    rules.reload()
    assert rules.text_for([FIND_IMAGE]) == "Mended."
    assert rules.health()[0] == "ok"


def test_a_fifo_a_folder_and_a_dangling_link_do_not_hang_or_hide_the_rest(folder: Path):
    os.mkfifo(folder / "pipe.md")
    (folder / "dir.md").mkdir()
    (folder / "gone.md").symlink_to(folder / "nowhere.md")
    rules = Rules(folder)
    assert [p.where for p in rules.problems] == ["dir.md", "gone.md", "pipe.md"]
    assert rules.text_for([GET_PAGE]) == "**Pages:** one home only."


def test_a_rule_that_is_removed_is_gone_and_a_folder_that_is_removed_leaves_the_last_rules(
    folder: Path,
):
    rules = Rules(folder)
    (folder / "pages.md").unlink()
    assert rules.reload() == ("category:pages",)
    assert rules.text_for([GET_PAGE]) == ""
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    rules.reload()
    assert rules.text_for([FIND_IMAGE]) == "**Images:** look before you load."
    assert rules.health()[0] == "degraded"


@pytest.mark.behaviour("E60")
async def test_a_change_in_the_folder_is_read_while_it_is_watched(folder: Path):
    events: asyncio.Queue[Event] = asyncio.Queue()
    rules = Rules(folder, sink=events.put_nowait)
    while not events.empty():
        events.get_nowait()
    async with rules.watch(), asyncio.timeout(30):
        (folder / "images.md").write_text("Watched.")
        event = await events.get()
        assert event.kind == "rules_changed"
        assert rules.text_for([FIND_IMAGE]) == "Watched."
        (folder / "images.md").write_bytes(b"\xff")
        event = await events.get()
        assert event.kind == "rules_failed"
        assert rules.text_for([FIND_IMAGE]) == "Watched."
        (folder / "servers").mkdir()
        (folder / "servers" / "cms.md").write_text("From a new folder.")
        while "From a new folder." not in rules.text_for([GET_PAGE]):
            await events.get()


async def test_changes_before_the_watch_began_count_too(folder: Path):
    rules = Rules(folder)
    (folder / "pages.md").write_text("Changed meanwhile.")
    async with rules.watch():
        assert rules.text_for([GET_PAGE]) == "Changed meanwhile."


async def test_without_a_folder_there_is_nothing_to_watch():
    with pytest.raises(ConfigError, match="no folder"):
        async with Rules(categories={"a": "b"}).watch():
            pass


class Words:
    name = "words"
    is_exact = True

    def count(self, text: str) -> int:
        return len(text.split())


@pytest.mark.behaviour("E56")
def test_the_lint_names_rules_over_budget_categories_without_and_rules_for_nothing(folder: Path):
    (folder / "posts.md").write_text("word " * 30)
    (folder / "sections.md").write_text("word " * 30)
    (folder / "servers").mkdir()
    (folder / "servers" / "ghost.md").write_text("Nobody is here.")
    tools = [
        FIND_IMAGE,
        GET_PAGE,
        Tool(name="a", category="posts"),
        Tool(name="b", category="sections"),
        Tool(name="c", category="search"),
        Tool(name="d", category="search"),
    ]
    found = Rules(folder).lint(tools, budget_tokens=20, budgets={"sections": 40}, counter=Words())
    assert [str(p) for p in found] == [
        "category:posts: has 30 tokens; its budget is 20. Shorten it.",
        "category:search: has no rules (2 tools). Write search.md, or ignore this.",
        "server:ghost: is for a server that does not exist. Fix its name, or remove it.",
    ]
    assert {p.severity for p in found} == {"warning"}


def test_the_lint_counts_with_the_real_counter_unless_another_is_given(folder: Path):
    (folder / "images.md").write_text("These are quite ordinary words. " * 100)
    (problem,) = Rules(folder).lint([FIND_IMAGE, GET_PAGE])
    assert problem.where == "category:images"


@pytest.mark.parametrize("has_watchfiles", [True, False])
async def test_watched_rules_follow_their_files_while_a_toolbox_is_open(
    folder: Path, monkeypatch: pytest.MonkeyPatch, has_watchfiles: bool
):
    if not has_watchfiles:
        monkeypatch.setitem(sys.modules, "watchfiles", None)
    changed = asyncio.Event()
    rules = Rules(folder, is_watched=True, sink=lambda event: changed.set())
    changed.clear()
    async with Toolbox(rules=rules, store="memory"), asyncio.timeout(30):
        (folder / "mail.md").write_text("Ask first.")
        await changed.wait()
    assert rules.book.texts[RuleKey("category", "mail")] == "Ask first."


def test_single_files_are_rules_for_what_their_folder_and_name_say(tmp_path: Path):
    for name in ("mail.md", "servers/github.md", "tools/send.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    rules = Rules(*(tmp_path / name for name in ("mail.md", "servers/github.md", "tools/send.md")))
    assert [str(key) for key in rules.book.texts] == ["category:mail", "server:github", "tool:send"]
    (tmp_path / "mail.md").unlink()
    rules.reload()
    assert "category:mail" in map(str, rules.book.texts)
    assert "last good text stays" in str(rules.problems[0])
    with pytest.raises(ConfigError, match="another folder or Markdown file"):
        Rules(tmp_path / "none.md")
