"""Initial content: the website of a small guesthouse by a lake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .database import Database, slug_of
from .fake_services import make_png

_ITEM = "INSERT INTO navigation (label, url, location, position, page_id) VALUES (?, ?, ?, ?, ?)"
_TEMPLATES: dict[str, tuple[str, str, list[tuple[str, str]]]] = {
    "hero": (
        "Hero",
        "A large picture with a heading, at the top of a page.",
        [("heading", "text"), ("subheading", "text"), ("image", "image")],
    ),
    "text": ("Text", "A heading and some paragraphs.", [("heading", "text"), ("body", "markdown")]),
    "gallery": (
        "Gallery",
        "Three pictures in a row.",
        [("heading", "text"), ("first", "image"), ("second", "image"), ("third", "image")],
    ),
    "quote": ("Quote", "What a guest said.", [("words", "text"), ("by", "text")]),
    "call-to-action": (
        "Call to action",
        "A short line and a button.",
        [("heading", "text"), ("button", "text"), ("link", "url")],
    ),
}
_IMAGES = (
    ("lake-morning.png", "The lake in the morning, with mist over still water"),
    ("front-door.png", "The front door of the house with flowers beside it"),
    ("breakfast.png", "Breakfast table with bread, cheese and coffee"),
    ("double-room.png", "A double room with a window towards the lake"),
    ("mountain-path.png", "A path up the mountain behind the house"),
    ("owners.png", "Astrid and Leif, who run the guesthouse, laughing"),
)
_PAGES: dict[str, list[tuple[str, dict[str, str]]]] = {
    "Home": [
        (
            "hero",
            {
                "heading": "A quiet house by the lake",
                "subheading": "Six rooms, one view",
                "image": "/uploads/images/lake-morning.png",
            },
        ),
        ("text", {"heading": "Welcome", "body": "We have looked after guests since 1987."}),
        ("quote", {"words": "I slept as I had not slept in years.", "by": "Henrik, Bergen"}),
    ],
    "Rooms": [
        ("text", {"heading": "Our rooms", "body": "All of them look out over the water."}),
        ("gallery", {"heading": "A look inside", "first": "/uploads/images/double-room.png"}),
    ],
    "About us": [("text", {"heading": "Who we are", "body": "Astrid and Leif, and a dog."})],
}
_POSTS = (
    ("Spring has come", "The ice is gone and the boats are back.", "published"),
    ("New bread in the oven", "We bake with rye from the valley now.", "published"),
    ("Plans for the summer", "A sauna, perhaps, and more kayaks.", "draft"),
)
_ENTRIES: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "rooms": [
        ("Lake room", {"beds": 2, "price": 140, "view": "lake"}),
        ("Attic room", {"beds": 1, "price": 90, "view": "mountain"}),
        ("Family room", {"beds": 4, "price": 210, "view": "garden"}),
    ],
    "team": [
        ("Astrid Lindholm", {"role": "host"}),
        ("Leif Lindholm", {"role": "cook"}),
    ],
}


def seed(database: Database, uploads: Path) -> None:
    """Fill an empty site; do nothing if it has pages."""
    if database.one("SELECT 1 FROM pages"):
        return
    changes: list[tuple[str, tuple[object, ...]]] = []
    for key, (name, description, fields) in _TEMPLATES.items():
        listed = json.dumps([{"name": field, "kind": kind} for field, kind in fields])
        changes.append(
            ("INSERT INTO templates VALUES (?, ?, ?, ?)", (key, name, description, listed))
        )
    for number, (filename, alt) in enumerate(_IMAGES, 1):
        (uploads / filename).write_bytes(make_png(number))
        changes.append(("INSERT INTO images (filename, alt) VALUES (?, ?)", (filename, alt)))
    for number, (name, sections) in enumerate(_PAGES.items(), 1):
        slug = slug_of(name)
        is_home = number == 1
        changes.append(("INSERT INTO pages VALUES (?, ?, ?, ?)", (number, name, slug, is_home)))
        changes.append(
            (
                _ITEM,
                (name, "/" if is_home else f"/{slug}", "header", number, number),
            )
        )
        changes += (
            (
                "INSERT INTO sections (page_id, template, position, content) VALUES (?, ?, ?, ?)",
                (number, template, position, json.dumps(content)),
            )
            for position, (template, content) in enumerate(sections, 1)
        )
    for title, body, status in _POSTS:
        row = (title, slug_of(title), body, status)
        changes.append(("INSERT INTO posts (title, slug, body, status) VALUES (?, ?, ?, ?)", row))
    changes += (
        (
            "INSERT INTO entries (collection, name, content) VALUES (?, ?, ?)",
            (collection, name, json.dumps(content)),
        )
        for collection, entries in _ENTRIES.items()
        for name, content in entries
    )
    database.change_all(changes)
