"""Rules in a folder of Markdown files: read at start, read again on change, never lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from ..catalog.problem import Problem
from ..catalog.tool import Tool
from ..errors import ConfigError, require
from ..events import Event, Sink, ignore
from ..tokens import TokenCounter
from . import rulebook as lint
from .rulebook import Rulebook, RuleKey, RuleKind
from .text_files import MOST_BYTES, TextFileError, read_text

_FOLDERS: Mapping[str, RuleKind] = {"": "category", "servers": "server", "tools": "tool"}
_DEBOUNCE_MS = 200
_STEP_MS = 20


class Rules:
    """Rules of use for categories, servers and single tools.

    In a folder, `images.md` is for the category `images`, `servers/github.md` for a server, and
    `tools/send_email.md` for one tool; rules given here directly stand beside them. A file that
    breaks keeps its last good text and is reported in `problems`.
    """

    def __init__(
        self,
        folder: Path | str | None = None,
        *,
        categories: Mapping[str, str] | None = None,
        servers: Mapping[str, str] | None = None,
        tools: Mapping[str, str] | None = None,
        most_bytes: int = MOST_BYTES,
        sink: Sink = ignore,
    ) -> None:
        self._folder = None if folder is None else Path(folder)
        self._given = {
            **{RuleKey("category", name): text for name, text in (categories or {}).items()},
            **{RuleKey("server", name): text for name, text in (servers or {}).items()},
            **{RuleKey("tool", name): text for name, text in (tools or {}).items()},
        }
        self._most_bytes = most_bytes
        self._sink = sink
        self._book = Rulebook(self._given)
        self._problems: tuple[Problem, ...] = ()
        if self._folder is not None and not self._folder.is_dir():
            raise ConfigError(
                f"There is no folder of rules at {self._folder}.", hint="Make it, or name another."
            )
        self.reload()

    @property
    def book(self) -> Rulebook:
        """The rules as they are now."""
        return self._book

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Files that could not be read the last time."""
        return self._problems

    def text_for(self, tools: Sequence[Tool]) -> str:
        """All rules that some tools need."""
        return self._book.text_for(tools)

    def deliver(self, section: str | None, tools: Sequence[Tool]) -> tuple[str, str]:
        """The rules a conversation is still owed for some tools, and its section after that."""
        return self._book.deliver(section, tools)

    def lint(
        self,
        tools: Sequence[Tool],
        *,
        budget_tokens: int = lint.RULE_BUDGET_TOKENS,
        budgets: Mapping[str, int] | None = None,
        counter: TokenCounter | None = None,
    ) -> tuple[Problem, ...]:
        """Rules over their budget, categories without rules, and rules that nothing asks for."""
        found = lint.lint_rules(
            self._book, tools, budget_tokens=budget_tokens, budgets=budgets or {}, counter=counter
        )
        return (*self._problems, *found)

    def health(self) -> tuple[Literal["ok", "degraded"], dict[str, Any]]:
        """How the rules are: degraded while a file cannot be read."""
        facts = {
            "rules": len(self._book.texts),
            "problems": [str(problem) for problem in self._problems],
        }
        return "degraded" if self._problems else "ok", facts

    def reload(self) -> tuple[str, ...]:
        """Read the folder again; say which rules are new, changed or gone."""
        return self._apply(*self._read_folder())

    def _apply(self, book: Rulebook, problems: tuple[Problem, ...]) -> tuple[str, ...]:
        before, broken = self._book, self._problems
        self._book, self._problems = book, problems
        changed = tuple(
            str(key)
            for key in {**before.texts, **self._book.texts}
            if before.texts.get(key) != self._book.texts.get(key)
        )
        if changed:
            self._sink(Event("rules_changed", facts={"rules": changed}))
        for problem in self._problems:
            if problem not in broken:
                self._sink(Event("rules_failed", facts={"problem": str(problem)}))
        return changed

    @asynccontextmanager
    async def watch(self) -> AsyncGenerator[None, None]:
        """Read the folder again whenever something in it changes, as long as this is open."""
        if self._folder is None:
            raise ConfigError("There is no folder of rules to watch.", hint="Give Rules a folder.")
        watchfiles = require("watchfiles", extra="watch")
        stop = asyncio.Event()
        changes = watchfiles.awatch(
            self._folder, stop_event=stop, debounce=_DEBOUNCE_MS, step=_STEP_MS
        )
        task = asyncio.create_task(self._reload_on_change(changes))
        # The watch stands once the task has come to its first wait; what changed before counts too.
        await asyncio.sleep(0)
        self.reload()
        try:
            yield
        finally:
            stop.set()
            await task

    async def _reload_on_change(self, changes: AsyncIterator[object]) -> None:
        async for _ in changes:
            self._apply(*await asyncio.to_thread(self._read_folder))

    def _read_folder(self) -> tuple[Rulebook, tuple[Problem, ...]]:
        texts = dict(self._given)
        problems: list[Problem] = []
        if self._folder is not None and not self._folder.is_dir():
            gone = Problem(str(self._folder), "is not there any more.", "Its last rules stay.")
            return self._book, (gone,)
        for key, path in self._rule_files():
            try:
                text = read_text(path, most_bytes=self._most_bytes).strip()
            except TextFileError as error:
                remedy = "Its last good text stays." if key in self._book.texts else "Mend it."
                problems.append(Problem(path.name, f"cannot be read: {error}.", remedy))
                text = self._book.texts.get(key, "")
            if text:
                texts[key] = text
        return Rulebook(texts), tuple(problems)

    def _rule_files(self) -> Iterator[tuple[RuleKey, Path]]:
        if self._folder is None:
            return
        for name, kind in _FOLDERS.items():
            for path in sorted((self._folder / name).glob("*.md")):
                yield RuleKey(kind, path.stem), path
