"""Rules from folders of Markdown files, reloaded when the files change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from ..catalog.problem import Problem
from ..catalog.tool import Tool
from ..disclosure.feature import Feature
from ..errors import ConfigError, MissingExtraError, require
from ..events import RulesChangeEvent, RulesFailureEvent, Sink, ignore, stamp_sink
from ..tokens import TokenCounter
from .rulebook import RULE_BUDGET_TOKENS, Rulebook, RuleKey, RuleKind, lint_rules
from .text_files import MAX_BYTES, TextFileError, read_text

_FOLDERS: Mapping[str, RuleKind] = {"": "category", "servers": "server", "tools": "tool"}
# watchfiles collects changes for at most the first time, and reports them once nothing changes
# for the second: an editor saves a file in several steps.
_DEBOUNCE_MS = 200
_STEP_MS = 20
# Without watchfiles the files are checked at this interval.
_POLL_SECONDS = 1.0


class Rules(Feature):
    """Rules for using categories, servers and single tools.

    In a folder, `images.md` is for the category `images`, `servers/github.md` for a server, and
    `tools/send_email.md` for one tool; a path to such a file alone works as well. Of two rules for
    the same name the later path counts. Rules passed as arguments are added to them. A file that
    becomes unreadable keeps its last good text and is reported in `problems`. With `is_watched`
    edits take effect while the toolbox is open.
    """

    health_key = "rules"

    def __init__(
        self,
        *paths: Path | str,
        categories: Mapping[str, str] | None = None,
        servers: Mapping[str, str] | None = None,
        tools: Mapping[str, str] | None = None,
        max_bytes: int = MAX_BYTES,
        sink: Sink = ignore,
        is_watched: bool = False,
    ) -> None:
        self._paths = tuple(Path(path) for path in paths)
        self._inline = {
            **{RuleKey("category", name): text for name, text in (categories or {}).items()},
            **{RuleKey("server", name): text for name, text in (servers or {}).items()},
            **{RuleKey("tool", name): text for name, text in (tools or {}).items()},
        }
        self._max_bytes = max_bytes
        self._sink = stamp_sink(sink)
        self._book = Rulebook(self._inline)
        self._problems: tuple[Problem, ...] = ()
        self._is_watched = is_watched
        self._watching = AsyncExitStack()
        for path in self._paths:
            if not path.is_dir() and not (path.suffix == ".md" and path.is_file()):
                raise ConfigError(
                    f"There is no folder of rules at {path}.",
                    hint="Make it, or name another folder or Markdown file.",
                )
        self.reload()

    @property
    def book(self) -> Rulebook:
        """The rules as they are now."""
        return self._book

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Files that the last reload could not read."""
        return self._problems

    def text_for(self, tools: Sequence[Tool]) -> str:
        """All rules that apply to some tools."""
        return self._book.text_for(tools)

    def deliver(self, section: str | None, tools: Sequence[Tool]) -> tuple[str, str]:
        """The rules not delivered yet for some tools, and the section that records them."""
        return self._book.deliver(section, tools)

    def mark_compacted(self, section: str | None) -> str | None:  # noqa: ARG002 - whatever it was
        """Mark all rules as not delivered: the messages that had them are gone."""
        return None

    def lint(
        self,
        tools: Sequence[Tool],
        *,
        budget_tokens: int = RULE_BUDGET_TOKENS,
        budgets: Mapping[str, int] | None = None,
        counter: TokenCounter | None = None,
    ) -> tuple[Problem, ...]:
        """Rules over their budget, categories without rules, and rules without tools."""
        warnings = lint_rules(
            self._book, tools, budget_tokens=budget_tokens, budgets=budgets or {}, counter=counter
        )
        return (*self._problems, *warnings)

    def health(self) -> tuple[Literal["ok", "degraded"], dict[str, Any]]:
        """The status of the rules: degraded while a file cannot be read."""
        facts = {
            "rules": len(self._book.texts),
            "problems": [str(problem) for problem in self._problems],
        }
        return "degraded" if self._problems else "ok", facts

    def reload(self) -> tuple[str, ...]:
        """Read the files again; return the rules that were added, changed or removed."""
        return self._apply(*self._read_files())

    def _apply(self, book: Rulebook, problems: tuple[Problem, ...]) -> tuple[str, ...]:
        before, old_problems = self._book, self._problems
        self._book, self._problems = book, problems
        changed = tuple(
            str(key)
            for key in {**before.texts, **self._book.texts}
            if before.texts.get(key) != self._book.texts.get(key)
        )
        if changed:
            self._sink(RulesChangeEvent(rules=changed))
        # Only new problems: otherwise each change of a file would report the broken ones again.
        for problem in self._problems:
            if problem not in old_problems:
                self._sink(RulesFailureEvent(problem=str(problem)))
        return changed

    @asynccontextmanager
    async def watch(self) -> AsyncGenerator[None, None]:
        """Reload the files on every change, while this context is open."""
        if not self._paths:
            raise ConfigError("There is no folder of rules to watch.", hint="Give Rules a folder.")
        watchfiles = require("watchfiles", extra="watch")
        stop = asyncio.Event()
        changes = watchfiles.awatch(
            *self._watched_folders, stop_event=stop, debounce=_DEBOUNCE_MS, step=_STEP_MS
        )
        task = asyncio.create_task(self._reload_on_change(changes))
        # Let the task start, so that the watch is active, and then pick up what changed before it.
        await asyncio.sleep(0)
        self.reload()
        try:
            yield
        finally:
            stop.set()
            await task

    @property
    def _watched_folders(self) -> tuple[Path, ...]:
        # Many editors save a file by putting another in its place, which a watch of the file itself
        # would lose.
        return tuple(dict.fromkeys(p if p.is_dir() else p.parent for p in self._paths))

    async def start(self) -> None:
        """Watch the files from now on, if that was asked for."""
        if not self._is_watched or not self._paths:
            return
        try:
            await self._watching.enter_async_context(self.watch())
        except MissingExtraError:
            await self._watching.enter_async_context(self._poll())

    async def close(self) -> None:
        """Stop watching the files."""
        await self._watching.aclose()

    @asynccontextmanager
    async def _poll(self) -> AsyncGenerator[None, None]:
        """Reload the files regularly, for installations without watchfiles."""
        task = asyncio.create_task(self._reload_regularly())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _reload_regularly(self) -> None:
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            self._apply(*await asyncio.to_thread(self._read_files))

    async def _reload_on_change(self, changes: AsyncIterator[object]) -> None:
        async for _ in changes:
            self._apply(*await asyncio.to_thread(self._read_files))

    def _read_files(self) -> tuple[Rulebook, tuple[Problem, ...]]:
        texts = dict(self._inline)
        problems: list[Problem] = []
        missing = [path for path in self._paths if path.suffix != ".md" and not path.is_dir()]
        if missing:
            message = "no longer exists."
            return self._book, tuple(
                Problem(str(path), message, "Its last rules stay.") for path in missing
            )
        for key, path in self._rule_files():
            try:
                text = read_text(path, max_bytes=self._max_bytes).strip()
            except TextFileError as error:
                remedy = "Its last good text stays." if key in self._book.texts else "Fix it."
                problems.append(Problem(path.name, f"cannot be read: {error}.", remedy))
                text = self._book.texts.get(key, "")
            if text:
                texts[key] = text
        return Rulebook(texts), tuple(problems)

    def _rule_files(self) -> Iterator[tuple[RuleKey, Path]]:
        for path in self._paths:
            if path.suffix == ".md" and not path.is_dir():
                yield RuleKey(_FOLDERS.get(path.parent.name, "category"), path.stem), path
                continue
            for name, kind in _FOLDERS.items():
                for file in sorted((path / name).glob("*.md")):
                    yield RuleKey(kind, file.stem), file
