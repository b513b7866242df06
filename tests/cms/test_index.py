"""The site's tools as the catalog has them: complete, and as design E lists them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cms.cms import CATEGORIES, RULES, Cms, check
from cms.extractors import EXTRACTORS
from toolscout.catalog.tool import Extraction, Tool
from toolscout.errors import InvalidCatalogError
from toolscout.guidance.rules import Rules
from toolscout.sources.functions import tool_of


@pytest.fixture
def tools(cms: Cms) -> dict[str, Tool]:
    return {tool.name: tool for tool in cms.tools}


@pytest.mark.behaviour("E12", "E13", "E14", "E15", "E16", "E17")
async def test_every_category_has_the_tools_of_the_design(cms: Cms):
    found: dict[str, list[str]] = {}
    for tool in cms.tools:
        found.setdefault(tool.category, []).append(tool.name.removeprefix("cms_"))
    assert found == {
        "pages": [
            *("getPage", "createPage", "createPageWithContent", "updatePage", "deletePage"),
            "listPages",
        ],
        "sections": [
            *("listSectionTemplates", "getSectionFields", "addSectionToPage"),
            *("updateSectionContent", "deletePageSection", "deletePageSections"),
            *("getPageSections", "getSectionContent"),
        ],
        "images": [
            *("findImage", "searchImages", "listAllImages", "addImageToSection"),
            *("updateSectionImage", "replaceImage", "deleteImage"),
        ],
        "posts": [
            *("createPost", "updatePost", "publishPost", "archivePost", "deletePost"),
            *("listPosts", "getPost"),
        ],
        "navigation": [
            *("getNavigation", "addNavigationItem", "updateNavigationItem"),
            *("removeNavigationItem", "toggleNavigationItem"),
        ],
        "entries": ["getCollectionEntries", "getEntryContent"],
        "search": ["search_vector", "findResource"],
        "http": ["http_get", "http_post"],
        "research": ["web_quickSearch", "web_deepResearch", "web_fetchContent"],
        "pexels": ["pexels_searchPhotos", "pexels_downloadPhoto"],
        "planning": ["plan_analyzeTask"],
    }
    assert sum(map(len, found.values())) == 45


@pytest.mark.behaviour("E12")
async def test_the_phrases_of_the_pages_are_the_designs(tools: dict[str, Tool]):
    assert {n: tools[f"cms_{n}"].phrases for n in ("getPage", "createPage", "listPages")} == {
        "getPage": ("get page", "find page", "show page", "page details"),
        "createPage": ("create page", "new page", "add page"),
        "listPages": ("list pages", "show all pages", "what pages exist"),
    }
    assert tools["cms_createPageWithContent"].phrases == (
        "create page with content",
        "make page with sections",
    )
    assert tools["cms_updatePage"].phrases == ("update page", "edit page", "change page")
    assert tools["cms_deletePage"].phrases == ("delete page", "remove page")


_PAGE = Extraction("page", "page", "name")
_POST = Extraction("post", "post", "title")
_IMAGES = Extraction("images", "image", "filename", is_array=True)


@pytest.mark.behaviour("E7", "E8", "E18", "E110")
async def test_extraction_is_declared_where_results_have_entities(tools: dict[str, Tool]):
    assert {name: tool.extraction for name, tool in tools.items() if tool.extraction} == {
        "cms_getPage": Extraction("$root", "page", "name"),
        "cms_createPage": _PAGE,
        "cms_createPageWithContent": _PAGE,
        "cms_updatePage": _PAGE,
        "cms_listPages": Extraction("pages", "page", "name", is_array=True),
        "cms_addSectionToPage": Extraction("$root", "section", "sectionKey", "pageSectionId"),
        "cms_getPageSections": Extraction("sections", "section", "sectionKey", is_array=True),
        "cms_findImage": Extraction("image", "image", "filename"),
        "cms_searchImages": _IMAGES,
        "cms_listAllImages": _IMAGES,
        "cms_createPost": _POST,
        "cms_updatePost": _POST,
        "cms_publishPost": _POST,
        "cms_archivePost": _POST,
        "cms_listPosts": Extraction("posts", "post", "title", is_array=True),
        "cms_getPost": Extraction("$root", "post", "title"),
        "cms_getCollectionEntries": Extraction("entries", "entry", "name", is_array=True),
        "pexels_searchPhotos": Extraction("photos", "photo", "alt", is_array=True),
    }
    assert sorted(EXTRACTORS) == ["cms_findResource", "search_vector"]
    assert all(tools[name].extraction is None for name in EXTRACTORS)


@pytest.mark.behaviour("E7", "E19")
async def test_risky_tools_need_approval(tools: dict[str, Tool]):
    destructive = {n for n, t in tools.items() if t.risk == "destructive"}
    asking = {n for n, t in tools.items() if t.requires_confirmation}
    assert destructive == {
        *("cms_deletePage", "cms_deletePageSection", "cms_deletePageSections"),
        *("cms_deleteImage", "cms_deletePost"),
    }
    assert asking - destructive == {"cms_publishPost", "cms_archivePost", "http_post"}
    assert destructive <= asking


@pytest.mark.behaviour("E7", "E20", "E21", "E22", "E28")
async def test_the_index_is_complete_and_says_so(cms: Cms):
    report = check(cms.tools)
    assert report.summary() == {
        "valid": True,
        "tool_count": 45,
        "custom_extractor_count": 2,
        "errors": [],
        "warnings": [],
    }


@pytest.mark.behaviour("E7", "E9", "E22", "E23", "E26", "E27", "E125")
async def test_an_index_with_faults_is_refused_with_all_of_them_at_once(cms: Cms):
    tools = [tool for tool in cms.tools if tool.name != "cms_findResource"]
    faulty = tuple(
        replace(t, category="astrology")
        if t.name == "cms_getPage"
        else replace(t, extraction=_PAGE)
        if t.name == "search_vector"
        else replace(t, risk=None, related=("cms_nothing",))
        if t.name == "http_get"
        else t
        for t in tools
    )
    report = check(faulty)
    with pytest.raises(InvalidCatalogError) as caught:
        report.raise_if_invalid()
    told = str(caught.value)
    for word in ("astrology", "cms_findResource", "search_vector", "risk"):
        assert word in told
    assert len(report.errors) == 4
    assert any("cms_nothing" in str(warning) for warning in report.warnings)


@pytest.mark.behaviour("E23", "E125")
async def test_a_site_whose_tools_do_not_fit_does_not_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from cms import cms as opening

    monkeypatch.setitem(EXTRACTORS, "cms_ghost", lambda value: [])  # type: ignore[arg-type]
    with pytest.raises(InvalidCatalogError, match="cms_ghost"):
        async with opening.open_cms(tmp_path / "site"):
            pass


@pytest.mark.behaviour("E54", "E55")
async def test_ten_files_of_rules_say_what_must_be_known(cms: Cms):
    rules = Rules(RULES)
    assert sorted(key.name for key in rules.book.texts) == sorted(set(CATEGORIES) - {"planning"})
    assert rules.problems == ()
    by_name = {key.name: text for key, text in rules.book.texts.items()}
    for word in ("our own images first", "0", "cms_getSectionFields", "/uploads/images/"):
        assert word in by_name["images"]
    assert "cms_getEntryContent" in by_name["entries"]
    assert "search_vector" in by_name["search"]
    assert "our own images" in by_name["pexels"]
    assert "http_post" in by_name["http"]


@pytest.mark.behaviour("E56")
async def test_the_rules_keep_to_their_budgets(cms: Cms):
    rules = Rules(RULES)
    budgets = {"pages": 100, "sections": 100, "images": 150, "posts": 100, "navigation": 80}
    found = rules.lint(cms.tools, budget_tokens=100, budgets=budgets)
    assert [str(p).split(".")[0] for p in found] == ["category:planning: has no rules (1 tools)"]


async def test_every_tool_and_parameter_is_described(cms: Cms):
    for function in cms.functions:
        tool = tool_of(function)
        assert len(tool.description) > 15, tool.name
        for parameter in tool.parameters.top_level():
            assert parameter.description, f"{tool.name}.{parameter.name}"
