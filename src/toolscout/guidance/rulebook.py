"""Rules of use as a value: which of them some tools need, and which a conversation is owed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, cast

from ..catalog.names import digest, normalised
from ..catalog.tool import Tool

Kind = Literal["server", "category", "tool"]


class Key(NamedTuple):
    """What a rule is attached to."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True)
class Rulebook:
    """All rules by what they are attached to; names are matched whatever their case style."""

    texts: Mapping[Key, str] = field(default_factory=dict[Key, str])

    def keys_for(self, tools: Iterable[Tool]) -> tuple[Key, ...]:
        """The rules that some tools need, each once, in the order the tools ask for them."""
        return tuple(dict.fromkeys(key for tool in tools for key in self._of(tool)))

    def text_for(self, tools: Iterable[Tool]) -> str:
        """All rules that some tools need, with a blank line between; empty if there are none."""
        return self._joined(self.keys_for(tools))

    def owed(self, given: Mapping[str, str], tools: Iterable[Tool]) -> tuple[Key, ...]:
        """Those of them that were not given before, or have changed since."""
        return tuple(k for k in self.keys_for(tools) if given.get(str(k)) != self.mark(k))

    def mark(self, key: Key) -> str:
        """A rule's text in short, to notice that it changed."""
        return digest(self.texts[key], length=16)

    def deliver(self, section: str | None, tools: Iterable[Tool]) -> tuple[str, str]:
        """The rules a conversation is still owed, and its section with them noted as given."""
        given = _read(section)
        owed = self.owed(given, tools)
        after = {**given, **{str(key): self.mark(key) for key in owed}}
        return self._joined(owed), _written(after)

    def _joined(self, keys: Iterable[Key]) -> str:
        return "\n\n".join(self.texts[key] for key in keys)

    def _of(self, tool: Tool) -> Iterator[Key]:
        names: tuple[tuple[Kind, str], ...] = (
            ("server", tool.server),
            ("category", tool.category),
            ("tool", tool.name),
        )
        for kind, name in names:
            found = self._find(kind, name) if name else None
            if found is None and kind == "tool":
                found = self._find(kind, tool.local_name)
            if found is not None:
                yield found

    def _find(self, kind: Kind, name: str) -> Key | None:
        exact = Key(kind, name)
        if exact in self.texts:
            return exact
        loose = normalised(name)
        return next((k for k in self.texts if k.kind == kind and normalised(k.name) == loose), None)


def _read(section: str | None) -> Mapping[str, str]:
    """What was given; a section that cannot be read means that rules come once more."""
    try:
        row: object = json.loads(section) if section else {}
    except (ValueError, RecursionError):
        return {}
    given = cast("dict[str, object]", row).get("given") if isinstance(row, dict) else None
    if not isinstance(given, dict):
        return {}
    return {k: v for k, v in cast("dict[str, object]", given).items() if isinstance(v, str)}


def _written(given: Mapping[str, str]) -> str:
    row = {"schema": 1, "given": dict(given)}
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
