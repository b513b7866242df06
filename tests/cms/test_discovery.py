"""Finding the site's tools as design E describes it."""

from __future__ import annotations

from typing import Any

import pytest

from cms.cms import Cms
from toolscout import Engine
from toolscout.embedders.universal_encoder import UniversalEncoder

from .conftest import agrees


async def search(box: Any, query: str, session: str = "ann") -> dict[str, Any]:
    reply = await (await box.session(session)).call("tool_search", {"query": query})
    found: dict[str, Any] = reply.value
    return found


@pytest.mark.behaviour("E53", "E61", "E134")
async def test_the_worked_example_brings_both_tools_and_the_rules_for_images(cms: Cms):
    async with cms.toolbox(store="memory", engine=Engine()) as box:
        found = await search(box, "add image to section")
        names = [tool["name"] for tool in found["tools"]]
        assert {"cms_searchImages", "cms_updateSectionImage"} <= set(names)
        assert len(names) <= 5
        assert "Look among our own images first" in found["rules"]


@pytest.mark.behaviour("E135")
@pytest.mark.parametrize(
    ("query", "categories", "wanted"),
    [
        ("find image", {"images"}, {"cms_findImage", "cms_searchImages"}),
        (
            "create page add section",
            {"pages", "sections"},
            {"cms_createPage", "cms_addSectionToPage"},
        ),
        ("update navigation menu", {"navigation"}, {"cms_updateNavigationItem"}),
    ],
)
async def test_the_examples_of_the_search_tools_description_hold(
    cms: Cms, query: str, categories: set[str], wanted: set[str]
):
    by_name = {tool.name: tool for tool in cms.tools}
    async with cms.toolbox(store="memory", engine=Engine()) as box:
        names = [tool["name"] for tool in (await search(box, query))["tools"]]
        assert wanted <= set(names)
        assert by_name[names[0]].category in categories


@pytest.mark.behaviour("E94", "E95", "E118", "E136")
async def test_a_tool_found_in_one_turn_is_there_in_the_next_and_remembered(cms: Cms):
    async with cms.toolbox(store="memory", engine=Engine(), approver=agrees) as box:
        session = await box.session("ann")
        refused = await session.call("cms_searchImages", {"query": "hero"})
        assert refused.is_error
        assert "cms_searchImages" in [
            t["name"] for t in (await search(box, "find the hero image"))["tools"]
        ]
        used = await session.call("cms_searchImages", {"query": "hero"})
        assert not used.is_error
        later = await box.session("ann")
        again = await later.call("cms_searchImages", {"query": "the lake"})
        assert not again.is_error
        recalled = later.render_memory()
        assert "cms_searchImages (2x)" in recalled
        assert '"cms_searchImages"' in recalled
        assert "image: lake-morning.png" in recalled
        await later.forget()
        fresh = await box.session("ann")
        assert fresh.render_memory() == ""
        assert (await fresh.call("cms_searchImages", {"query": "x"})).is_error


@pytest.mark.behaviour("E4")
async def test_other_languages_find_the_same_tools(cms: Cms):
    engine = Engine(embedders=[UniversalEncoder()])
    async with cms.toolbox(store="memory", engine=engine) as box:
        engine.fill()
        for query, wanted in (
            ("znajdź zdjęcie", "cms_findImage"),
            ("Bild austauschen", "cms_replaceImage"),
            ("列出所有页面", "cms_listPages"),
        ):
            names = [tool["name"] for tool in (await search(box, query, query))["tools"]]
            assert wanted in names, query


@pytest.mark.behaviour("E19")
async def test_a_tool_that_needs_approval_does_not_run_without_it(cms: Cms):
    asked: list[str] = []

    async def declines(approval: Any) -> bool:
        asked.append(approval.tool.name)
        return False

    for approver in (None, declines):
        options: dict[str, Any] = {"store": "memory", "engine": Engine(), "profile": "everything"}
        async with cms.toolbox(**options, approver=approver) as box:
            session = await box.session("ann")
            for name, arguments in (
                ("cms_deletePage", {"page_id": 3}),
                ("cms_publishPost", {"post_id": 3}),
            ):
                reply = await session.call(name, arguments)
                assert reply.is_error
    assert asked == ["cms_deletePage", "cms_publishPost"]
    assert cms.database.one("SELECT count(*) n FROM pages") == {"n": 3}
    assert cms.database.one("SELECT status FROM posts WHERE id = 3") == {"status": "draft"}


@pytest.mark.behaviour("E114")
async def test_the_sites_health_probes_its_extraction(cms: Cms):
    async with cms.toolbox(store="memory", engine=Engine()) as box:
        memory = (await box.health()).parts["memory"]
        assert memory.status == "ok"
        assert memory.facts["tools_with_extraction"] == 18
        assert memory.facts["custom_extractors"] == 2
