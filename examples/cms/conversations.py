"""Three scripted conversations: without a search, with one, and with several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from toolscout.models.model import ModelRequest
from toolscout.models.scripted import Script, ScriptedCall, Turn

Kind = Literal["A", "B", "C"]


@dataclass(frozen=True, slots=True)
class Conversation:
    """The message of the user, and the script of the model."""

    kind: Kind
    title: str
    message: str
    script: Callable[[], Script]


class ResultValues:
    """The results that a model would have read so far, by name."""

    def __init__(self) -> None:
        self.by_name: dict[str, Any] = {}

    def after(
        self, name: str, make: Callable[[dict[str, Any]], Turn]
    ) -> Callable[[ModelRequest], Turn]:
        """A turn built from the last result, which is stored under a name."""

        def turn(request: ModelRequest) -> Turn:
            result = request.messages[-1].results[-1].result
            if result.is_error:
                return Turn(say=f"That did not work: {result.text}")
            self.by_name[name] = result.value
            return make(self.by_name)

        return turn


def call(name: str, /, **arguments: Any) -> Turn:
    return Turn(calls=(ScriptedCall(name, arguments),))


def search(query: str) -> Turn:
    return call("tool_search", query=query)


def _question() -> Script:
    answer = (
        "A page is a fixed part of the site, such as Rooms. A post is news with a date: it starts "
        "as a draft and is seen once it is published."
    )
    return [answer]


def _picture() -> Script:
    values = ResultValues()
    return [
        search("find image"),
        call("cms_searchImages", query="the lake in the morning"),
        values.after(
            "found",
            lambda v: Turn(say=f"Take {v['found']['images'][0]['filename']}: it shows the lake."),
        ),
    ]


def _page() -> Script:
    values = ResultValues()
    return [
        search("create page add section"),
        call("cms_createPage", name="Kayaking"),
        values.after(
            "page",
            lambda v: call(
                "cms_addSectionToPage",
                page_id=v["page"]["page"]["id"],
                template="hero",
                content={"heading": "On the water", "subheading": "Kayaks wait at the jetty"},
            ),
        ),
        values.after("section", lambda _: search("download a stock photo")),
        call("pexels_searchPhotos", query="kayak on a lake"),
        values.after(
            "photos",
            lambda v: call("pexels_downloadPhoto", photo_id=v["photos"]["photos"][0]["id"]),
        ),
        values.after("photo", lambda _: search("add image to section")),
        lambda _: call(
            "cms_addImageToSection",
            section_id=values.by_name["section"]["pageSectionId"],
            image_id=values.by_name["photo"]["image"]["id"],
            field="image",
        ),
        values.after("placed", lambda _: search("add an item to the navigation menu")),
        lambda _: call(
            "cms_addNavigationItem",
            label="Kayaking",
            page_id=values.by_name["page"]["page"]["id"],
        ),
        values.after("item", lambda _: search("write a post and publish it")),
        call("cms_createPost", title="Kayaks are here", body="Six of them, at the jetty."),
        values.after("post", lambda v: call("cms_publishPost", post_id=v["post"]["post"]["id"])),
        values.after(
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
