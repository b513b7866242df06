"""`GET /health/extraction`: ok, degraded, error, and off."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from toolscout import Toolbox, tool
from toolscout.catalog.tool import Extraction
from toolscout.config import Config
from toolscout.gateway.operations.health import extraction_response
from toolscout.memory.entities import Entity
from toolscout.memory.memory import Memory, Probe

GOOD = {"id": "test-id", "name": "Test Page", "slug": "test"}


@tool(extraction=Extraction("$root", "page", "name"))
def get_page(slug: str) -> dict[str, str]:
    """Get a page."""
    return {**GOOD, "slug": slug}


@tool
def find_resource(name: str) -> dict[str, str]:
    """Find anything by its name."""
    return {"name": name}


def fail(_: Any) -> Sequence[Entity]:
    raise RuntimeError("out of order")


async def answer(folder: Path, memory: Memory | None) -> tuple[int, dict[str, Any]]:
    config = Config.read(environment={}, home=str(folder), embedder="none")
    options: dict[str, Any] = {"config": config, "store": "memory", "memory": memory}
    async with Toolbox([get_page, find_resource], **options) as box:
        response = extraction_response(await box.health())
    return response.status_code, json.loads(bytes(response.body))


@pytest.mark.behaviour("E114", "E126")
async def test_a_probe_that_finds_its_entity_is_ok(tmp_path: Path) -> None:
    memory = Memory(probes=[Probe("get_page", GOOD, "page", "test-id")])
    code, body = await answer(tmp_path, memory)
    assert (code, body["status"]) == (200, "ok")
    assert (body["tools_with_extraction"], body["custom_extractors"]) == (1, 0)


@pytest.mark.behaviour("E114", "E126")
async def test_a_probe_without_its_entity_is_degraded(tmp_path: Path) -> None:
    memory = Memory(probes=[Probe("get_page", {"slug": "test"}, "page", "test-id")])
    code, body = await answer(tmp_path, memory)
    assert (code, body["status"]) == (200, "degraded")


@pytest.mark.behaviour("E114", "E126")
async def test_an_extractor_that_raises_is_an_error_with_its_message(tmp_path: Path) -> None:
    probe = Probe("find_resource", {}, "page", "1")
    memory = Memory(extractors={"find_resource": fail}, probes=[probe])
    code, body = await answer(tmp_path, memory)
    assert (code, body["status"]) == (500, "error")
    assert "out of order" in body["probes"]["find_resource"]


async def test_without_a_memory_the_answer_says_how_to_get_one(tmp_path: Path) -> None:
    code, body = await answer(tmp_path, None)
    assert (code, body["status"]) == (404, "off")
    assert "memory" in body["why"]
