"""Three scripted conversations: answered at once, after one search, after several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from toolscout.models.model import ModelRequest
from toolscout.models.scripted import Script, ScriptedCall, Turn

Kind = Literal["A", "B", "C"]


@dataclass(frozen=True, slots=True)
class Conversation:
    """What the user says, and how the model plays its part."""

    kind: Kind
    title: str
    message: str
    script: Callable[[], Script]


class Known:
    """What a model would have read in results so far."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def after(
        self, name: str, make: Callable[[dict[str, Any]], Turn]
    ) -> Callable[[ModelRequest], Turn]:
        """A turn made from the result of the call before it, which is remembered by a name."""

        def turn(request: ModelRequest) -> Turn:
            result = request.messages[-1].results[-1].result
            if result.is_error:
                return Turn(say=f"That did not work: {result.text}")
            self.values[name] = result.value
            return make(self.values)

        return turn


def call(name: str, /, **arguments: Any) -> Turn:
    return Turn(calls=(ScriptedCall(name, arguments),))


def look(query: str) -> Turn:
    return call("tool_search", query=query)


def _question() -> Script:
    answer = (
        "A page is a fixed part of the site, such as Rooms. A post is news with a date: it starts "
        "as a draft and is seen once it is published."
    )
    return [answer]


def _picture() -> Script:
    known = Known()
    return [
        look("find image"),
        call("cms_searchImages", query="the lake in the morning"),
        known.after(
            "found",
            lambda v: Turn(say=f"Take {v['found']['images'][0]['filename']}: it shows the lake."),
        ),
    ]


def _page() -> Script:
    known = Known()
    return [
        look("create page add section"),
        call("cms_createPage", name="Kayaking"),
        known.after(
            "page",
            lambda v: call(
                "cms_addSectionToPage",
                page_id=v["page"]["page"]["id"],
                template="hero",
                content={"heading": "On the water", "subheading": "Kayaks wait at the jetty"},
            ),
        ),
        known.after("section", lambda _: look("download a stock photo")),
        call("pexels_searchPhotos", query="kayak on a lake"),
        known.after(
            "photos",
            lambda v: call("pexels_downloadPhoto", photo_id=v["photos"]["photos"][0]["id"]),
        ),
        known.after("photo", lambda _: look("add image to section")),
        lambda _: call(
            "cms_addImageToSection",
            section_id=known.values["section"]["pageSectionId"],
            image_id=known.values["photo"]["image"]["id"],
            field="image",
        ),
        known.after("placed", lambda _: look("add an item to the navigation menu")),
        lambda _: call(
            "cms_addNavigationItem",
            label="Kayaking",
            page_id=known.values["page"]["page"]["id"],
        ),
        known.after("item", lambda _: look("write a post and publish it")),
        call("cms_createPost", title="Kayaks are here", body="Six of them, at the jetty."),
        known.after("post", lambda v: call("cms_publishPost", post_id=v["post"]["post"]["id"])),
        known.after(
            "published",
            lambda v: Turn(
                say=f"Done: the page {v['page']['page']['name']} has a picture and is in the menu, "
                f"and the post is {v['published']['post']['status']}."
            ),
        ),
    ]


CONVERSATIONS = (
    Conversation(
        "A",
        "a question, answered at once",
        "What is the difference between a page and a post?",
        _question,
    ),
    Conversation(
        "B", "one search", "Which of our pictures would suit the hero on the home page?", _picture
    ),
    Conversation(
        "C",
        "several searches, many steps",
        "Make a page about kayaking with a nice photo, put it in the menu, and announce it in a "
        "post.",
        _page,
    ),
)
