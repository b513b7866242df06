"""Tools for images: files in uploads/images, searched by their description."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from toolscout import tool
from toolscout.catalog.tool import Extraction

from .database import Database
from .sections import Sections
from .similarity import TextSimilarity

_IMAGES = Extraction("images", "image", "filename", is_array=True)


class Images:
    def __init__(
        self, database: Database, sections: Sections, similarity: TextSimilarity, uploads: Path
    ) -> None:
        self._database = database
        self._sections = sections
        self._similarity = similarity
        self._uploads = uploads

    @tool(
        name="cms_findImage",
        category="images",
        phrases=["find image", "get an image by description", "which image shows"],
        related=["cms_searchImages", "cms_updateSectionImage"],
        risk="safe",
        extraction=Extraction("image", "image", "filename"),
    )
    def find(self, description: str) -> dict[str, Any]:
        """Find the one image of ours that fits a description best.

        Args:
            description: What the image shows.
        """
        ranked = self._rank(description)
        if not ranked:
            raise LookupError("There are no images yet.")
        return {"image": ranked[0]}

    @tool(
        name="cms_searchImages",
        category="images",
        phrases=[
            "search images",
            "find images",
            "find the hero image",
            "find an image to add to a section",
        ],
        related=["cms_updateSectionImage", "cms_findImage", "pexels_searchPhotos"],
        risk="safe",
        extraction=_IMAGES,
    )
    def search(self, query: str, limit: int = 5) -> dict[str, Any]:
        """Search our own images by meaning; a score closer to 0 is a better match.

        Args:
            query: What you are looking for.
            limit: How many to return.
        """
        return {"images": self._rank(query)[: max(1, limit)]}

    @tool(
        name="cms_listAllImages",
        category="images",
        phrases=["list images", "show all images", "what images do we have"],
        related=["cms_searchImages"],
        risk="safe",
        extraction=_IMAGES,
    )
    def list(self, limit: int = 50, offset: int = 0) -> dict[str, Any]:
        """List our images.

        Args:
            limit: How many to return.
            offset: How many to leave out first.
        """
        rows = self._database.all(
            "SELECT * FROM images ORDER BY id LIMIT ? OFFSET ?", limit, offset
        )
        count = self._database.one("SELECT count(*) n FROM images")
        return {"images": [to_dict(row) for row in rows], "total": count["n"] if count else 0}

    @tool(
        name="cms_addImageToSection",
        category="images",
        phrases=["add image to section", "put an image into a section"],
        related=["cms_searchImages", "cms_getSectionFields"],
        risk="moderate",
    )
    def add_to_section(self, section_id: int, image_id: int, field: str) -> dict[str, Any]:
        """Put an image into an empty image field of a section.

        Args:
            section_id: The section's id.
            image_id: The image's id.
            field: The field's name, as cms_getSectionFields gives it.
        """
        current = self._sections.content(section_id)["content"].get(field)
        if current:
            raise ValueError(f"{field!r} holds {current} already; use cms_updateSectionImage.")
        return self._put(section_id, image_id, field)

    @tool(
        name="cms_updateSectionImage",
        category="images",
        phrases=["update section image", "change the image of a section", "set the hero image"],
        related=["cms_searchImages", "cms_getSectionFields"],
        risk="moderate",
    )
    def update_section(self, section_id: int, image_id: int, field: str) -> dict[str, Any]:
        """Set the image in a section's image field, whatever is in it now.

        Args:
            section_id: The section's id.
            image_id: The image's id.
            field: The field's name, as cms_getSectionFields gives it.
        """
        return self._put(section_id, image_id, field)

    @tool(
        name="cms_replaceImage",
        category="images",
        phrases=["replace image", "swap an image everywhere"],
        related=["cms_searchImages", "cms_updateSectionImage"],
        risk="moderate",
    )
    def replace(self, old_image_id: int, new_image_id: int) -> dict[str, Any]:
        """Replace one image by another in every section that shows it.

        Args:
            old_image_id: The image to take out.
            new_image_id: The image to put in.
        """
        new = to_dict(self._database.get("images", new_image_id, noun="image"))
        return {"replaced": self._swap(old_image_id, new["url"])}

    @tool(
        name="cms_deleteImage",
        category="images",
        phrases=["delete image", "remove an image"],
        related=["cms_listAllImages", "cms_replaceImage"],
        risk="destructive",
        requires_confirmation=True,
    )
    def delete(self, image_id: int) -> dict[str, Any]:
        """Delete an image and its file for good; sections that show it are left without.

        Args:
            image_id: The image's id.
        """
        row = self._database.get("images", image_id, noun="image")
        emptied = self._swap(image_id, "")
        self._database.change("DELETE FROM images WHERE id = ?", image_id)
        (self._uploads / row["filename"]).unlink(missing_ok=True)
        return {"deleted": image_id, "emptied": emptied}

    def keep(self, filename: str, data: bytes, *, alt: str, credit: str = "") -> dict[str, Any]:
        """Store a new image; a name that is taken gets a number."""
        stem, dot, ending = filename.rpartition(".")
        name, number = filename, 1
        while (self._uploads / name).exists():
            number += 1
            name = f"{stem}-{number}{dot}{ending}"
        (self._uploads / name).write_bytes(data)
        made = self._database.change(
            "INSERT INTO images (filename, alt, credit) VALUES (?, ?, ?)", name, alt, credit
        )
        return to_dict(self._database.get("images", made, noun="image"))

    def _rank(self, query: str) -> list[dict[str, Any]]:
        rows = self._database.all("SELECT * FROM images ORDER BY id")
        scores = self._similarity.distances(query, [row["alt"] for row in rows])
        ranked = [{**to_dict(row), "score": score} for row, score in zip(rows, scores, strict=True)]
        return sorted(ranked, key=lambda image: (image["score"], image["id"]))

    def _put(self, section_id: int, image_id: int, field: str) -> dict[str, Any]:
        section = self._sections.content(section_id)
        kinds = {f["name"]: f["kind"] for f in self._sections.fields_of(section["sectionKey"])}
        if kinds.get(field) != "image":
            images = ", ".join(name for name, kind in kinds.items() if kind == "image") or "none"
            raise ValueError(
                f"{field!r} is no image field of this section. Image fields: {images}."
            )
        url = to_dict(self._database.get("images", image_id, noun="image"))["url"]
        self._sections.write(section_id, {**section["content"], field: url})
        return {"sectionId": section_id, "field": field, "url": url}

    def _swap(self, image_id: int, url: str) -> list[int]:
        old = to_dict(self._database.get("images", image_id, noun="image"))["url"]
        touched: list[int] = []
        for row in self._database.all("SELECT id, content FROM sections ORDER BY id"):
            content = json.loads(row["content"])
            if old in content.values():
                swapped = {k: url if v == old else v for k, v in content.items()}
                self._sections.write(row["id"], swapped)
                touched.append(row["id"])
        return touched

    @property
    def tools(self) -> tuple[Any, ...]:
        return (
            self.find,
            self.search,
            self.list,
            self.add_to_section,
            self.update_section,
            self.replace,
            self.delete,
        )


def to_dict(row: dict[str, Any]) -> dict[str, Any]:
    """An image as tools return it."""
    return {
        "id": row["id"],
        "filename": row["filename"],
        "url": f"/uploads/images/{row['filename']}",
        "alt": row["alt"],
    }
