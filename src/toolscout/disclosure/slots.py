"""Named pieces of text that stand at the start of a conversation, written only when they change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..errors import ConfigError
from .prompts import AVAILABLE


@dataclass(frozen=True, slots=True)
class Slots:
    """Slots in a fixed order, the list of available tools first; `writes` counts real changes."""

    names: tuple[str, ...]
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    writes: int = 0

    @classmethod
    def of(cls, *names: str) -> Slots:
        """Slots of these names after the one for available tools."""
        order = (AVAILABLE, *names)
        doubled = sorted({n for n in order if order.count(n) > 1})
        if doubled:
            raise ConfigError(
                f"Slots must have different names; given twice: {', '.join(doubled)}.",
                hint=f"{AVAILABLE} is always there.",
            )
        return cls(order)

    def write(self, name: str, text: str) -> Slots:
        """Set a slot's text; the same text is the same value, so a cached prompt stays valid."""
        if name not in self.names:
            raise ConfigError(
                f"There is no slot {name!r}.", hint=f"The slots are: {', '.join(self.names)}."
            )
        if self.texts.get(name, "") == text:
            return self
        return replace(self, texts={**self.texts, name: text}, writes=self.writes + 1)

    def write_all(self, slots: Iterable[tuple[str, str]]) -> Slots:
        """Set several, as a view gives them."""
        now = self
        for name, text in slots:
            now = now.write(name, text)
        return now

    def messages(self) -> list[dict[str, str]]:
        """The filled slots as messages of the user, to go before the conversation."""
        filled = ((n, self.texts.get(n, "")) for n in self.names)
        return [{"role": "user", "content": text} for _, text in filled if text]
