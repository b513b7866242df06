"""Tools for sections: the blocks of a page, each made from a template with fields."""

from __future__ import annotations

import json
from typing import Any

from toolscout import tool
from toolscout.catalog.tool import Extraction

from .database import Database

_SHIFT = "UPDATE sections SET position = position + 1 WHERE page_id = ? AND position >= ?"
_INSERT = "INSERT INTO sections (page_id, template, position, content) VALUES (?, ?, ?, ?)"


class Sections:
    def __init__(self, database: Database) -> None:
        self._database = database

    @tool(
        name="cms_listSectionTemplates",
        category="sections",
        phrases=["list section templates", "available sections", "what kinds of section are there"],
        related=["cms_getSectionFields", "cms_addSectionToPage"],
        risk="safe",
    )
    def templates(self) -> dict[str, Any]:
        """List the templates that sections can be made from."""
        rows = self._database.all("SELECT key, name, description FROM templates ORDER BY key")
        return {"templates": rows}

    @tool(
        name="cms_getSectionFields",
        category="sections",
        phrases=["section fields", "which fields does a section have", "field names of a template"],
        related=["cms_updateSectionContent", "cms_updateSectionImage"],
        risk="safe",
    )
    def fields(self, template: str) -> dict[str, Any]:
        """Get the fields of a section template, with their kinds.

        Args:
            template: The template's key, such as "hero".
        """
        return {"template": template, "fields": self.fields_of(template)}

    @tool(
        name="cms_addSectionToPage",
        category="sections",
        phrases=["add section", "insert a section into a page", "new section"],
        related=["cms_listSectionTemplates", "cms_getSectionFields"],
        risk="moderate",
        extraction=Extraction("$root", "section", "sectionKey", "pageSectionId"),
    )
    def add(
        self, page_id: int, template: str, content: dict[str, Any] | None = None, position: int = 0
    ) -> dict[str, Any]:
        """Add a section to a page.

        Args:
            page_id: The page's id.
            template: The template's key.
            content: Values for its fields.
            position: Where it goes, counted from 1; at the end if left out.
        """
        self._database.get("pages", page_id, noun="page")
        body = self.check_content(template, content or {})
        count = self._database.one("SELECT count(*) n FROM sections WHERE page_id = ?", page_id)
        last = (count["n"] if count else 0) + 1
        place = min(position, last) if position > 0 else last
        row = (page_id, template, place, json.dumps(body, ensure_ascii=False))
        made = self._database.change_all([(_SHIFT, (page_id, place)), (_INSERT, row)])
        return {"pageSectionId": made, "sectionKey": template, "position": place}

    @tool(
        name="cms_updateSectionContent",
        category="sections",
        phrases=["update section content", "change a heading", "edit text of a section"],
        related=["cms_getSectionContent", "cms_getSectionFields"],
        risk="moderate",
    )
    def update(self, section_id: int, content: dict[str, Any]) -> dict[str, Any]:
        """Change some fields of a section; the others stay.

        Args:
            section_id: The section's id.
            content: The fields to change, with their new values.
        """
        row = self._database.get("sections", section_id, noun="section")
        body = {**json.loads(row["content"]), **self.check_content(row["template"], content)}
        self.write(section_id, body)
        return {"sectionId": section_id, "content": body}

    @tool(
        name="cms_deletePageSection",
        category="sections",
        phrases=["delete section", "remove a section from a page"],
        related=["cms_getPageSections", "cms_deletePageSections"],
        risk="destructive",
        requires_confirmation=True,
    )
    def delete(self, section_id: int) -> dict[str, Any]:
        """Delete one section of a page for good.

        Args:
            section_id: The section's id.
        """
        return self.delete_many([section_id])

    @tool(
        name="cms_deletePageSections",
        category="sections",
        phrases=["delete several sections", "remove sections", "clear a page"],
        related=["cms_getPageSections", "cms_deletePageSection"],
        risk="destructive",
        requires_confirmation=True,
    )
    def delete_many(self, section_ids: list[int]) -> dict[str, Any]:
        """Delete several sections for good, all or none.

        Args:
            section_ids: The sections' ids.
        """
        for identity in section_ids:
            self._database.get("sections", identity, noun="section")
        self._database.change_all(
            [("DELETE FROM sections WHERE id = ?", (identity,)) for identity in section_ids]
        )
        return {"deleted": section_ids}

    @tool(
        name="cms_getPageSections",
        category="sections",
        phrases=["sections of a page", "list sections", "what is on a page"],
        related=["cms_getSectionContent", "cms_getPage"],
        risk="safe",
        extraction=Extraction("sections", "section", "sectionKey", is_array=True),
    )
    def of_page(self, page_id: int) -> dict[str, Any]:
        """List the sections of a page from top to bottom.

        Args:
            page_id: The page's id.
        """
        self._database.get("pages", page_id, noun="page")
        rows = self._database.all(
            "SELECT id, template, position FROM sections WHERE page_id = ? ORDER BY position",
            page_id,
        )
        sections = [
            {"id": r["id"], "sectionKey": r["template"], "position": r["position"]} for r in rows
        ]
        return {"sections": sections}

    @tool(
        name="cms_getSectionContent",
        category="sections",
        phrases=["section content", "read a section", "what does the hero say"],
        related=["cms_updateSectionContent", "cms_getPageSections"],
        risk="safe",
    )
    def content(self, section_id: int) -> dict[str, Any]:
        """Read all fields of one section.

        Args:
            section_id: The section's id.
        """
        row = self._database.get("sections", section_id, noun="section")
        return {
            "sectionId": section_id,
            "sectionKey": row["template"],
            "content": json.loads(row["content"]),
        }

    def fields_of(self, template: str) -> list[dict[str, str]]:
        row = self._database.one("SELECT fields FROM templates WHERE key = ?", template)
        if row is None:
            keys = ", ".join(r["key"] for r in self._database.all("SELECT key FROM templates"))
            raise LookupError(f"There is no template {template!r}. There are: {keys}.")
        fields: list[dict[str, str]] = json.loads(row["fields"])
        return fields

    def check_content(self, template: str, content: dict[str, Any]) -> dict[str, Any]:
        known = {field["name"] for field in self.fields_of(template)}
        if unknown := content.keys() - known:
            raise ValueError(
                f"{template!r} has no field {', '.join(sorted(unknown))}. "
                f"It has: {', '.join(sorted(known))}."
            )
        return content

    def write(self, section_id: int, content: dict[str, Any]) -> None:
        text = json.dumps(content, ensure_ascii=False)
        self._database.change("UPDATE sections SET content = ? WHERE id = ?", text, section_id)

    @property
    def tools(self) -> tuple[Any, ...]:
        return (
            self.templates,
            self.fields,
            self.add,
            self.update,
            self.delete,
            self.delete_many,
            self.of_page,
            self.content,
        )
