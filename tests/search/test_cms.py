"""Design E's content system, in its own names and phrases, searched by words alone."""

from __future__ import annotations

import pytest
from tests.search.parts import tool

from toolscout.catalog.catalog import Catalog
from toolscout.search.engine import Engine

PAGES = {
    "cms_getPage": (
        "Get a page by its slug or id.",
        "get page, find page, show page, page details",
    ),
    "cms_createPage": ("Create an empty page.", "create page, new page, add page"),
    "cms_createPageWithContent": (
        "Create a page together with its sections.",
        "create page with content, make page with sections",
    ),
    "cms_updatePage": ("Change a page's name or slug.", "update page, edit page, change page"),
    "cms_deletePage": ("Delete a page for good.", "delete page, remove page"),
    "cms_listPages": ("List every page.", "list pages, show all pages, what pages exist"),
}
SECTIONS = {
    "cms_listSectionTemplates": ("List the kinds of section there are.", "what sections exist"),
    "cms_getSectionFields": ("Tell which fields a section has.", "section fields"),
    "cms_addSectionToPage": ("Put a section on a page.", "add section, new section"),
    "cms_updateSectionContent": ("Write the text of a section.", "edit section, change heading"),
    "cms_deletePageSection": ("Take a section off a page.", "delete section"),
    "cms_getPageSections": ("List the sections of a page.", "sections of page"),
}
IMAGES = {
    "cms_findImage": ("Find one image by its description.", "find image, find picture"),
    "cms_searchImages": ("Search the images by what they show.", "search images, find image"),
    "cms_listAllImages": ("List every image.", "all images"),
    "cms_addImageToSection": ("Put an image into a section.", "add image to section"),
    "cms_updateSectionImage": ("Set the image of a section.", "change image, add image to section"),
    "cms_deleteImage": ("Delete an image.", "delete image"),
}
OTHERS = {
    "posts": {
        "cms_createPost": ("Write a post.", "create post"),
        "cms_publishPost": ("Publish a post.", "publish post"),
        "cms_listPosts": ("List every post.", "all posts"),
    },
    "navigation": {
        "cms_getNavigation": ("Show the menu.", "show navigation"),
        "cms_addNavigationItem": ("Add an entry to the menu.", "add to menu"),
        "cms_updateNavigationItem": (
            "Change an entry of the menu.",
            "update navigation, edit menu",
        ),
        "cms_removeNavigationItem": ("Take an entry off the menu.", "remove from menu"),
        "cms_toggleNavigationItem": ("Show or hide an entry of the menu.", "hide menu item"),
    },
    "http": {"http_get": ("Fetch an address.", "fetch url"), "http_post": ("Post data.", "send")},
    "pexels": {"pexels_searchPhotos": ("Search free photos.", "stock photos")},
}
RELATED = {"cms_searchImages": ("cms_updateSectionImage", "cms_addImageToSection")}
CATALOG = Catalog(
    tool(
        name,
        description,
        category=category,
        phrases=tuple(phrases.split(", ")),
        related=RELATED.get(name, ()),
    )
    for category, found in {
        "pages": PAGES,
        "sections": SECTIONS,
        "images": IMAGES,
        **OTHERS,
    }.items()
    for name, (description, phrases) in found.items()
)
ENGINE = Engine(CATALOG)


@pytest.mark.behaviour("E134")
def test_adding_an_image_to_a_section_brings_the_search_and_the_setting_of_images() -> None:
    found = ENGINE.search("add image to section")

    assert {"cms_searchImages", "cms_updateSectionImage"} <= set(found.names)
    assert len(found.names) == 5
    assert {ENGINE.catalog[n].category for n in found.names} >= {"images"}


@pytest.mark.behaviour("E135")
@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("find image", {"cms_findImage", "cms_searchImages"}),
        ("create page add section", {"cms_createPage", "cms_addSectionToPage"}),
        ("update navigation menu", {"cms_updateNavigationItem"}),
    ],
)
def test_the_examples_in_the_search_tools_description_hold(query: str, wanted: set[str]) -> None:
    found = ENGINE.search(query)

    assert wanted <= set(found.names)
    assert found.names[0] in wanted


@pytest.mark.behaviour("E30")
def test_a_name_in_humps_is_found_by_its_words() -> None:
    assert ENGINE.search("get page").names[0] == "cms_getPage"
    assert ENGINE.search("the sections of a page").names[0] == "cms_getPageSections"
