"""Skills: found, read, and never a way out of their folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscout.catalog.result import Result
from toolscout.catalog.tool import Tool
from toolscout.disclosure.feature import DetachedSession
from toolscout.embedders.universal_encoder import UniversalEncoder
from toolscout.guidance.skills import Skills
from toolscout.guidance.text_files import UnsafePathError, resolve_inside
from toolscout.search.engine import Engine

PRESENTATION = """---
name: Presentation
description: Build slide decks that people can follow.
triggers: [slides, Keynote, browseWeb]
allowed-tools: render_deck Bash(git add:*)
---
# Presentation

Start with one sentence a slide.
"""

BROWSER = """---
name: Agent Browser
description: Drive a browser by its accessibility tree.
---
Body.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    deck = tmp_path / "presentation"
    (deck / "references").mkdir(parents=True)
    (deck / "SKILL.md").write_text(PRESENTATION)
    (deck / "references" / "colours.md").write_text("Two colours are enough.")
    (deck / "logo.png").write_bytes(b"\x89PNG\0\0")
    (tmp_path / "agent-browser.md").write_text(BROWSER)
    (tmp_path / "plain-notes.md").write_text("# Plain\n\nHow to take notes in meetings.\n\nMore.")
    (tmp_path / "README.md").write_text("About this folder.")
    return tmp_path


async def ask(skills: Skills, name: str, **arguments: Any) -> Result:
    return await skills.call(DetachedSession("ann"), Tool(name=name), arguments)


@pytest.mark.behaviour("A31")
async def test_a_skill_is_read_by_its_id(folder: Path):
    skills = Skills(folder)
    reply = await ask(skills, "read_skill", skillId="agent-browser")
    assert reply.value == {"skillId": "agent-browser", "name": "Agent Browser", "content": "Body."}
    assert not reply.is_error
    assert (await ask(skills, "readSkill", skillId="Agent Browser")).value == reply.value


@pytest.mark.behaviour("A31")
@pytest.mark.parametrize(
    "asked",
    [
        "nope",
        "",
        "../x",
        "../agent-browser",
        "/etc/passwd",
        "presentation/../agent-browser",
        "agent-browser.md",
    ],
)
async def test_an_unknown_id_is_an_error_that_names_it_and_all_there_are(folder: Path, asked: str):
    reply = await ask(Skills(folder), "read_skill", skillId=asked)
    assert reply.is_error
    assert [*reply.value] == ["error"]
    assert asked in reply.value["error"]
    for known in ("agent-browser", "plain-notes", "presentation"):
        assert known in reply.value["error"]


@pytest.mark.behaviour("A31")
async def test_a_skill_whose_file_is_gone_or_broken_is_an_error(folder: Path):
    skills = Skills(folder)
    (folder / "agent-browser.md").unlink()
    (folder / "plain-notes.md").write_bytes(b"\xff\xfe")
    for asked in ("agent-browser", "plain-notes"):
        reply = await ask(skills, "read_skill", skillId=asked)
        assert reply.is_error
        assert asked in reply.value["error"]


@pytest.mark.behaviour("A32")
@pytest.mark.parametrize("matching", ["ranked", "literal"])
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("please make slides", "presentation"),  # the query contains a trigger
        ("KEYNO", "presentation"),  # a trigger contains the query, whatever the case
        ("browseweb", "presentation"),  # a trigger with capitals
        ("slide decks", "presentation"),  # in the description
        ("agent brow", "agent-browser"),  # in the name
    ],
)
async def test_a_skill_is_found_by_its_words_and_triggers(
    folder: Path, matching: Any, query: str, found: str
):
    reply = await ask(Skills(folder, matching=matching), "search_skills", query=query)
    assert [*reply.value] == ["query", "results"]
    assert reply.value["query"] == query
    assert reply.value["results"][0]["id"] == found
    assert [*reply.value["results"][0]] == ["id", "name", "description"]


@pytest.mark.behaviour("A32")
async def test_when_nothing_matches_all_skills_are_named(folder: Path):
    reply = await ask(Skills(folder), "search_skills", query="zebra crossings")
    assert not reply.is_error
    assert [*reply.value] == ["query", "results", "allSkills", "message"]
    assert reply.value["results"] == []
    assert reply.value["allSkills"] == [
        {"id": "agent-browser", "name": "Agent Browser"},
        {"id": "plain-notes", "name": "plain-notes"},
        {"id": "presentation", "name": "Presentation"},
    ]


@pytest.mark.behaviour("A32")
async def test_description_and_name_do_not_match_the_other_way_round(folder: Path):
    skills = Skills(folder, matching="literal")
    reply = await ask(skills, "search_skills", query="an agent browser for my grandmother")
    assert reply.value["results"] == []
    everything = await ask(skills, "search_skills", query="")
    assert len(everything.value["results"]) == 3


async def test_the_engine_finds_what_no_substring_would(folder: Path):
    query = "notes of a meeting"
    ranked = await ask(Skills(folder), "search_skills", query=query)
    literal = await ask(Skills(folder, matching="literal"), "search_skills", query=query)
    assert ranked.value["results"][0]["id"] == "plain-notes"
    assert literal.value["results"] == []


async def test_with_an_encoder_a_skill_is_found_in_another_language_and_nonsense_finds_none(
    folder: Path,
):
    engine = Engine(embedders=[UniversalEncoder()])
    skills = Skills(folder, engine=engine)
    engine.fill()
    found = await ask(skills, "search_skills", query="Folien erstellen")
    assert [r["id"] for r in found.value["results"]] == ["presentation"]
    missed = await ask(skills, "search_skills", query="zebra crossings")
    assert missed.value["results"] == []
    engine.close()


@pytest.mark.behaviour("A33")
def test_the_prompt_has_one_line_per_skill(folder: Path):
    assert Skills(folder).prompt_list().splitlines() == [
        "- **Agent Browser** (`agent-browser`): Drive a browser by its accessibility tree.",
        "- **plain-notes** (`plain-notes`): How to take notes in meetings.",
        "- **Presentation** (`presentation`): Build slide decks that people can follow.",
    ]
    assert Skills().prompt_list() == ""


async def test_skills_keep_to_a_budget_of_their_own(tmp_path: Path):
    for number in range(100):
        (tmp_path / f"skill-{number:03}.md").write_text(f"How to do the thing number {number}.")
    skills = Skills(tmp_path, budget_tokens=200, matching="literal")
    lines = skills.prompt_list().splitlines()
    assert 5 < len(lines) < 20
    assert f"{100 - len(lines) + 1} more" in lines[-1]
    found = await ask(skills, "search_skills", query="thing")
    assert 3 < len(found.value["results"]) < 20
    missed = await ask(skills, "search_skills", query="zebra")
    assert 5 < len(missed.value["allSkills"]) < 40
    tiny = Skills(tmp_path, budget_tokens=1)
    assert len(tiny.prompt_list().splitlines()) == 2


@pytest.mark.behaviour("A31", "A32")
def test_the_tools_are_core_tools_in_either_spelling(folder: Path):
    skills = Skills(folder)
    search, read = skills.tools()
    assert (search.name, read.name) == ("search_skills", "read_skill")
    assert search.parameters.value["required"] == ["query"]
    assert read.parameters.value["required"] == ["skillId"]
    assert {search.defer, read.defer} == {"never"}
    assert [t.name for t in skills.alias_tools()] == ["searchSkills", "readSkill"]
    camel = Skills(folder, style="camel")
    assert [t.name for t in camel.tools()] == ["searchSkills", "readSkill"]
    assert Skills().tools() == Skills().alias_tools() == ()


async def test_a_skill_names_its_tools_and_files_and_tools_point_to_it(folder: Path):
    skills = Skills(folder)
    problems = skills.update_tools(
        [
            Tool(name="show_slides", skill="presentation"),
            Tool(name="fly", skill="aviation"),
            Tool(name="plain"),
        ]
    )
    assert [p.where for p in problems] == ["fly"]
    slides = DetachedSession("ann", allowed=(Tool(name="show_slides"),))
    reply = await skills.call(slides, Tool(name="read_skill"), {"skillId": "presentation"})
    assert reply.value == {
        "skillId": "presentation",
        "name": "Presentation",
        "content": "# Presentation\n\nStart with one sentence a slide.",
        "files": ["logo.png", "references/colours.md"],
        "tools": ["render_deck", "Bash", "show_slides"],
    }
    forbidden = await ask(skills, "read_skill", skillId="presentation")
    assert forbidden.value["tools"] == ["render_deck", "Bash"]


async def test_files_beside_a_skill_are_read_through_it(folder: Path):
    skills = Skills(folder)
    reply = await ask(skills, "read_skill", skillId="presentation", file="references/colours.md")
    assert reply.value == {
        "skillId": "presentation",
        "name": "Presentation",
        "file": "references/colours.md",
        "content": "Two colours are enough.",
    }
    binary = await ask(skills, "read_skill", skillId="presentation", file="logo.png")
    assert binary.is_error
    assert "not text" in binary.value["error"]
    single = await ask(skills, "read_skill", skillId="agent-browser", file="x.md")
    assert single.is_error


async def test_nothing_outside_of_a_skills_folder_can_be_reached(folder: Path, tmp_path: Path):
    secret = tmp_path / "secret.txt"
    secret.write_text("hunter2")
    deck = folder / "presentation"
    (deck / "link.txt").symlink_to(secret)
    (deck / "up").symlink_to(tmp_path)
    os.mkfifo(deck / "pipe")
    skills = Skills(folder)
    for path in (
        "../secret.txt",
        "references/../../secret.txt",
        str(secret),
        "/etc/passwd",
        "link.txt",
        "up/secret.txt",
        "./../secret.txt",
        "..\\secret.txt",
        "C:/secret.txt",
        "references",
        "references/",
        "pipe",
        "nope.md",
        "a\0b",
        ".",
        "..",
        "~/secret.txt",
        "x" * 5_000,
    ):
        reply = await ask(skills, "read_skill", skillId="presentation", file=path)
        assert reply.is_error, path
        assert "hunter2" not in reply.text
    listed = await ask(skills, "read_skill", skillId="presentation")
    assert listed.value["files"] == ["logo.png", "pipe", "references/colours.md"]


@given(st.lists(st.sampled_from(["..", ".", "a", "b", "link", "/", "", "~", "a.md"]), max_size=6))
def test_no_path_at_all_leads_out_of_the_folder(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str]
):
    root = tmp_path_factory.getbasetemp() / "paths"
    folder = root / "skill"
    if not folder.exists():
        (folder / "a" / "b").mkdir(parents=True)
        (root / "a.md").write_text("outside")
        (folder / "a" / "a.md").write_text("inside")
        (folder / "link").symlink_to(root)
    try:
        found = resolve_inside(folder, "/".join(parts))
    except UnsafePathError:
        return
    assert found.resolve().is_relative_to(folder.resolve())
    assert found.read_text() == "inside"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("---\nname: [unclosed\n---\nBody", "not YAML"),
        ("---\n- just\n- a list\n---\nBody", "keys and values"),
        ("---\ndescription: no name here\n---\nBody", "no name"),
        ("no front matter", "no name"),
        ("---\nname: x\nnever closed", "no end"),
        ("---\nname: x\n---\n" + "y" * 300_000, "bytes"),
        ("---\nname: !!python/object/apply:os.system [true]\n---\n", "not YAML"),
    ],
)
async def test_a_broken_skill_is_left_out_and_reported_and_hides_no_other(
    folder: Path, text: str, word: str
):
    (folder / "broken").mkdir()
    (folder / "broken" / "SKILL.md").write_text(text)
    skills = Skills(folder)
    (problem,) = skills.problems
    assert "broken/SKILL.md" in problem.where
    assert word in problem.message
    assert len(skills.library.skills) == 3
    assert skills.health()[0] == "degraded"


async def test_of_two_skills_with_one_name_the_first_stays_and_the_second_is_reported(folder: Path):
    other = folder / "zz-other"
    other.mkdir()
    (other / "SKILL.md").write_text("---\nname: presentation\ndescription: An impostor.\n---\n")
    skills = Skills(folder)
    (problem,) = skills.problems
    assert "zz-other/SKILL.md" in problem.where
    assert "presentation/SKILL.md" in problem.message
    reply = await ask(skills, "read_skill", skillId="presentation")
    assert "one sentence" in reply.value["content"]


async def test_skills_behind_links_are_not_followed_but_reported(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "SKILL.md").write_text("---\nname: linked\n---\nLinked.")
    (folder / "linked").symlink_to(elsewhere)
    (folder / "file.md").symlink_to(elsewhere / "SKILL.md")
    skills = Skills(folder)
    assert {p.where for p in skills.problems} == {"linked", "file.md"}
    assert (await ask(skills, "read_skill", skillId="linked")).is_error


def test_a_folder_may_be_one_skill_and_a_missing_folder_is_reported(folder: Path):
    assert [*Skills(folder / "presentation").library.skills] == ["presentation"]
    (problem,) = Skills(folder / "nowhere").problems
    assert "nowhere" in problem.where


async def test_new_skills_are_there_after_a_reload(folder: Path):
    skills = Skills(folder)
    (folder / "gardening.md").write_text("How to prune roses.")
    assert (await ask(skills, "search_skills", query="prune roses")).value["results"] == []
    skills.reload()
    found = await ask(skills, "search_skills", query="prune roses")
    assert found.value["results"][0]["id"] == "gardening"


async def test_hidden_characters_in_front_matter_do_not_reach_the_prompt(tmp_path: Path):
    (tmp_path / "odd.md").write_text(
        "---\nname: Odd\u202e\u200b\ndescription: |\n  One\n  ## Two\n---\nBody"
    )
    assert Skills(tmp_path).prompt_list() == "- **Odd** (`odd`): One ## Two"
