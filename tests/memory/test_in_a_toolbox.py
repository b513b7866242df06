"""The memory in its place: between the calls of a conversation and its store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolscout import Engine, Toolbox, tool
from toolscout.catalog.tool import Extraction
from toolscout.memory.entities import Entity
from toolscout.memory.memory import Memory, Probe


@tool(category="pages", extraction=Extraction("$root", "page", "name"))
def get_page(number: int) -> dict[str, Any]:
    """Get a page of the site by its number."""
    if number > 20:
        raise LookupError("no such page")
    return {"id": number, "name": f"Page {number}", "slug": f"page-{number}"}


@tool(category="search")
def find_resource(words: str) -> dict[str, Any]:
    """Find anything on the site by words."""
    return {"matches": [{"type": "Image", "id": "i7", "name": words}]}


def matches(value: Any) -> list[Entity]:
    return [Entity(m["type"].lower(), m["id"], m["name"]) for m in value["matches"]]


def broken(value: Any) -> list[Entity]:
    raise KeyError("matches")


@pytest.mark.behaviour("E86", "E93", "E95", "E96", "E110", "E118")
async def test_entities_in_results_are_remembered_with_the_session_until_it_ends(tmp_path: Path):
    store = tmp_path / "sessions.db"
    memory = Memory(extractors={"find_resource": matches})
    async with Toolbox(
        [get_page, find_resource], engine=Engine(), store=store, memory=memory
    ) as box:
        session = await box.session("ann")
        assert session.render_memory() == ""
        await session.call("get_page", {"number": 3})
        await session.call("find_resource", {"words": "hero"})
        await session.call("get_page", {"number": 99})
    async with Toolbox(
        [get_page, find_resource], engine=Engine(), store=store, memory=Memory()
    ) as box:
        session = await box.session("ann")
        remembered = session.render_memory()
        assert "image: hero (id i7), page: Page 3 (id 3)" in remembered
        assert "get_page (2x)" in remembered
        state = Memory().state(session.state.sections["memory"])
        assert [(u.name, u.last_result) for u in state.used] == [
            ("get_page", "error"),
            ("find_resource", "success"),
        ]
        assert (await box.session("bob")).render_memory() == ""
        await session.forget()
        assert (await box.session("ann")).render_memory() == ""


@pytest.mark.behaviour("E100", "E114", "E126")
async def test_a_broken_extractor_shows_in_the_toolboxs_health_and_costs_no_call(tmp_path: Path):
    probe = Probe("get_page", {"id": "p1", "name": "Home", "slug": "home"}, type="page", id="p1")
    memory = Memory(extractors={"find_resource": broken}, probes=[probe])
    store = tmp_path / "sessions.db"
    async with Toolbox(
        [get_page, find_resource], engine=Engine(), store=store, memory=memory
    ) as box:
        part = (await box.health()).parts["memory"]
        assert part.status == "ok"
        assert part.facts["tools_with_extraction"] == 1
        session = await box.session("ann")
        reply = await session.call("find_resource", {"words": "hero"})
        assert reply.value["matches"][0]["name"] == "hero"
        health = await box.health()
        assert health.parts["memory"].status == health.status == "degraded"
        assert "KeyError" in health.parts["memory"].facts["failing"]["find_resource"]
