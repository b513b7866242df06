"""One conversation's state: a frozen value with legal moves, plain JSON outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Session:
    """What one conversation has loaded, searched and used, and what features keep with it.

    `sections` are named JSON texts that features above own and version themselves; nothing here
    knows what they hold. `version` counts writes, so that two writers never lose each other's.
    """

    id: str
    version: int = 0
    loaded: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    roster: str | None = None
    sections: Mapping[str, str] = field(default_factory=dict[str, str])

    def load(self, *names: str) -> Session:
        """Bring tools into view; the order of first loading never changes."""
        return replace(self, loaded=tuple(dict.fromkeys((*self.loaded, *names))))

    def unload(self, *names: str) -> Session:
        """Take tools out of view again."""
        return replace(self, loaded=tuple(n for n in self.loaded if n not in names))

    def with_section(self, name: str, text: str) -> Session:
        """Keep a feature's JSON with the session."""
        return replace(self, sections={**self.sections, name: text})
