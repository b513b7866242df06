"""Answering what the model asks of a kept result, within what one answer may cost."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Iterator
from typing import assert_never

from ..catalog.result import Content, Result
from ..errors import MissingExtra
from ..tokens import Counter, head
from .folder import Folder, NoSuchFile
from .grep import BadPattern, Found, Line, compile_pattern, grep
from .limits import Limits
from .media import mime_of, piece
from .passages import OutOfRange, passage
from .query import Ask, BadQuery, ask
from .tools import Query, Read, Search

_CHARACTERS_A_TOKEN = 16
_NAMES_TOLD = 5
_AT_ONCE = 2


class Answers:
    """Reads, searches and queries kept results; a failure is an answer that says what to do."""

    def __init__(self, folder: Folder, limits: Limits, counter: Counter) -> None:
        self._folder = folder
        self._limits = limits
        self._counter = counter
        # Costly ones wait for one another, so that they never take all threads there are.
        self._gate = asyncio.Semaphore(_AT_ONCE)

    async def answer(self, session: str, request: Read | Search | Query) -> Result:
        """What a session asks of one of its own results."""
        try:
            mime = mime_of(request.filename)
            match request:
                case Read():
                    show = self._read if mime is None else self._show
                    return await asyncio.to_thread(show, session, request)
                case _ if mime is not None:
                    return Result.error(f"{request.filename} is {mime}: it can only be read.")
                case Search():
                    async with self._gate:
                        return await asyncio.to_thread(self._search, session, request)
                case Query():
                    return await self._query(session, request)
                case _:
                    assert_never(request)
        except NoSuchFile as error:
            return Result.error(f"{error} {await asyncio.to_thread(self._advice, session)}")
        except (OutOfRange, BadPattern, BadQuery, MissingExtra) as error:
            return Result.error(str(error))
        except OSError as error:
            return Result.error(f"{request.filename} cannot be read: {error.strerror or error}.")

    def _advice(self, session: str) -> str:
        days = self._limits.max_age_seconds / 86_400
        names = self._folder.names(session)[:_NAMES_TOLD]
        kept = f"Kept now: {', '.join(names)}." if names else "Nothing is kept at the moment."
        return f"Results are kept for {days:g} days at most, less when room is short. {kept}"

    def _read(self, session: str, request: Read) -> Result:
        room = self._limits.answer_tokens * _CHARACTERS_A_TOKEN
        end = min(request.end, request.start + room - 1) if request.start > 0 else request.end
        with self._folder.open(session, request.filename) as stream:
            found = passage(stream, start=request.start, end=end)
        text = head(found.text, budget_tokens=self._limits.answer_tokens, by=self._counter)
        last = found.start + len(text) - 1
        if last < min(request.end, found.total):
            told = f"read on with start {last + 1}"
        elif request.end > found.total:
            told = "that is the end"
        else:
            return Result((Content(text=text),))
        note = f"[Characters {found.start:,} to {last:,} of {found.total:,}; {told}.]"
        return Result((Content(text=text), Content(text=note)))

    def _show(self, session: str, request: Read) -> Result:
        mime = mime_of(request.filename) or ""
        most = self._limits.answer_media_bytes
        with self._folder.open(session, request.filename) as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > most:
                return Result.error(
                    f"{request.filename} is {mime} of {size:,} bytes; {most:,} can be shown."
                )
            data = base64.b64encode(stream.read()).decode()
        return Result((piece(data, mime=mime, name=request.filename),))

    def _search(self, session: str, request: Search) -> Result:
        pattern = compile_pattern(request.pattern, case_sensitive=request.case_sensitive)
        with self._folder.open(session, request.filename) as stream:
            found = grep(
                stream,
                pattern,
                max_results=request.max_results,
                seconds=self._limits.search_seconds,
            )
        if not found.matches and not found.stopped:
            return Result.of(f"No line of {request.filename} matches {request.pattern!r}.")
        return self._bounded("\n".join(_page(found)), "Name fewer results or a closer pattern.")

    async def _query(self, session: str, request: Query) -> Result:
        question = Ask(request.query, is_compact=request.compact, is_raw=request.raw)
        async with self._gate:
            stream = await asyncio.to_thread(self._folder.open, session, request.filename)
            with stream:
                answer = await ask(stream, question, limits=self._limits)
        if not answer.outputs:
            return Result.of("The query gave nothing." + _in_brackets(answer.stopped))
        return self._bounded(answer.text, "Select less.", ending=_in_brackets(answer.stopped))

    def _bounded(self, text: str, advice: str, *, ending: str = "") -> Result:
        shown = head(text, budget_tokens=self._limits.answer_tokens, by=self._counter)
        if len(shown) < len(text):
            shown += f"\n[Cut here: the answer has {len(text):,} characters. {advice}]"
        return Result.of(shown + ending)


def _page(found: Found) -> Iterator[str]:
    ending = f"; {found.stopped}" if found.stopped else ""
    noun = "match" if found.matches == 1 else "matches"
    yield f"{found.matches:,} {noun}{ending}"
    before = 0
    for line in found.lines:
        if line.number > before + 1 or not before:
            yield "--"
        before = line.number
        yield _shown(line)


def _shown(line: Line) -> str:
    if line.character:
        return f"{line.number}: (from character {line.character:,}) …{line.text}…"
    return f"{line.number}{':' if line.is_match else '-'} {line.text}"


def _in_brackets(stopped: str) -> str:
    return f"\n[{stopped[0].upper()}{stopped[1:]}.]" if stopped else ""
