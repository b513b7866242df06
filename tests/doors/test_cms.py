"""Design E, CMS, through every door: the examples of its document, section by section.

The catalog is that of the example site: the tools, phrases and categories that the document
lists. A gateway sends no messages; the tests say what its user gets instead.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tests.doors.harness import DOORS, Received, Transcript, converse

from toolscout.catalog.tool import Tool
from toolscout.cli.conversations import load_example_site
from toolscout.telemetry.metrics import DiscoveryMetrics

Rows = list[dict[str, Any]]
Call = tuple[str, Mapping[str, Any]]

DEFAULT = {"embedder": "use"}
"""The embedder of the default install."""

RULES = {
    "images": "**Images:** Search existing images BEFORE downloading from Pexels.\n"
    "Scores closer to 0 = better match.",
    "sections": "**Sections:** Ask cms_getSectionFields for names of fields first.",
    "pages": "**Pages:** A slug exists once.",
    "navigation": "**Navigation:** Read the menu before you change it.",
}
IMAGES = {"images": [{"id": 7, "filename": "hero.jpg"}, {"id": 8, "filename": "lake.jpg"}]}
PAGE = {"page": {"id": 3, "name": "About us"}}
RESULTS = {"cms_searchImages": IMAGES, "cms_createPage": PAGE}
PROMPT = (
    "<tool-discovery>\n"
    "Use **tool_search** to find the tools you need:\n"
    "- Say in natural language what you want to do.\n"
    "- You get fitting tools together with the rules for using them.\n"
    "- Search again whenever you need something more.\n\n"
    "If you can answer without tools, answer directly.\n"
    "</tool-discovery>"
)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """The tools of the document as rows; a server sends what search needs in `_meta`."""

    async def read() -> tuple[Tool, ...]:
        async with load_example_site("cms").open_cms(tmp_path_factory.mktemp("site")) as cms:
            return cms.tools

    return [_row(tool) for tool in asyncio.run(read())]


def _row(tool: Tool) -> dict[str, Any]:
    known: dict[str, Any] = {"category": tool.category, "phrases": [*tool.phrases]}
    known["relatedTools"] = [*tool.related]
    if tool.extraction:
        fields = asdict(tool.extraction)
        renamed = {"name_field": "nameField", "id_field": "idField", "is_array": "isArray"}
        known["extraction"] = {renamed.get(k, k): v for k, v in fields.items()}
    row = {
        "name": tool.name,
        "description": tool.description,
        "parameters": {"type": "object"},
        "_meta": {"toolscout": known},
        **known,
    }
    result = RESULTS.get(tool.name)
    return {**row, "result": json.dumps(result)} if result else row


@pytest.fixture
def rules(tmp_path: Path) -> str:
    """A folder with one Markdown file for each category."""
    folder = tmp_path / "rules"
    folder.mkdir()
    for category, text in RULES.items():
        (folder / f"{category}.md").write_text(f"{text}\n")
    return str(folder)


def search(query: str, **more: Any) -> Call:
    return "tool_search", {"query": query, **more}


def reply(talk: Transcript, step: int = 0, call: int = 0) -> dict[str, Any]:
    """The answer to a search; a gateway may add the memory behind it."""
    value, _ = json.JSONDecoder().raw_decode(talk.answers[step][call])
    return value


def names(found: Mapping[str, Any]) -> list[str]:
    return [tool["name"] for tool in found["tools"]]


def remembered(door: str, received: Received, answers: Sequence[str]) -> str:
    """Where the model finds its memory: a gateway has no prompt, so a search brings it."""
    match door:
        case "sdk":
            return received.instructions
        case "agent":
            return json.dumps([*received.messages], ensure_ascii=False)
        case _:
            return "\n".join(answers)


@pytest.mark.behaviour("E1", "E2", "E74", "E76", "E80", "E117")
@pytest.mark.section("cms", "Executive Summary: What & Why")
@pytest.mark.parametrize("door", DOORS)
async def test_a_question_is_answered_with_one_tool_in_view_and_no_search(
    door: str, rows: Rows, tmp_path: Path
) -> None:
    talk = await converse(
        door, rows, [], folder=tmp_path, profile="cms", message="What is a CMS section?"
    )
    assert [received.names for received in talk.received] == [["tool_search"]]
    assert talk.first.instructions == PROMPT
    assert talk.answers == []


@pytest.mark.behaviour("E7", "E12", "E16", "E30")
@pytest.mark.section("cms", "Phase 1: Tool Metadata Index")
@pytest.mark.parametrize("door", DOORS)
async def test_a_phrase_that_the_index_has_for_a_tool_finds_it_first(
    door: str, rows: Rows, tmp_path: Path
) -> None:
    wanted = {
        "what pages exist": "cms_listPages",
        "make page with sections": "cms_createPageWithContent",
        "page details": "cms_getPage",
    }
    steps = [[search(query)] for query in wanted]
    talk = await converse(door, rows, steps, folder=tmp_path, profile="cms")
    found = [names(reply(talk, i))[0] for i in range(len(wanted))]
    assert found == [*wanted.values()]


@pytest.mark.behaviour("E36", "E129", "E135")
@pytest.mark.section("cms", "Phase 2: BM25 Search Implementation")
@pytest.mark.parametrize("door", DOORS)
async def test_english_queries_find_their_tools_with_keyword_search(
    door: str, rows: Rows, tmp_path: Path
) -> None:
    steps = [
        [search("find image")],
        [search("create page add section")],
        [search("update navigation menu")],
        [search("znajdź zdjęcie")],
    ]
    talk = await converse(door, rows, steps, folder=tmp_path, profile="cms")
    image, page, menu, foreign = (names(reply(talk, i)) for i in range(4))
    assert {"cms_findImage", "cms_searchImages"} <= {*image}
    assert {"cms_createPage", "cms_addSectionToPage"} <= {*page}
    assert menu[0] == "cms_updateNavigationItem"
    assert all("avigation" in name for name in menu)
    assert foreign == []


@pytest.mark.behaviour("E4", "E38", "E51")
@pytest.mark.section("cms", "Phase 3: Vector Search Implementation")
@pytest.mark.parametrize("door", DOORS)
async def test_queries_in_other_languages_find_their_tools_by_meaning(
    door: str, rows: Rows, tmp_path: Path
) -> None:
    # First one in another script: a gateway answers it only once its encoder is loaded.
    steps = [
        [search("列出所有页面")],
        [search("znajdź zdjęcie")],
        [search("Bild austauschen")],
    ]
    talk = await converse(door, rows, steps, folder=tmp_path, profile="cms", settings=DEFAULT)
    pages, image, swap = (names(reply(talk, i)) for i in range(3))
    assert pages[0] == "cms_listPages"
    assert "cms_findImage" in image
    assert swap[0] == "cms_replaceImage"


@pytest.mark.behaviour("E53", "E54", "E58", "E59", "E61", "E67", "E134")
@pytest.mark.section("cms", "Phase 4: Rules System")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("settings", [DEFAULT, {"embedder": "none"}], ids=["use", "none"])
async def test_adding_an_image_to_a_section_brings_both_tools_and_their_rules(
    door: str, settings: Mapping[str, str], rows: Rows, rules: str, tmp_path: Path
) -> None:
    # The first search waits for the encoder, and its tools have other rules.
    steps = [[search("列出所有页面", limit=1)], [search("add image to section")]]
    talk = await converse(
        door,
        rows,
        steps,
        folder=tmp_path,
        profile="cms",
        options={"rules": [rules]},
        settings=settings,
    )
    found = reply(talk, 1)
    assert {"cms_searchImages", "cms_updateSectionImage"} <= {*names(found)}
    assert len(found["tools"]) == 5
    assert RULES["images"] in found["rules"].split("\n\n")
    assert RULES["navigation"] not in found["rules"]
    assert {"cms_searchImages", "cms_updateSectionImage"} <= {*talk.last.names}


@pytest.mark.behaviour("E62", "E63", "E64", "E65", "E66")
@pytest.mark.section("cms", "Phase 5: Discovery Tool Implementation")
@pytest.mark.parametrize("door", DOORS)
async def test_a_search_answers_with_tools_rules_and_an_instruction(
    door: str, rows: Rows, rules: str, tmp_path: Path
) -> None:
    steps = [[search("find image", limit=2)]]
    talk = await converse(
        door, rows, steps, folder=tmp_path, profile="cms", options={"rules": [rules]}
    )
    shown = talk.first.tools["tool_search"]
    assert shown["schema"]["properties"]["limit"]["default"] == 5
    assert shown["schema"]["required"] == ["query"]
    assert '"find image" → image search tools' in shown["description"]
    by_name = {row["name"]: row for row in rows}
    assert reply(talk) == {
        "tools": [
            {"name": name, "description": by_name[name]["description"]}
            for name in ("cms_findImage", "cms_searchImages")
        ],
        "rules": RULES["images"],
        "instruction": "These tools are now available. Search again if you need more.",
    }
    assert talk.last.names == ["tool_search", "cms_findImage", "cms_searchImages"]


@pytest.mark.behaviour("E68", "K5")
@pytest.mark.section("cms", "Phase 5: Discovery Tool Implementation")
@pytest.mark.parametrize("door", DOORS)
async def test_nonsense_finds_nothing_and_gets_advice_in_the_default_install(
    door: str, rows: Rows, rules: str, tmp_path: Path
) -> None:
    query = "qwertyuiop zxcv"
    # A gateway loads its encoder for the first search, in another script.
    steps = [[search("列出所有页面", limit=1)], [search(query)]]
    talk = await converse(
        door,
        rows,
        steps,
        folder=tmp_path,
        profile="cms",
        options={"rules": [rules]},
        settings=DEFAULT,
    )
    found = reply(talk, 1)
    assert (found["tools"], found["rules"]) == ([], "")
    for part in (f'"{query}"', "specific action words", "rephrase", "answer directly"):
        assert part in found["instruction"]
    assert talk.last.names == ["tool_search", "cms_listPages"]


LETTERS = ("qwertyuiop zxcv", "zzzz", "wxyz qqq jjj", "lkjhgfd mnbvcx", "pls gqnplnl")
FOREIGN = {
    "eine neue Seite anlegen": "cms_createPage",
    "usuń wpis": "cms_deletePost",
    "ابحث عن صورة": "cms_searchImages",
}


@pytest.mark.behaviour("E68")
@pytest.mark.section("cms", "Phase 5: Discovery Tool Implementation")
@pytest.mark.parametrize("door", DOORS)
async def test_random_letters_find_nothing_and_other_languages_find_their_tools(
    door: str, rows: Rows, tmp_path: Path
) -> None:
    queries = ["列出所有页面", *LETTERS, *FOREIGN]
    steps = [[search(query)] for query in queries]
    talk = await converse(door, rows, steps, folder=tmp_path, profile="cms", settings=DEFAULT)
    found = {q: [t["name"] for t in reply(talk, i)["tools"]] for i, q in enumerate(queries)}
    assert {q: found[q] for q in LETTERS} == {q: [] for q in LETTERS}
    assert [q for q, name in FOREIGN.items() if name not in found[q]] == []


@pytest.mark.behaviour("E71")
@pytest.mark.section("cms", "Phase 6: Core Prompt System")
@pytest.mark.parametrize("door", DOORS)
async def test_the_prompt_for_discovery_stays_the_same_through_a_turn(
    door: str, rows: Rows, tmp_path: Path
) -> None:
    steps = [[search("find image")], [("cms_searchImages", {"query": "hero"})]]
    talk = await converse(door, rows, steps, folder=tmp_path, profile="cms")
    assert {received.instructions for received in talk.received} == {PROMPT}


@pytest.mark.behaviour("E70", "E75", "E77", "E78", "E86", "E88", "E89", "E94", "E97", "E118")
@pytest.mark.section("cms", "Phase 7: Agent Integration")
@pytest.mark.parametrize("door", DOORS)
async def test_the_next_turn_has_the_tools_and_the_memory_of_the_first(
    door: str, rows: Rows, tmp_path: Path
) -> None:
    steps: list[list[Call]] = [
        [search("find the hero image")],
        [("cms_searchImages", {"query": "hero"})],
        [],
        [("cms_searchImages", {"query": "lake"})],
        [search("update navigation menu")],
    ]
    talk = await converse(door, rows, steps, folder=tmp_path, profile="cms")
    first = names(reply(talk))
    assert "cms_searchImages" in first
    before, after, called, second, again, last = (r.names for r in talk.received)
    assert before == ["tool_search"]
    assert after == called == second == again == ["tool_search", *first]
    assert last == [*again, *(n for n in names(reply(talk, 4)) if n not in first)]
    assert json.loads(talk.answers[3][0]) == IMAGES
    memory = remembered(door, talk.received[3], talk.answers[4])
    for part in ("image: hero.jpg", "image: lake.jpg", "discoveredTools", "cms_searchImages ("):
        assert part in memory
    # The turn begins with what the first one used; a gateway has no turns, so it counts both.
    assert f"cms_searchImages ({2 if door == 'gateway' else 1}x)" in memory
    assert "tool_search (" not in memory
    if door != "gateway":
        assert "hero.jpg" not in remembered(door, talk.first, ())


@pytest.mark.behaviour("E116", "E117", "E136")
@pytest.mark.section("cms", "Phase 8: Testing & Validation")
@pytest.mark.parametrize("door", DOORS)
async def test_a_complex_request_searches_several_times_and_uses_what_it_finds(
    door: str, rows: Rows, rules: str, tmp_path: Path
) -> None:
    steps: list[list[Call]] = [
        [search("create page add section")],
        [("cms_createPage", {"name": "About us"})],
        [search("find the hero image")],
        [("cms_searchImages", {"query": "hero"})],
    ]
    talk = await converse(
        door, rows, steps, folder=tmp_path, profile="cms", options={"rules": [rules]}
    )
    page, image = reply(talk), reply(talk, 2)
    assert "cms_createPage" in names(page)
    assert RULES["pages"] in page["rules"]
    assert "cms_searchImages" in names(image)
    assert RULES["images"] in image["rules"]
    assert RULES["pages"] not in image["rules"]  # the model has them already
    assert talk.answers[1] == [json.dumps(PAGE)]
    assert talk.answers[3] == [json.dumps(IMAGES)]
    assert talk.errors == [[False]] * 4
    assert talk.last.names == ["tool_search", *dict.fromkeys([*names(page), *names(image)])]


@pytest.mark.behaviour("K6")
@pytest.mark.section("cms", "Phase 8: Testing & Validation")
@pytest.mark.parametrize("door", DOORS)
async def test_a_tool_that_was_not_found_is_refused_with_a_way_to_it(
    door: str, rows: Rows, tmp_path: Path
) -> None:
    steps = [[("cms_searchImages", {"query": "hero"})]]
    talk = await converse(door, rows, steps, folder=tmp_path, profile="cms")
    assert talk.errors == [[True]]
    assert "tool_search" in talk.answers[0][0]


@pytest.mark.behaviour("E114", "E121")
@pytest.mark.section("cms", "Phase 9: Cleanup & Documentation")
@pytest.mark.parametrize("door", DOORS)
async def test_latency_is_measured_for_words_and_vectors_apart(
    door: str, rows: Rows, tmp_path: Path
) -> None:
    metrics = DiscoveryMetrics()
    steps = [[search("列出所有页面")], [search("find the hero image")]]
    talk = await converse(
        door,
        rows,
        steps,
        folder=tmp_path,
        profile="cms",
        settings={**DEFAULT, "ranker_times": "true"},
        paths=["/metrics", "/health/extraction"],
        sink=metrics,
    )
    if door != "gateway":
        assert {"all", "exact", "bm25f", "dense", "foreign"} <= {*metrics.snapshot().latency_ms}
        return
    text = talk.pages["/metrics"].text
    for ranker in ("bm25f", "dense"):
        assert f'toolscout_ranker_seconds_count{{ranker="{ranker}"}}' in text
    health = talk.pages["/health/extraction"]
    assert health.status_code == 200
    assert health.json()["status"] == "ok"
    assert health.json()["tools_with_extraction"] == 18
