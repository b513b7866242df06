"""Answers read, search and query operations on stored results, within a token budget."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Iterator
from typing import assert_never

from ..catalog.result import Content, Result
from ..errors import MissingExtraError, StoreError
from ..tokens import TokenCounter, truncate_to_tokens
from .grep import GrepResult, Line, PatternError, compile_pattern, grep
from .jq_query import JqError, JqQuery, run_jq
from .limits import MAX_CHARACTERS_PER_TOKEN, OffloadLimits
from .media_types import media_content, mime_of
from .output_tools import QueryOperation, ReadOperation, SearchOperation
from .passages import OutOfRangeError, read_passage
from .result_files import UNAVAILABLE, NoSuchFileError, ResultFiles

_MAX_NAMES = 5
_MAX_CONCURRENT = 2


class ResultReader:
    """Reads, searches and queries stored results; failures become error results."""

    def __init__(self, files: ResultFiles, limits: OffloadLimits, counter: TokenCounter) -> None:
        self._files = files
        self._limits = limits
        self._counter = counter
        # Searches and queries are costly. Few run at a time, so that they cannot occupy every
        # thread of the pool, which calls and the session store need too.
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT)

    async def answer(
        self, session: str, request: ReadOperation | SearchOperation | QueryOperation
    ) -> Result:
        """Run an operation on one of the session's own results."""
        try:
            mime = mime_of(request.filename)
            match request:
                case ReadOperation():
                    read = self._read_text if mime is None else self._read_media
                    return await asyncio.to_thread(read, session, request)
                case _ if mime is not None:
                    return Result.error(f"{request.filename} is {mime}: it can only be read.")
                case SearchOperation():
                    async with self._slots:
                        return await asyncio.to_thread(self._search, session, request)
                case QueryOperation():
                    return await self._query(session, request)
                case _:
                    assert_never(request)
        except NoSuchFileError as error:
            return Result.error(f"{error} {await asyncio.to_thread(self._not_found_hint, session)}")
        except (OutOfRangeError, PatternError, JqError, MissingExtraError) as error:
            return Result.error(str(error))
        except StoreError:
            return Result.error(f"{request.filename} cannot be read: {UNAVAILABLE}. Try again.")
        except OSError as error:
            return Result.error(f"{request.filename} cannot be read: {error.strerror or error}.")

    def _not_found_hint(self, session: str) -> str:
        days = self._limits.max_age_seconds / 86_400
        names = self._files.names(session)[:_MAX_NAMES]
        stored = f"Saved now: {', '.join(names)}." if names else "No result is saved now."
        return f"Results are deleted after {days:g} days, or when the folder is full. {stored}"

    def _read_text(self, session: str, request: ReadOperation) -> Result:
        # Longer text would be cut to the budget below, so there is no need to read it.
        room = self._limits.answer_tokens * MAX_CHARACTERS_PER_TOKEN
        end = min(request.end, request.start + room - 1) if request.start > 0 else request.end
        with self._files.open(session, request.filename) as stream:
            found = read_passage(stream, start=request.start, end=end)
        text = truncate_to_tokens(
            found.text, budget_tokens=self._limits.answer_tokens, counter=self._counter
        )
        last = found.start + len(text) - 1
        if last < min(request.end, found.total):
            status = f"continue with start {last + 1}"
        elif request.end > found.total:
            status = "this is the end"
        else:
            return Result((Content(text=text),))
        note = f"[Characters {found.start:,} to {last:,} of {found.total:,}; {status}.]"
        return Result((Content(text=text), Content(text=note)))

    def _read_media(self, session: str, request: ReadOperation) -> Result:
        mime = mime_of(request.filename) or ""
        max_bytes = self._limits.answer_media_bytes
        with self._files.open(session, request.filename) as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > max_bytes:
                return Result.error(
                    f"{request.filename} is {mime} of {size:,} bytes; {max_bytes:,} can be shown."
                )
            data = base64.b64encode(stream.read()).decode()
        return Result((media_content(data, mime=mime, name=request.filename),))

    def _search(self, session: str, request: SearchOperation) -> Result:
        pattern = compile_pattern(request.pattern, case_sensitive=request.case_sensitive)
        with self._files.open(session, request.filename) as stream:
            found = grep(
                stream,
                pattern,
                max_results=request.max_results,
                seconds=self._limits.search_seconds,
            )
        if not found.matches and not found.stopped:
            return Result.of(f"No line of {request.filename} matches {request.pattern!r}.")
        return self._truncate(
            "\n".join(_render_matches(found)), "Use fewer results or a narrower pattern."
        )

    async def _query(self, session: str, request: QueryOperation) -> Result:
        query = JqQuery(request.query, is_compact=request.compact, is_raw=request.raw)
        async with self._slots:
            stream = await asyncio.to_thread(self._files.open, session, request.filename)
            with stream:
                answer = await run_jq(stream, query, limits=self._limits)
        if not answer.outputs:
            return Result.of("The query returned nothing." + _bracket_note(answer.stopped))
        return self._truncate(answer.text, "Select less.", ending=_bracket_note(answer.stopped))

    def _truncate(self, text: str, advice: str, *, ending: str = "") -> Result:
        cut = truncate_to_tokens(
            text, budget_tokens=self._limits.answer_tokens, counter=self._counter
        )
        if len(cut) < len(text):
            cut += f"\n[Cut here: the answer has {len(text):,} characters. {advice}]"
        return Result.of(cut + ending)


def _render_matches(found: GrepResult) -> Iterator[str]:
    ending = f"; {found.stopped}" if found.stopped else ""
    noun = "match" if found.matches == 1 else "matches"
    yield f"{found.matches:,} {noun}{ending}"
    before = 0
    for line in found.lines:
        if line.number > before + 1 or not before:
            yield "--"
        before = line.number
        yield _render_line(line)


def _render_line(line: Line) -> str:
    if line.character:
        return f"{line.number}: (from character {line.character:,}) …{line.text}…"
    return f"{line.number}{':' if line.is_match else '-'} {line.text}"


def _bracket_note(stopped: str) -> str:
    return f"\n[{stopped[0].upper()}{stopped[1:]}.]" if stopped else ""
