"""Code mode: the tool `run_code`, with which a model calls many tools in one program."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from secrets import token_hex
from typing import Any

from ..catalog.problem import Problem
from ..catalog.result import Result
from ..catalog.schema import Schema
from ..catalog.tool import Annotations, Tool
from ..disclosure.api_spec import group_of, write_api_spec
from ..disclosure.feature import CallerSession, Feature
from ..disclosure.profile import object_schema
from ..disclosure.python_stubs import (
    ToolPath,
    checker_stubs,
    prelude,
    signature_of,
    tool_path,
)
from .limits import CodeLimits
from .program_run import IS_INSIDE, ProgramRun
from .program_texts import failed_result, finished_result, rejected_result, waiting_result
from .sandbox import Failed, Finished, Outcome, Program, Rejected, Sandbox, SavedState
from .saved_programs import (
    SavedProgram,
    add_program,
    find_waiting,
    pack_state,
    remove_program,
)

RUN_CODE = Tool(
    name="run_code",
    description="Runs a Python program that calls tools: `await server.tool(name=value)`, or "
    '`await call_tool("name", {...})`. Use it for several calls, loops and filters: results stay '
    "in the program, and only what it prints and its last expression come back. "
    "`asyncio.gather` runs calls in parallel; `search(...)` and `describe(...)` find tools. A "
    "failed call raises RuntimeError. No files, network, other modules or classes with bases.",
    parameters=Schema.of(
        object_schema(
            "code",
            code={"type": "string", "description": "The program; top-level await works."},
        )
    ),
    defer="never",
)

GET_API_SPEC = Tool(
    name="get_api_spec",
    description="Returns the OpenAPI document of a server's tools, or of one of them.",
    parameters=Schema.of(
        object_schema(
            "server_name",
            server_name={"type": "string", "description": "A server of the index."},
            tool_name={"type": "string", "description": "Only this tool of it."},
        )
    ),
    defer="never",
    annotations=Annotations(read_only=True, idempotent=True),
)

_ATTRIBUTE = re.compile(r"\b([A-Za-z_]\w*)\s*\.\s*([A-Za-z_]\w*)")
_QUOTED = re.compile(r"""(?P<quote>['"])(?P<text>[^'"\\\n]{1,200})(?P=quote)""")


class CodeMode(Feature):
    """Runs the programs of a model in a sandbox whose only door is the caller's own session."""

    health_key = "code"
    runs_programs = True

    def __init__(
        self,
        sandbox: Sandbox | None = None,
        limits: CodeLimits | None = None,
        *,
        gives_api_specs: bool = False,
    ) -> None:
        if sandbox is None:
            from .monty_sandbox import MontySandbox

            sandbox = MontySandbox()
        self._sandbox = sandbox
        self._limits = limits or CodeLimits()
        self._gives_api_specs = gives_api_specs
        self._names: Mapping[ToolPath, Sequence[str]] = {}
        self._groups: Mapping[str, Sequence[str]] = {}

    async def close(self) -> None:
        """Stop the workers."""
        await self._sandbox.close()

    def update_tools(self, tools: Iterable[Tool]) -> Sequence[Problem]:
        """Take over a changed catalog."""
        names: dict[ToolPath, list[str]] = defaultdict(list)
        groups: dict[str, list[str]] = defaultdict(list)
        for tool in tools:
            groups[group_of(tool)].append(tool.name)
            if (path := tool_path(tool)) is not None:
                names[path].append(tool.name)
        self._names, self._groups = names, groups
        return ()

    def tools(self) -> Sequence[Tool]:
        """The tool that runs programs, and perhaps the one that describes tools for them."""
        return (GET_API_SPEC, RUN_CODE) if self._gives_api_specs else (RUN_CODE,)

    async def call(
        self, session: CallerSession, tool: Tool, arguments: Mapping[str, Any]
    ) -> Result:
        """Check a program, run it, and answer with its result; or describe tools for one."""
        if tool.name == GET_API_SPEC.name:
            return self._describe(session, arguments)
        code = arguments.get("code")
        if not isinstance(code, str) or not code.strip():
            return Result.error(
                f'{tool.name} takes the program as text: {{"code": "..."}}',
                code="invalid_arguments",
            )
        if IS_INSIDE.get():
            return Result.error("A program cannot run another program.", code="refused")
        if len(code) > self._limits.code_chars:
            text = f"The program has {len(code):,} characters; {self._limits.code_chars:,} may be."
            return Result.error(text, code="invalid_arguments")
        paths = self._find_tools(session, code)
        tools = session.tools(*_named_tools(code), *paths.values())
        run = ProgramRun(session, self._limits)
        program = Program(code=code, stubs=checker_stubs(tools, paths), prelude=prelude(paths))
        outcome = await self._sandbox.run(program, run, self._limits)
        if isinstance(outcome, Rejected):
            return rejected_result(outcome, code, map(signature_of, tools))
        return await self._reply(session, run, outcome, id=token_hex(8))

    def _describe(self, session: CallerSession, arguments: Mapping[str, Any]) -> Result:
        server, name = arguments.get("server_name"), arguments.get("tool_name")
        tools = session.tools(*self._groups.get(str(server), ()))
        if not tools:
            return Result.error(f"There is no server {server!r}. Choose one of the index.")
        wanted = tuple(tool for tool in tools if not name or name in (tool.local_name, tool.name))
        if not wanted:
            return Result.error(f"{server} has no tool {name!r}. Choose one of the index.")
        return Result.of(write_api_spec(str(server), wanted))

    def waits_for(self, section: str | None, need: str, *, principal: str) -> bool:
        """Whether a program waits for this approval or answer."""
        return find_waiting(section, need, principal=principal) is not None

    async def resume(
        self, session: CallerSession, need: str, result: Result, *, still_needs: str = ""
    ) -> Result | None:
        """Continue the program that waits for this approval or answer."""
        saved = find_waiting(await session.read_section(), need, principal=session.principal)
        if saved is None:
            return None
        # First, so that the same state is never continued twice.
        await session.update_section(lambda text: remove_program(text, saved.id))
        call = next(call for call, known in saved.waiting.items() if known == need)
        run = ProgramRun(session, self._limits, saved.lines)
        run.waiting = {other: known for other, known in saved.waiting.items() if other != call}
        if still_needs:
            run.waiting[call] = still_needs
            return await self._save(session, run, saved)
        if saved.version != self._sandbox.version:
            text = "The program cannot continue: it was started by another version of the sandbox."
            return failed_result(Failed(text, saved.printed), run.lines)
        state = SavedState(saved.data, {call: run.settle(call, result)})
        outcome = await self._sandbox.run(state, run, self._limits)
        return await self._reply(session, run, outcome, id=saved.id, printed=saved.printed)

    async def _reply(
        self,
        session: CallerSession,
        run: ProgramRun,
        outcome: Outcome,
        *,
        id: str,  # noqa: A002 - as the record calls it
        printed: str = "",
    ) -> Result:
        if isinstance(outcome, Finished):
            outcome = replace(outcome, printed=printed + outcome.printed)
            return finished_result(outcome, run.lines)
        if isinstance(outcome, Failed):
            return failed_result(replace(outcome, printed=printed + outcome.printed), run.lines)
        assert not isinstance(outcome, Rejected), "a program that continues was checked before"
        if len(outcome.state) > self._limits.state_bytes:
            text = "The program holds too much data to wait for an approval. Split it: make the"
            text += " call that needs one in a program of its own."
            return failed_result(Failed(text, printed + outcome.printed), run.lines)
        saved = SavedProgram(
            id=id,
            principal=session.principal,
            version=self._sandbox.version,
            state=pack_state(outcome.state),
            waiting=run.waiting,
            lines=tuple(run.lines),
            printed=printed + outcome.printed,
        )
        return await self._save(session, run, saved)

    async def _save(self, session: CallerSession, run: ProgramRun, saved: SavedProgram) -> Result:
        kept = replace(saved, waiting=run.waiting)
        await session.update_section(lambda text: add_program(text, kept))
        await session.wait_for(*run.waiting.values())
        return waiting_result(run.lines)

    def _find_tools(self, session: CallerSession, code: str) -> Mapping[ToolPath, str]:
        """The tools that a program names as attributes; a form that means two tools means none."""
        found: dict[ToolPath, str] = {}
        for match in _ATTRIBUTE.finditer(code):
            path = ToolPath(match[1], match[2])
            # Counted among those that the caller may use, so that no other tool shows.
            tools = session.tools(*self._names.get(path, ()))
            if len(tools) == 1:
                found[path] = tools[0].name
        return found


def _named_tools(code: str) -> Sequence[str]:
    """The texts in a program that may be names of tools."""
    return [*dict.fromkeys(match["text"] for match in _QUOTED.finditer(code))]
