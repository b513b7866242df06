"""What an action has done, kept until the next page shows it."""

from __future__ import annotations

import secrets

from ..gateway.client.sessions import LRUCache

_MAX_NOTICES = 100


class Notices:
    """Texts by a random key: an address with a text of its own could claim anything."""

    def __init__(self) -> None:
        self._texts: LRUCache[str, str] = LRUCache(_MAX_NOTICES)

    def put(self, text: str) -> str:
        """Keep a text; returns its key."""
        key = secrets.token_urlsafe(8)
        self._texts.put(key, text)
        return key

    def take(self, key: str) -> str:
        """The text of a key, once; empty if there is none."""
        text = self._texts.get(key) or ""
        self._texts.discard(key)
        return text
