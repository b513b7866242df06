"""Rules and skills in their place: with what a search returns, and beside the discovery tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolscout import Engine, Toolbox, tool
from toolscout.guidance.rules import Rules
from toolscout.guidance.skills import Skills


@tool(category="images", skill="pictures")
def find_image(words: str) -> str:
    """Find an image by words."""
    return words


@tool(category="images")
def replace_image(old: str, new: str) -> str:
    """Replace an image by another."""
    return new


@tool(category="pages")
def list_pages() -> str:
    """List the pages of the site."""
    return ""


TOOLS = [find_image, replace_image, list_pages]


@pytest.mark.behaviour("E53", "E61")
@pytest.mark.parametrize("profile", ["default", "cms"])
async def test_a_search_brings_the_rules_of_the_categories_it_finds_once(
    tmp_path: Path, profile: str
):
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "images.md").write_text("Look among our own images first.")
    (folder / "pages.md").write_text("There is one home page.")
    rules = Rules(folder)
    async with Toolbox(
        TOOLS, profile=profile, rules=rules, engine=Engine(), store=tmp_path / "s.db"
    ) as box:
        session = await box.session("ann")
        first = await session.call("tool_search", {"query": "find an image", "limit": 1})
        assert "Look among our own images first." in first.text
        assert "one home page" not in first.text
        again = await session.call("tool_search", {"query": "replace an image", "limit": 1})
        assert "Look among" not in again.text
        (folder / "images.md").write_text("Ask before you replace one.")
        rules.reload()
        changed = await session.call("tool_search", {"query": "replace an image", "limit": 1})
        assert "Ask before you replace one." in changed.text
        other = await (await box.session("bob")).call("tool_search", {"query": "find an image"})
        assert "Ask before you replace one." in other.text
        assert (await box.health()).parts["rules"].status == "ok"


@pytest.mark.behaviour("A31", "A32")
async def test_skills_stand_in_view_as_tools_and_answer_to_either_spelling(tmp_path: Path):
    folder = tmp_path / "skills"
    folder.mkdir()
    (folder / "pictures.md").write_text("How to choose pictures that belong to the text.")
    async with Toolbox(
        TOOLS, features=[Skills(folder)], engine=Engine(), store=tmp_path / "s.db"
    ) as box:
        session = await box.session("ann")
        names = [t["name"] for t in session.view("anthropic").tools]
        assert {"search_skills", "read_skill"} <= set(names)
        assert "readSkill" not in names
        found = await session.call("search_skills", {"query": "choose a picture"})
        assert [r["id"] for r in found.value["results"]] == ["pictures"]
        for spelling in ("read_skill", "readSkill"):
            reply = await session.call(spelling, {"skillId": "pictures"})
            assert reply.value == {
                "skillId": "pictures",
                "name": "pictures",
                "content": "How to choose pictures that belong to the text.",
                "tools": ["find_image"],
            }
        unknown = await session.call("read_skill", {"skillId": "../pictures"})
        assert unknown.is_error
        assert (await box.health()).parts["skills"].facts["skills"] == 1


@pytest.mark.behaviour("A33")
async def test_every_skill_has_its_line_in_the_instructions_and_the_line_stays(tmp_path: Path):
    folder = tmp_path / "skills"
    folder.mkdir()
    (folder / "pictures.md").write_text("How to choose pictures.")
    skills = Skills(folder)
    async with Toolbox(TOOLS, features=[skills], engine=Engine(), store=tmp_path / "s.db") as box:
        session = await box.session("ann")
        before = session.view("anthropic")
        assert "- **pictures** (`pictures`): How to choose pictures." in before.instructions
        assert "read_skill" in before.instructions
        (folder / "words.md").write_text("How to choose words.")
        skills.reload()
        assert session.view("anthropic").prefix == before.prefix
        await session.save()
        assert (await box.session("ann")).view("anthropic").prefix == before.prefix
        assert "How to choose words." in (await box.session("bob")).view("anthropic").instructions
