"""Shows a conversation's memory to the model behind a client, whose prompt we do not write."""

from __future__ import annotations

from dataclasses import replace

from ...catalog.result import Content, Result
from ...toolbox.session import Session
from .sessions import LRUCache

_MAX_SESSIONS = 4_000


class MemoryNotes:
    """Adds the memory to instructions, and to a search result if it has changed since."""

    def __init__(self) -> None:
        self._last_shown: LRUCache[str, str] = LRUCache(_MAX_SESSIONS)

    def add_to_instructions(self, instructions: str, session: Session | None) -> str:
        """The instructions, and the memory if the client continues a conversation."""
        memory = session.render_memory() if session is not None else ""
        if session is not None and memory:
            self._last_shown.put(session.id, memory)
        return "\n\n".join(part for part in (instructions, memory) if part)

    def add_to_result(self, result: Result, session: Session) -> Result:
        """A search result with the memory, unless it is still what the model saw last."""
        memory = session.render_memory()
        if not memory or memory == self._last_shown.get(session.id):
            return result
        self._last_shown.put(session.id, memory)
        return replace(result, content=(*result.content, Content(text=memory)), raw=None)
