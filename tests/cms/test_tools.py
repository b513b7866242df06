"""What the tools do: real rows, real files, real requests on the loopback address."""

from __future__ import annotations

from typing import Any

import pytest

from cms.cms import Cms
from toolscout.memory.memory import Memory
from toolscout.toolbox.session import Session


async def value(session: Session, called: str, /, **arguments: Any) -> Any:
    reply = await session.call(called, arguments)
    assert not reply.is_error, reply.text
    return reply.value


async def failure(session: Session, called: str, /, **arguments: Any) -> str:
    reply = await session.call(called, arguments)
    assert reply.is_error
    return reply.text


async def test_pages_are_made_changed_listed_and_deleted(session: Session):
    made = await value(session, "cms_createPage", name="Getting here")
    assert made["page"] == {
        "id": 4,
        "name": "Getting here",
        "slug": "getting-here",
        "isHome": False,
        "sections": 0,
    }
    assert "already" in await failure(session, "cms_createPage", name="Getting here")
    changed = await value(session, "cms_updatePage", page_id=4, name="How to get here")
    assert (changed["page"]["name"], changed["page"]["slug"]) == ("How to get here", "getting-here")
    listed = await value(session, "cms_listPages")
    assert [p["slug"] for p in listed["pages"]] == ["home", "rooms", "about-us", "getting-here"]
    assert (await value(session, "cms_getPage", slug="getting-here"))["id"] == 4
    assert await value(session, "cms_deletePage", page_id=4) == {
        "deleted": 4,
        "was": "How to get here",
    }
    assert "There are: 1, 2, 3" in await failure(session, "cms_getPage", page_id=4)
    assert "home page" in await failure(session, "cms_deletePage", page_id=1)


async def test_a_page_comes_with_its_sections_or_not_at_all(session: Session):
    sections = [
        {"template": "hero", "content": {"heading": "Sauna"}},
        {"template": "text", "content": {"body": "Hot."}},
    ]
    made = await value(session, "cms_createPageWithContent", name="Sauna", sections=sections)
    assert made["page"]["sections"] == 2
    listed = await value(session, "cms_getPageSections", page_id=made["page"]["id"])
    assert [s["sectionKey"] for s in listed["sections"]] == ["hero", "text"]
    wrong = [*sections, {"template": "text", "content": {"colour": "red"}}]
    told = await failure(session, "cms_createPageWithContent", name="Pool", sections=wrong)
    assert "colour" in told
    assert len((await value(session, "cms_listPages"))["pages"]) == 4


async def test_sections_are_added_read_changed_and_deleted(session: Session):
    templates = await value(session, "cms_listSectionTemplates")
    assert "hero" in [t["key"] for t in templates["templates"]]
    fields = await value(session, "cms_getSectionFields", template="hero")
    assert {"name": "image", "kind": "image"} in fields["fields"]
    added = await value(
        session,
        "cms_addSectionToPage",
        page_id=1,
        template="quote",
        content={"words": "Lovely"},
        position=1,
    )
    assert (added["sectionKey"], added["position"]) == ("quote", 1)
    listed = (await value(session, "cms_getPageSections", page_id=1))["sections"]
    assert [s["sectionKey"] for s in listed] == ["quote", "hero", "text", "quote"]
    assert [s["position"] for s in listed] == [1, 2, 3, 4]
    new = added["pageSectionId"]
    await value(session, "cms_updateSectionContent", section_id=new, content={"by": "Ann"})
    read = await value(session, "cms_getSectionContent", section_id=new)
    assert read["content"] == {"words": "Lovely", "by": "Ann"}
    assert "no field size" in await failure(
        session, "cms_updateSectionContent", section_id=new, content={"size": 3}
    )
    await value(session, "cms_deletePageSection", section_id=new)
    rest = [s["id"] for s in listed if s["id"] != new]
    assert "99" in await failure(session, "cms_deletePageSections", section_ids=[*rest, 99])
    assert len((await value(session, "cms_getPageSections", page_id=1))["sections"]) == 3
    await value(session, "cms_deletePageSections", section_ids=rest)
    assert (await value(session, "cms_getPageSections", page_id=1))["sections"] == []


async def test_images_are_found_by_what_they_show_and_set_into_sections(session: Session, cms: Cms):
    found = await value(session, "cms_searchImages", query="food on a table", limit=2)
    assert found["images"][0]["filename"] == "breakfast.png"
    scores = [image["score"] for image in found["images"]]
    assert scores == sorted(scores)
    one = (await value(session, "cms_findImage", description="der See am Morgen"))["image"]
    assert one["filename"] == "lake-morning.png"
    listed = await value(session, "cms_listAllImages", limit=4, offset=1)
    assert (len(listed["images"]), listed["total"]) == (4, 6)
    breakfast = found["images"][0]["id"]
    place: dict[str, Any] = {"section_id": 1, "image_id": breakfast}
    told = await failure(session, "cms_addImageToSection", **place, field="image")
    assert "already" in told
    told = await failure(session, "cms_updateSectionImage", **place, field="heading")
    assert "Image fields: image" in told
    await value(session, "cms_updateSectionImage", **place, field="image")
    await value(session, "cms_addImageToSection", section_id=5, image_id=breakfast, field="second")
    replaced = await value(
        session, "cms_replaceImage", old_image_id=breakfast, new_image_id=one["id"]
    )
    assert replaced["replaced"] == [1, 5]
    hero = await value(session, "cms_getSectionContent", section_id=1)
    assert hero["content"]["image"] == "/uploads/images/lake-morning.png"
    deleted = await value(session, "cms_deleteImage", image_id=one["id"])
    assert deleted["emptied"] == [1, 5]
    assert not (cms.uploads / "lake-morning.png").exists()
    hero = await value(session, "cms_getSectionContent", section_id=1)
    assert hero["content"]["image"] == ""


async def test_posts_go_from_draft_to_public_to_the_archive(session: Session):
    post = (await value(session, "cms_createPost", title="Ærlig talt", body="Words."))["post"]
    assert (post["slug"], post["status"]) == ("rlig-talt", "draft")
    await value(session, "cms_updatePost", post_id=post["id"], body="Better words.")
    assert (await value(session, "cms_publishPost", post_id=post["id"]))["post"][
        "status"
    ] == "published"
    assert (await value(session, "cms_getPost", post_id=post["id"]))["body"] == "Better words."
    assert (await value(session, "cms_archivePost", post_id=post["id"]))["post"][
        "status"
    ] == "archived"
    drafts = await value(session, "cms_listPosts", status="draft")
    assert [p["title"] for p in drafts["posts"]] == ["Plans for the summer"]
    await value(session, "cms_deletePost", post_id=post["id"])
    assert "no post" in await failure(session, "cms_getPost", post_id=post["id"])


async def test_menus_follow_their_pages(session: Session):
    page = (await value(session, "cms_createPage", name="Sauna"))["page"]
    item = (await value(session, "cms_addNavigationItem", label="Sauna", page_id=page["id"]))[
        "item"
    ]
    assert (item["url"], item["position"], item["visible"]) == ("/sauna", 4, True)
    assert "where it leads" in await failure(session, "cms_addNavigationItem", label="Nowhere")
    await value(
        session, "cms_updateNavigationItem", item_id=item["id"], label="Our sauna", position=1
    )
    assert (await value(session, "cms_toggleNavigationItem", item_id=item["id"]))["item"][
        "visible"
    ] is False
    ferry = {"label": "Ferry", "url": "https://ferry.example", "location": "footer"}
    outside = await value(session, "cms_addNavigationItem", **ferry)
    await value(session, "cms_removeNavigationItem", item_id=outside["item"]["id"])
    assert (await value(session, "cms_getNavigation", location="footer"))["items"] == []
    await value(session, "cms_deletePage", page_id=page["id"])
    menu = await value(session, "cms_getNavigation")
    assert [i["label"] for i in menu["items"]] == ["Home", "Rooms", "About us"]


async def test_entries_are_listed_and_read(session: Session):
    listed = await value(session, "cms_getCollectionEntries", collection="rooms")
    assert [e["name"] for e in listed["entries"]] == ["Lake room", "Attic room", "Family room"]
    assert (await value(session, "cms_getEntryContent", entry_id=2))["content"]["price"] == 90
    assert "rooms, team" in await failure(session, "cms_getCollectionEntries", collection="cars")


async def test_content_is_found_by_meaning_and_by_name(session: Session):
    found = await value(session, "search_vector", query="bakery and flour", limit=3)
    assert found["results"][0] == {
        **found["results"][0],
        "type": "Post",
        "name": "New bread in the oven",
    }
    named = await value(session, "cms_findResource", name="abuot us")
    assert named["matches"][0] == {"type": "Page", "id": 3, "name": "About us"}


async def test_stock_photos_are_searched_and_downloaded_into_our_images(session: Session, cms: Cms):
    photos = (await value(session, "pexels_searchPhotos", query="northern lights"))["photos"]
    assert photos[0]["alt"] == "Northern lights over a frozen lake"
    saved = await value(session, "pexels_downloadPhoto", photo_id=photos[0]["id"])
    assert saved["credit"] == "Jon Vik"
    again = await value(session, "pexels_downloadPhoto", photo_id=photos[0]["id"])
    names = [r["image"]["filename"] for r in (saved, again)]
    assert names[1] == names[0].replace(".png", "-2.png")
    assert (cms.uploads / names[0]).read_bytes().startswith(b"\x89PNG")
    found = await value(session, "cms_searchImages", query="aurora in the night sky", limit=1)
    assert found["images"][0]["filename"] in names
    assert "no such photo" in await failure(session, "pexels_downloadPhoto", photo_id=999)


async def test_the_web_is_searched_read_and_gathered(session: Session):
    hits = (await value(session, "web_quickSearch", query="rye bread sourdough"))["results"]
    assert hits[0]["title"] == "Baking with rye"
    page = await value(session, "web_fetchContent", url=hits[0]["url"])
    assert "sourdough" in page["text"]
    assert "never shown" not in page["text"]
    gathered = await value(
        session, "web_deepResearch", question="what do guests of small hotels want"
    )
    assert "quiet room" in gathered["findings"][0]["excerpt"]
    assert "404" in await failure(session, "web_fetchContent", url=hits[0]["url"] + "-gone")


async def test_requests_go_only_where_they_may(session: Session):
    hits = (await value(session, "web_quickSearch", query="kayaking"))["results"]
    base = hits[0]["url"].rsplit("/", 1)[0]
    got = await value(session, "http_get", url=hits[0]["url"])
    assert got["status"] == 200
    posted = await value(session, "http_post", url=f"{base}/contact", body={"name": "Ann"})
    assert posted == {"status": 201, "body": '{"received": {"name": "Ann"}}'}
    for url in ("http://169.254.169.254/latest", "file:///etc/passwd", "http://localhost:1/"):
        assert "not allowed" in await failure(session, "http_get", url=url)


async def test_a_task_is_taken_apart(session: Session):
    task = "Create an about page, then add a hero image and link it in the menu"
    plan = await value(session, "plan_analyzeTask", task=task)
    assert plan["isComplex"]
    assert [s["categories"][0] for s in plan["steps"]] == ["pages", "images", "navigation"]


@pytest.mark.behaviour("E18", "E99", "E108", "E109", "E115")
async def test_every_declared_extraction_finds_its_entities_in_real_results(
    session: Session, cms: Cms
):
    hero = {"template": "hero", "content": {}}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("cms_getPage", {"slug": "home"}),
        ("cms_createPage", {"name": "A"}),
        ("cms_createPageWithContent", {"name": "B", "sections": [hero]}),
        ("cms_updatePage", {"page_id": 2, "name": "C"}),
        ("cms_listPages", {}),
        ("cms_addSectionToPage", {"page_id": 1, "template": "quote"}),
        ("cms_getPageSections", {"page_id": 1}),
        ("cms_findImage", {"description": "lake"}),
        ("cms_searchImages", {"query": "lake"}),
        ("cms_listAllImages", {}),
        ("cms_createPost", {"title": "D", "body": "d"}),
        ("cms_updatePost", {"post_id": 1, "title": "E"}),
        ("cms_publishPost", {"post_id": 1}),
        ("cms_archivePost", {"post_id": 1}),
        ("cms_listPosts", {}),
        ("cms_getPost", {"post_id": 1}),
        ("cms_getCollectionEntries", {"collection": "team"}),
        ("pexels_searchPhotos", {"query": "lake"}),
        ("cms_findResource", {"name": "rooms"}),
        ("search_vector", {"query": "breakfast"}),
    ]
    declaring = {t.name for t in cms.tools if t.extraction} | {"cms_findResource", "search_vector"}
    assert {name for name, _ in calls} == declaring
    memory = Memory()
    for name, arguments in calls:
        before = memory.state(session.state.sections.get("memory")).entities
        await value(session, name, **arguments)
        after = memory.state(session.state.sections.get("memory")).entities
        assert after != before, name
    types = {e.type for e in memory.state(session.state.sections["memory"]).entities}
    assert {"page", "image", "photo", "entry"} & types
