"""Tools for the pages of the site."""

from __future__ import annotations

import sqlite3
from typing import Any

from pydantic import BaseModel, Field

from toolscout import tool
from toolscout.catalog.tool import Extraction

from .database import Database, slug_of
from .sections import Sections

_PAGE = Extraction("page", "page", "name")


class Draft(BaseModel):
    """A new section: its template and its fields."""

    template: str
    content: dict[str, Any] = Field(default_factory=dict)


class Pages:
    def __init__(self, database: Database, sections: Sections) -> None:
        self._database = database
        self._sections = sections

    @tool(
        name="cms_getPage",
        category="pages",
        phrases=["get page", "find page", "show page", "page details"],
        related=["cms_getPageSections", "cms_updatePage"],
        risk="safe",
        extraction=Extraction("$root", "page", "name"),
    )
    def get(self, slug: str = "", page_id: int = 0) -> dict[str, Any]:
        """Get one page by its slug or its id.

        Args:
            slug: The page's address, such as "about".
            page_id: Its id, if you have it.
        """
        if page_id:
            return self._to_dict(self._database.get("pages", page_id, noun="page"))
        row = self._database.one("SELECT * FROM pages WHERE slug = ?", slug)
        if row is None:
            known = ", ".join(r["slug"] for r in self._database.all("SELECT slug FROM pages"))
            raise LookupError(f"There is no page {slug!r}. There are: {known}.")
        return self._to_dict(row)

    @tool(
        name="cms_createPage",
        category="pages",
        phrases=["create page", "new page", "add page"],
        related=["cms_addSectionToPage", "cms_addNavigationItem"],
        risk="moderate",
        extraction=_PAGE,
    )
    def create(self, name: str, slug: str = "") -> dict[str, Any]:
        """Create an empty page.

        Args:
            name: The page's title.
            slug: Its address; made from the name if left out.
        """
        try:
            made = self._database.change(
                "INSERT INTO pages (name, slug) VALUES (?, ?)", name, slug_of(slug or name)
            )
        except sqlite3.IntegrityError as error:
            raise ValueError(f"There is a page {slug_of(slug or name)!r} already.") from error
        return {"page": self._to_dict(self._database.get("pages", made, noun="page"))}

    @tool(
        name="cms_createPageWithContent",
        category="pages",
        phrases=["create page with content", "make page with sections"],
        related=["cms_listSectionTemplates", "cms_getSectionFields"],
        risk="moderate",
        extraction=_PAGE,
    )
    def create_with_content(
        self, name: str, sections: list[Draft], slug: str = ""
    ) -> dict[str, Any]:
        """Create a page together with its sections.

        Args:
            name: The page's title.
            sections: Its sections from top to bottom, each a template and its content.
            slug: Its address; made from the name if left out.
        """
        for draft in sections:
            self._sections.check_content(draft.template, draft.content)
        page = self.create(name, slug)["page"]
        made = [self._sections.add(page["id"], d.template, d.content) for d in sections]
        return {"page": {**page, "sections": len(made)}, "sections": made}

    @tool(
        name="cms_updatePage",
        category="pages",
        phrases=["update page", "edit page", "change page"],
        related=["cms_getPage", "cms_updateSectionContent"],
        risk="moderate",
        extraction=_PAGE,
    )
    def update(self, page_id: int, name: str = "", slug: str = "") -> dict[str, Any]:
        """Change a page's name or address; its sections stay.

        Args:
            page_id: The page's id.
            name: A new title, if it is to change.
            slug: A new address, if it is to change.
        """
        row = self._database.get("pages", page_id, noun="page")
        values = (name or row["name"], slug_of(slug) if slug else row["slug"], page_id)
        self._database.change("UPDATE pages SET name = ?, slug = ? WHERE id = ?", *values)
        return {"page": self._to_dict(self._database.get("pages", page_id, noun="page"))}

    @tool(
        name="cms_deletePage",
        category="pages",
        phrases=["delete page", "remove page"],
        related=["cms_listPages"],
        risk="destructive",
        requires_confirmation=True,
    )
    def delete(self, page_id: int) -> dict[str, Any]:
        """Delete a page with all its sections and menu items; this cannot be undone.

        Args:
            page_id: The page's id.
        """
        row = self._database.get("pages", page_id, noun="page")
        if row["is_home"]:
            raise ValueError("The home page cannot be deleted.")
        self._database.change("DELETE FROM pages WHERE id = ?", page_id)
        return {"deleted": page_id, "was": row["name"]}

    @tool(
        name="cms_listPages",
        category="pages",
        phrases=["list pages", "show all pages", "what pages exist"],
        related=["cms_getPage"],
        risk="safe",
        extraction=Extraction("pages", "page", "name", is_array=True),
    )
    def list(self) -> dict[str, Any]:
        """List all pages of the site."""
        rows = self._database.all("SELECT * FROM pages ORDER BY id")
        return {"pages": [self._to_dict(row) for row in rows]}

    def _to_dict(self, row: dict[str, Any]) -> dict[str, Any]:
        count = self._database.one("SELECT count(*) n FROM sections WHERE page_id = ?", row["id"])
        return {
            "id": row["id"],
            "name": row["name"],
            "slug": row["slug"],
            "isHome": bool(row["is_home"]),
            "sections": count["n"] if count else 0,
        }

    @property
    def tools(self) -> tuple[Any, ...]:
        return (
            self.get,
            self.create,
            self.create_with_content,
            self.update,
            self.delete,
            self.list,
        )
