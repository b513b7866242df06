"""The loose spellings a tool's name may be asked for by, kept up to date by small patches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .names import normalised
from .tool import Tool

_MOST_PATCHES = 2_000


@dataclass(frozen=True, slots=True)
class Spellings:
    """Names by normalised spelling: a large shared base, and what changed since it was built."""

    base: Mapping[str, tuple[str, ...]]
    patch: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    @classmethod
    def of(cls, tools: Iterable[Tool]) -> Spellings:
        """Every spelling of these tools."""
        found: dict[str, tuple[str, ...]] = {}
        for tool in tools:
            for spelling in _spellings(tool):
                found[spelling] = (*found.get(spelling, ()), tool.name)
        return cls(found)

    def names(self, spelling: str) -> tuple[str, ...]:
        """The names that are spelled like this, sorted."""
        return tuple(sorted(self._under(normalised(spelling))))

    def changed(self, gone: Iterable[Tool], come: Iterable[Tool]) -> Spellings | None:
        """The same after a change; None when so much changed that building anew is cheaper."""
        patch = dict(self.patch)
        for tool in gone:
            for spelling in _spellings(tool):
                kept = patch.get(spelling, self.base.get(spelling, ()))
                patch[spelling] = tuple(n for n in kept if n != tool.name)
        for tool in come:
            for spelling in _spellings(tool):
                kept = patch.get(spelling, self.base.get(spelling, ()))
                patch[spelling] = (*kept, tool.name)
        return Spellings(self.base, patch) if len(patch) <= _MOST_PATCHES else None

    def _under(self, spelling: str) -> tuple[str, ...]:
        return self.patch.get(spelling, self.base.get(spelling, ()))


def _spellings(tool: Tool) -> set[str]:
    return {normalised(tool.name), normalised(tool.local_name)}
