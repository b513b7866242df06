"""Content in SQLite: one connection, one lock, rows as dictionaries."""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

SCHEMA = """
CREATE TABLE IF NOT EXISTS pages (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, slug TEXT NOT NULL UNIQUE,
    is_home INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS templates (
    key TEXT PRIMARY KEY, name TEXT NOT NULL, description TEXT NOT NULL, fields TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS sections (
    id INTEGER PRIMARY KEY, page_id INTEGER NOT NULL REFERENCES pages(id) ON DELETE CASCADE,
    template TEXT NOT NULL REFERENCES templates(key), position INTEGER NOT NULL,
    content TEXT NOT NULL DEFAULT '{}');
CREATE TABLE IF NOT EXISTS images (
    id INTEGER PRIMARY KEY, filename TEXT NOT NULL UNIQUE, alt TEXT NOT NULL,
    credit TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS posts (
    id INTEGER PRIMARY KEY, title TEXT NOT NULL, slug TEXT NOT NULL UNIQUE, body TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'published', 'archived')));
CREATE TABLE IF NOT EXISTS navigation (
    id INTEGER PRIMARY KEY, label TEXT NOT NULL, url TEXT NOT NULL, location TEXT NOT NULL,
    position INTEGER NOT NULL, visible INTEGER NOT NULL DEFAULT 1,
    page_id INTEGER REFERENCES pages(id) ON DELETE CASCADE);
CREATE TABLE IF NOT EXISTS entries (
    id INTEGER PRIMARY KEY, collection TEXT NOT NULL, name TEXT NOT NULL, content TEXT NOT NULL);
"""


class Database:
    """The content of the site; thread-safe, and every change is atomic."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        self._connection.execute("PRAGMA foreign_keys = ON")
        self._connection.executescript(SCHEMA)
        self._lock = Lock()

    def all(self, query: str, *values: object) -> list[dict[str, Any]]:
        with self._lock:
            return [dict(row) for row in self._connection.execute(query, values)]

    def one(self, query: str, *values: object) -> dict[str, Any] | None:
        return next(iter(self.all(query, *values)), None)

    def change(self, query: str, *values: object) -> int:
        """Run one change; return the id of a new row."""
        return self.change_all([(query, values)])

    def change_all(self, changes: Sequence[tuple[str, Sequence[object]]]) -> int:
        """Run several changes in one transaction; return the id of the last new row."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                last = 0
                for query, values in changes:
                    last = self._connection.execute(query, tuple(values)).lastrowid or last
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")
            return last

    def get(self, table: str, identity: int, *, noun: str) -> dict[str, Any]:
        """A row by its id, or LookupError that lists the existing ids."""
        row = self.one(f"SELECT * FROM {table} WHERE id = ?", identity)
        if row is None:
            known = [str(r["id"]) for r in self.all(f"SELECT id FROM {table} ORDER BY id LIMIT 20")]
            raise LookupError(f"There is no {noun} {identity}. There are: {', '.join(known)}.")
        return row

    def close(self) -> None:
        self._connection.close()


def slug_of(text: str) -> str:
    """The form of a name in a URL."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")
    if not slug:
        raise ValueError(f"{text!r} has no letters to make an address of; give a slug.")
    return slug
