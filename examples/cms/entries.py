"""Tools for entries of collections, such as rooms and people."""

from __future__ import annotations

import json
from typing import Any

from toolscout import tool
from toolscout.catalog.tool import Extraction

from .database import Database


class Entries:
    def __init__(self, database: Database) -> None:
        self._database = database

    @tool(
        name="cms_getCollectionEntries",
        category="entries",
        phrases=["collection entries", "list entries", "items of a collection"],
        related=["cms_getEntryContent"],
        risk="safe",
        extraction=Extraction("entries", "entry", "name", is_array=True),
    )
    def of_collection(self, collection: str) -> dict[str, Any]:
        """List the entries of a collection.

        Args:
            collection: The collection's name, such as "rooms".
        """
        rows = self._database.all(
            "SELECT id, name FROM entries WHERE collection = ? ORDER BY id", collection
        )
        if not rows:
            names = self._database.all("SELECT DISTINCT collection FROM entries ORDER BY 1")
            known = ", ".join(row["collection"] for row in names)
            raise LookupError(f"There is no collection {collection!r}. There are: {known}.")
        return {"collection": collection, "entries": rows}

    @tool(
        name="cms_getEntryContent",
        category="entries",
        phrases=["entry content", "details of an entry", "read an entry"],
        related=["cms_getCollectionEntries"],
        risk="safe",
    )
    def content(self, entry_id: int) -> dict[str, Any]:
        """Read one entry with all its fields.

        Args:
            entry_id: The entry's id.
        """
        row = self._database.get("entries", entry_id, noun="entry")
        return {
            "id": row["id"],
            "name": row["name"],
            "collection": row["collection"],
            "content": json.loads(row["content"]),
        }

    @property
    def tools(self) -> tuple[Any, ...]:
        return self.of_collection, self.content
