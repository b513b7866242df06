"""Tools for the menus at the top and the bottom of every page."""

from __future__ import annotations

from typing import Any, Literal

from toolscout import tool

from .database import Database

Location = Literal["header", "footer"]


class Navigation:
    def __init__(self, database: Database) -> None:
        self._database = database

    @tool(
        name="cms_getNavigation",
        category="navigation",
        phrases=["get navigation", "show the menu", "what is in the menu"],
        related=["cms_addNavigationItem", "cms_updateNavigationItem"],
        risk="safe",
    )
    def get(self, location: Location = "header") -> dict[str, Any]:
        """Show a menu with all its items, hidden ones too.

        Args:
            location: Which menu.
        """
        rows = self._database.all(
            "SELECT * FROM navigation WHERE location = ? ORDER BY position, id", location
        )
        return {"location": location, "items": [_to_dict(row) for row in rows]}

    @tool(
        name="cms_addNavigationItem",
        category="navigation",
        phrases=["add navigation item", "add a link to the menu", "new menu item"],
        related=["cms_getNavigation", "cms_listPages"],
        risk="moderate",
    )
    def add(
        self, label: str, url: str = "", page_id: int = 0, location: Location = "header"
    ) -> dict[str, Any]:
        """Add an item to the end of a menu, to a page of ours or to an address.

        Args:
            label: What the item says.
            url: Where it leads, unless it is a page of ours.
            page_id: The page it leads to.
            location: Which menu.
        """
        if page_id:
            page = self._database.get("pages", page_id, noun="page")
            url = "/" if page["is_home"] else f"/{page['slug']}"
        if not url:
            raise ValueError("Say where it leads: give a url or a page_id.")
        made = self._database.change(
            "INSERT INTO navigation (label, url, location, page_id, position) VALUES (?, ?, ?, ?, "
            "(SELECT coalesce(max(position), 0) + 1 FROM navigation WHERE location = ?))",
            *(label, url, location, page_id or None, location),
        )
        return {"item": self._item(made)}

    @tool(
        name="cms_updateNavigationItem",
        category="navigation",
        phrases=["update navigation item", "rename a menu item", "update navigation menu"],
        related=["cms_getNavigation"],
        risk="moderate",
    )
    def update(
        self, item_id: int, label: str = "", url: str = "", position: int = 0
    ) -> dict[str, Any]:
        """Change what a menu item says, where it leads or where it stands.

        Args:
            item_id: The item's id.
            label: A new label, if it is to change.
            url: A new address, if it is to change.
            position: A new place, counted from 1, if it is to move.
        """
        row = self._database.get("navigation", item_id, noun="menu item")
        values = (label or row["label"], url or row["url"], position or row["position"], item_id)
        self._database.change(
            "UPDATE navigation SET label = ?, url = ?, position = ? WHERE id = ?", *values
        )
        return {"item": self._item(item_id)}

    @tool(
        name="cms_removeNavigationItem",
        category="navigation",
        phrases=["remove navigation item", "take a link out of the menu"],
        related=["cms_getNavigation", "cms_toggleNavigationItem"],
        risk="moderate",
    )
    def remove(self, item_id: int) -> dict[str, Any]:
        """Take an item out of its menu; the page it leads to stays.

        Args:
            item_id: The item's id.
        """
        row = self._database.get("navigation", item_id, noun="menu item")
        self._database.change("DELETE FROM navigation WHERE id = ?", item_id)
        return {"removed": item_id, "was": row["label"]}

    @tool(
        name="cms_toggleNavigationItem",
        category="navigation",
        phrases=["toggle navigation item", "hide a menu item", "show a menu item again"],
        related=["cms_getNavigation"],
        risk="moderate",
    )
    def toggle(self, item_id: int) -> dict[str, Any]:
        """Hide a menu item, or show it again.

        Args:
            item_id: The item's id.
        """
        self._database.get("navigation", item_id, noun="menu item")
        self._database.change("UPDATE navigation SET visible = 1 - visible WHERE id = ?", item_id)
        return {"item": self._item(item_id)}

    def _item(self, item_id: int) -> dict[str, Any]:
        return _to_dict(self._database.get("navigation", item_id, noun="menu item"))

    @property
    def tools(self) -> tuple[Any, ...]:
        return self.get, self.add, self.update, self.remove, self.toggle


def _to_dict(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": row["id"],
        "label": row["label"],
        "url": row["url"],
        "location": row["location"],
        "position": row["position"],
        "visible": bool(row["visible"]),
    }
