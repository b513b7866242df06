"""One run of a program: the host that makes its calls, with the permissions of the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, cast

from ..catalog.result import Result
from ..catalog.sanitization import compact_json
from ..disclosure.feature import CallerSession
from ..disclosure.python_stubs import WRAPPED, describe_stubs, signature_of, wraps_result
from ..errors import ToolscoutError
from .limits import CodeLimits
from .sandbox import CallAnswer
from .saved_programs import CallLine

IS_INSIDE: ContextVar[bool] = ContextVar("toolscout_inside_program", default=False)
"""Whether the current call was made by a program."""

_ARGUMENT_CHARS = 300
_MAX_HITS = 20
_LOOKUPS = 100


class ProgramRun:
    """Makes the calls of a program, counts them, and remembers what they returned."""

    def __init__(
        self, session: CallerSession, limits: CodeLimits, lines: tuple[CallLine, ...] = ()
    ) -> None:
        self._session = session
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.parallel)
        self._lookups = 0
        self.lines = list(lines)
        self.waiting: dict[int, str] = {}

    async def call(self, id: int, name: str, arguments: Mapping[str, Any]) -> CallAnswer | None:  # noqa: A002
        """Run a tool as the caller would; None if it waits for an approval or an answer."""
        if len(self.lines) >= self._limits.calls:
            return CallAnswer(
                error=f"{name} was not run: a program may make {self._limits.calls} calls."
            )
        shown = compact_json(dict(arguments))[:_ARGUMENT_CHARS]
        self.lines.append(CallLine(call=id, tool=name, arguments=shown, result="(running)"))
        async with self._slots:
            token = IS_INSIDE.set(True)
            try:
                record = await self._session.call_in_full(name, arguments)
            except BaseException:
                stopped = "(stopped: it may or may not have had an effect)"
                self._change_line(id, result=stopped, is_error=True)
                raise
            finally:
                IS_INSIDE.reset(token)
        if record.needs:
            self.waiting[id] = record.needs
            self._change_line(id, result="", is_waiting=True)
            return None
        return self.settle(id, record.result)

    def settle(self, call: int, result: Result) -> CallAnswer:
        """The answer of a call to the program, now that its result is here."""
        line = self._change_line(
            call, result=result.text, is_error=result.is_error, is_waiting=False
        )
        if result.is_error:
            return CallAnswer(error=f"{line.tool}: {result.text}")
        value = _value_of(result)
        if isinstance(value, dict) and [*cast("dict[str, Any]", value)] == [WRAPPED]:
            tools = self._session.tools(line.tool)
            value = cast("Any", value[WRAPPED] if any(map(wraps_result, tools)) else value)
        return CallAnswer(value=value)

    def _change_line(self, call: int, **facts: Any) -> CallLine:
        number = next(n for n, line in enumerate(self.lines) if line.call == call)
        self.lines[number] = replace(self.lines[number], **facts)
        return self.lines[number]

    async def look_up(
        self, function: str, values: tuple[Any, ...], named: Mapping[str, Any]
    ) -> CallAnswer:
        """CallAnswer `search` and `describe`, from the tools that the caller may use."""
        self._lookups += 1
        if self._lookups > _LOOKUPS:
            return CallAnswer(error=f"a program may search and describe {_LOOKUPS} times")
        given = dict(zip(("query", "limit"), values, strict=False)) | dict(named)
        text = given.get("query", given.get("name"))
        if not isinstance(text, str):
            return CallAnswer(error=f"{function} takes a text: {function}('list issues')")
        if function == "describe":
            return self._describe(text)
        limit = given.get("limit", 5)
        limit = min(limit, _MAX_HITS) if isinstance(limit, int) and limit > 0 else 5
        try:
            found = await asyncio.to_thread(self._session.search, text, limit=limit)
        except ToolscoutError as error:
            return CallAnswer(error=str(error))
        return CallAnswer(
            value=[
                {
                    "name": hit.tool.name,
                    "description": hit.tool.description,
                    "call": signature_of(hit.tool),
                }
                for hit in found.hits
            ]
        )

    def _describe(self, name: str) -> CallAnswer:
        tools = self._session.tools(name)
        if not tools:
            return CallAnswer(error=f"There is no tool {name!r}. Find its name with search(...).")
        return CallAnswer(value=describe_stubs(tools))


def _value_of(result: Result) -> Any:
    """What a program gets: the structured value, JSON, or text; other content as dictionaries."""
    if result.structured is not None or all(c.type == "text" for c in result.content):
        return result.value
    return [
        {
            key: value
            for key, value in (
                ("type", piece.type),
                ("text", piece.text),
                ("data", piece.data),
                ("mime", piece.mime),
                ("uri", piece.uri),
                ("name", piece.name),
            )
            if value
        }
        for piece in result.content
    ]
