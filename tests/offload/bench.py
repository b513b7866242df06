"""A shelf, a clock that stands still, and a counter that is easy to aim."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolscout.catalog.result import Result
from toolscout.catalog.tool import Tool
from toolscout.disclosure.feature import DetachedSession
from toolscout.events import Event
from toolscout.offload.limits import OffloadLimits
from toolscout.offload.result_store import ResultStore


class Words:
    """One token a word: a test can say exactly how large a text is."""

    name = "words"
    is_exact = True

    def count(self, text: str) -> int:
        return len(text.split())


@dataclass
class Bench:
    """A shelf with everything around it that a test looks at."""

    folder: Path
    now: float = 1_760_000_000.0
    events: list[Event] = field(default_factory=list)

    def store(self, *, off: bool = False, show_aliases: bool = False, **limits: Any) -> ResultStore:
        return ResultStore(
            None if off else self.folder,
            limits=OffloadLimits(**limits),
            counter=Words(),
            show_aliases=show_aliases,
            clock=lambda: self.now,
            sink=self.events.append,
        )

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    def files(self) -> list[Path]:
        return sorted(p for p in self.folder.rglob("*") if p.is_file())


def tool(name: str = "report") -> Tool:
    return Tool(name=name)


def text(words: int) -> str:
    return " ".join(f"w{i}" for i in range(words))


async def ask(
    store: ResultStore, session: str = "ann", name: str = "search_large_output", **arguments: Any
) -> Result:
    return await store.call(DetachedSession(session), Tool(name=name), arguments)


async def store_result(
    store: ResultStore, body: object, *, session: str = "ann", name: str = "report"
) -> str:
    """Keep a result and give the name it was kept under, as a model would read it."""
    replaced = await store.keep(DetachedSession(session), Tool(name=name), Result.of(body))
    found = re.search(r"saved as (tool_\S+)\.", replaced.text)
    assert found, "not saved"
    return found.group(1)
