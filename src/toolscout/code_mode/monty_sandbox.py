"""A sandbox on pydantic-monty: a Python subset in worker processes without files or network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

from ..errors import require
from .limits import CodeLimits
from .sandbox import (
    CallAnswer,
    Failed,
    Finished,
    Host,
    Outcome,
    Program,
    Rejected,
    SavedState,
    TypeProblem,
    Waiting,
)

# Round trips between program and host: two or three for each call, and the names it looks up.
_SUSPENSIONS_PER_CALL = 4
_EXTRA_SUSPENSIONS = 200
_SLEEPS = ("system.async_sleep", "system.sleep")
_MAX_DEPTH = 100
_CALL = "call_tool"
_LOOKUPS = ("search", "describe")


class MontySandbox:
    """Runs programs in a pool of workers, which starts with the first program."""

    def __init__(self) -> None:
        self._monty: Any = require("pydantic_monty", extra="code")
        self._pool: Any = None
        self._start = asyncio.Lock()

    @property
    def version(self) -> str:
        """The version of pydantic-monty, which reads only states of its own."""
        return f"pydantic-monty {self._monty.__version__}"

    async def run(self, program: Program | SavedState, host: Host, limits: CodeLimits) -> Outcome:
        """Run a program, or continue one, until it ends or only waits."""
        monty = self._monty
        pool = await self._open_pool()
        run = _Run(monty, host, limits, monty.CollectString(limits.print_chars))
        try:
            async with pool.checkout(**_checkout_options(program, limits)) as session:
                try:
                    return await run.drive(await _start(session, program, run.printed))
                finally:
                    await run.stop()
        except monty.MontyTypingError as error:
            return Rejected(_read_problems(error.display()))
        except monty.MontyCrashedError:
            text = "The sandbox of the program ended unexpectedly."
            return Failed(text, run.printed.output, is_crash=True)
        except monty.MontyError as error:
            return Failed(_message_of(error), run.printed.output)

    async def close(self) -> None:
        """Stop all workers."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.__aexit__(None, None, None)

    async def _open_pool(self) -> Any:
        async with self._start:
            if self._pool is None:
                pool = self._monty.AsyncMonty(min_processes=1, max_processes=16)
                self._pool = await pool.__aenter__()
            return self._pool


@dataclass(slots=True)
class _Run:
    """One run of a program: answers what it asks, until it ends or only waits."""

    monty: Any
    host: Host
    limits: CodeLimits
    printed: Any
    calls: dict[int, asyncio.Task[CallAnswer | None]] = field(
        default_factory=dict[int, "asyncio.Task[CallAnswer | None]"]
    )
    slept: float = 0.0

    async def drive(self, snapshot: Any) -> Outcome:
        monty = self.monty
        while not isinstance(snapshot, monty.MontyComplete):
            if isinstance(snapshot, monty.AsyncNameLookupSnapshot):
                snapshot = await snapshot.resume()  # there is no such name
            elif isinstance(snapshot, monty.AsyncFunctionSnapshot):
                snapshot = await self._answer(snapshot)
            else:
                answers = await self._next_answers(snapshot.pending_call_ids)
                if not answers:
                    waiting = tuple(snapshot.pending_call_ids)
                    return Waiting(waiting, snapshot.dump(), self.printed.output)
                snapshot = await snapshot.resume(answers)
        # A call that the program did not await has started, so its end is part of the run.
        if self.calls:
            await asyncio.wait(self.calls.values())
        return Finished(_plain(snapshot.output), self.printed.output)

    async def stop(self) -> None:
        """Cancel what still runs, and wait until it has ended."""
        for task in self.calls.values():
            task.cancel()
        await asyncio.gather(*self.calls.values(), return_exceptions=True)

    async def _answer(self, snapshot: Any) -> Any:
        name = snapshot.function_name
        if snapshot.is_os_function:
            return await self._answer_system(snapshot, str(name))
        if name == _CALL:
            arguments = _call_arguments(snapshot.args, snapshot.kwargs)
            if isinstance(arguments, str):
                return await snapshot.resume({"exc_type": "TypeError", "message": arguments})
            tool, values = arguments
            work = self.host.call(snapshot.call_id, tool, values)
            self.calls[snapshot.call_id] = asyncio.ensure_future(work)
            return await snapshot.resume({"future": ...})
        if name in _LOOKUPS:
            named = {str(key): _plain(value) for key, value in snapshot.kwargs.items()}
            answer = await self.host.look_up(name, tuple(map(_plain, snapshot.args)), named)
            return await snapshot.resume(_settled(answer))
        return await snapshot.resume(
            {"exc_type": "NameError", "message": f"name {name!r} is not defined"}
        )

    async def _answer_system(self, snapshot: Any, name: str) -> Any:
        # Everything else that asks for the system gets the sandbox's own refusal.
        if name not in _SLEEPS or not snapshot.args:
            return await snapshot.resume_not_handled()
        seconds = max(0.0, float(snapshot.args[0]))
        self.slept += seconds
        if self.slept > self.limits.sleep_seconds:
            text = f"a program may sleep {self.limits.sleep_seconds:g} seconds in all"
            return await snapshot.resume({"exc_type": "TimeoutError", "message": text})
        if name == "system.sleep":
            await asyncio.sleep(seconds)
            return await snapshot.resume({"return_value": None})
        self.calls[snapshot.call_id] = asyncio.ensure_future(_sleep(seconds))
        return await snapshot.resume({"future": ...})

    async def _next_answers(self, pending: list[int]) -> Mapping[int, Any]:
        """The answers of the calls that end next; empty if none of them runs any more."""
        while running := {n: task for n in pending if (task := self.calls.get(n)) is not None}:
            await asyncio.wait(running.values(), return_when=asyncio.FIRST_COMPLETED)
            answers: dict[int, Any] = {}
            for number, task in running.items():
                if not task.done():
                    continue
                del self.calls[number]
                answer = task.result()
                if answer is not None:
                    answers[number] = _settled(answer)
            if answers:
                return answers
        return {}


async def _sleep(seconds: float) -> CallAnswer:
    await asyncio.sleep(seconds)
    return CallAnswer()


def _checkout_options(program: Program | SavedState, limits: CodeLimits) -> Mapping[str, Any]:
    options: dict[str, Any] = {
        "limits": {
            "max_feed_duration_secs": limits.cpu_seconds,
            "max_memory": limits.memory_bytes,
            "max_suspensions": limits.calls * _SUSPENSIONS_PER_CALL + _EXTRA_SUSPENSIONS,
        },
        "os_policy": {"sleep": "call_host"},
    }
    if isinstance(program, Program) and program.stubs:
        options |= {
            "type_check": True,
            "type_check_stubs": program.stubs,
            "type_check_format": "json",
        }
    return options


async def _start(session: Any, program: Program | SavedState, printed: Any) -> Any:
    if isinstance(program, SavedState):
        snapshot = await session.load_snapshot(program.data, print_callback=printed)
        answers = {n: _settled(answer) for n, answer in program.answers.items()}
        return await snapshot.resume(answers) if answers else snapshot
    if program.prelude:
        await session.feed_run(program.prelude, skip_type_check=True)
    return await session.feed_start(program.code, print_callback=printed)


def _call_arguments(
    values: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[str, Mapping[str, Any]] | str:
    """The tool and the arguments of a `call_tool`, or a text that says what is wrong."""
    given = dict(zip(("name", "arguments"), values, strict=False)) | dict(named)
    name, arguments = given.pop("name", None), given.pop("arguments", None)
    if given or len(values) > 2 or not isinstance(name, str):
        return 'call_tool takes a name and a dictionary: await call_tool("name", {"key": value})'
    plain: object = _plain(arguments) if arguments is not None else {}
    if not isinstance(plain, dict):
        return f"the arguments of {name} must be a dictionary"
    return name, cast("dict[str, Any]", plain)


def _settled(answer: CallAnswer) -> Mapping[str, Any]:
    if answer.error:
        return {"exc_type": "RuntimeError", "message": answer.error}
    return {"return_value": answer.value}


def _plain(value: Any, depth: int = 0) -> Any:
    """A value of the sandbox as JSON has it; anything else as text, and what is too deep not."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if depth > _MAX_DEPTH:
        return "..."
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return {str(key): _plain(item, depth + 1) for key, item in items}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, depth + 1) for item in cast("list[Any]", value)]
    return str(value)


def _read_problems(text: str) -> tuple[TypeProblem, ...]:
    found: list[TypeProblem] = []
    with suppress(ValueError, TypeError, KeyError):
        for row in json.loads(text):
            place = row["location"]
            found.append(TypeProblem(place["row"], place["column"], str(row["message"])))
    return tuple(found) or (TypeProblem(1, 1, text.strip()),)


def _message_of(error: Any) -> str:
    """The error of a program with its lines, without names of internal files."""
    show = getattr(error, "display", None)
    return str(show()) if callable(show) else str(error)
