"""The call path: resolve, authorise, validate, run, offload, remember, emit.

Each step is a function of its own; a step that stops the call raises a CallError, and that becomes
the answer. Nothing raises into the loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ..catalog.clean import encodable
from ..catalog.result import Result
from ..catalog.tool import Tool
from ..disclosure.calls import Resolution, resolve
from ..disclosure.discovery import Inner, Outcome, discover, role_of
from ..disclosure.profile import Profile
from ..disclosure.session import Session
from ..errors import InvalidArguments, SchemaError, ToolscoutError, UnknownTool
from ..events import Event, Sink
from ..search.engine import Allow
from ..tokens import default_counter
from .approval import Approval, Consent, reason, refusal
from .arguments import fitted, read_arguments, taking
from .features import MEMORY, RULES, Features, Offers
from .kept import Kept, Move, T
from .live import Live
from .running import run, told

_log = logging.getLogger(__name__)
_DEPTH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Runs the calls of one conversation; any number of them at the same time."""

    kept: Kept
    live: Live
    profile: Profile
    features: Features
    allow: Allow | None
    consent: Consent
    sink: Sink
    timeout_seconds: float
    clock: Callable[[], float]

    async def call(self, name: str, arguments: object) -> Result:
        """The answer to a call, whatever is wrong with it."""
        try:
            return await self._call(read_name(name), arguments)
        except ToolscoutError as error:
            return self._refused(name, error)
        except Exception as error:  # noqa: BLE001 - nothing raises into the loop
            _log.exception("A call of %s failed inside Toolscout.", name)
            return self._refused(name, ToolscoutError(f"{name} failed: {error!r}."))

    async def _call(self, name: str, arguments: object, *, depth: int = 0) -> Result:
        """Discovery tools first, then those of features, then the catalog's."""
        role = role_of(self.profile, name, self.live.catalog)
        own = (self.profile.tool_for(role) or self.profile.bridge()) if role else None
        if own is not None and depth < _DEPTH:
            return await self._discover(name, read_arguments(own.tool, arguments), depth=depth)
        if name in self.features.answered:
            feature, tool = self.features.answered[name]
            return await self._offered(feature, tool, read_arguments(tool, arguments))
        resolution = await self._resolve(name, is_inner=depth > 0)
        if resolution.tool is None:
            return self._not_found(name, resolution)
        return await self._run(resolution.tool, read_arguments(resolution.tool, arguments))

    # Discovery

    async def _discover(self, name: str, arguments: Mapping[str, Any], *, depth: int) -> Result:
        self._emit("tool_discovery_start", tool=name, arguments=arguments)
        started = time.perf_counter()
        is_quick = role_of(self.profile, name, self.live.catalog) == "call"
        outcome, rules, failure = await self._moved(
            lambda session: self._discovered(session, name, arguments), is_quick=is_quick
        )
        if failure is not None:
            self._feature_failed("rules", name, failure)
        if outcome.call is not None:
            return await self._bridged(outcome.call, depth=depth + 1)
        if is_quick:  # it named no tool that could be run, and nothing was looked for
            said = outcome.result
            self._emit("tool_refused", tool=name, code=said.code, why=said.text)
            return told(name, said)
        asked = [e.facts for e in outcome.events if "queries" in e.facts]
        self._emit(
            "tool_discovery_result",
            tool=name,
            queries=asked[0]["queries"] if asked else (),
            confidence=asked[0].get("confidence", 0.0) if asked else 0.0,
            names=tuple(t.name for t in outcome.found),
            is_error=outcome.result.is_error,
            rules_tokens=default_counter().count(rules) if rules else 0,
            took_ms=_since(started),
        )
        if outcome.loaded:
            self._emit("tools_enabled", names=outcome.loaded)
        return told(name, outcome.result)

    async def _bridged(self, call: Inner, *, depth: int) -> Result:
        """Run the tool that a call is for; what is wrong with it is told of that tool."""
        try:
            return await self._call(call.name, call.arguments, depth=depth)
        except ToolscoutError as error:
            return self._refused(call.name, error)

    def _discovered(
        self, session: Session, name: str, arguments: Mapping[str, Any]
    ) -> tuple[Session, tuple[Outcome, str, Exception | None]]:
        guides = self.features.rules
        section, given = session.sections.get(RULES), ""
        failure: Exception | None = None

        def rules(tools: Sequence[Tool]) -> str:
            nonlocal section, given, failure
            if guides is None:
                return ""
            try:
                given, section = guides.deliver(section, tools)
            except Exception as error:  # noqa: BLE001 - a feature never costs a call its outcome
                failure = error
            return given

        outcome = discover(
            self.profile,
            name,
            arguments,
            session=session,
            engine=self.live.engine,
            catalog=self.live.catalog,
            allow=self.allow,
            rules=rules,
        )
        after = outcome.session
        if section is not None:
            after = after.with_section(RULES, section)
        return after, (outcome, given, failure)

    # Running

    async def _resolve(self, name: str, *, is_inner: bool) -> Resolution:
        # What `call_tool` names was never meant to be in view, where it is the profile's own way.
        profile = self.profile
        if is_inner and profile.tool_for("call"):
            profile = replace(profile, on_unloaded="execute")

        def move(session: Session) -> tuple[Session, Resolution]:
            resolution = resolve(
                profile,
                name,
                session=session,
                engine=self.live.engine,
                catalog=self.live.catalog,
                allow=self.allow,
            )
            return resolution.session, resolution

        return await self._moved(move, is_quick=True)

    async def _moved(self, move: Move[T], *, is_quick: bool) -> T:
        """Make a move; one that is quick and changes nothing is not worth another thread."""
        seen = self.kept.glance(move) if is_quick else None
        return seen[0] if seen else await asyncio.to_thread(self.kept.change, move)

    async def _run(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:
        ready = self._validated(tool, arguments)
        await self._approved(tool, ready)
        started = time.perf_counter()
        source = self.live.source_of(tool)
        work = source.call(tool, ready)
        try:
            result = await run(tool, work, timeout_seconds=self.timeout_seconds)
        except asyncio.CancelledError:
            self._ran(tool, _since(started), is_error=True, code="cancelled")
            raise
        took = _since(started)
        kept = await self._offloaded(tool, result)
        await self._remember(tool, result)
        self._ran(tool, took, is_error=result.is_error, code=result.code)
        return kept

    async def _offered(self, feature: Offers, tool: Tool, arguments: Mapping[str, Any]) -> Result:
        started = time.perf_counter()
        ready = arguments
        with suppress(InvalidArguments, SchemaError):
            # A feature knows best what to say of arguments that do not fit.
            ready = fitted(arguments, tool.parameters)
        work = feature.call(self.kept.session.id, tool, ready)
        result = await run(tool, work, timeout_seconds=self.timeout_seconds)
        self._ran(tool, _since(started), is_error=result.is_error, code=result.code)
        return result

    def _validated(self, tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return fitted(arguments, tool.parameters)
        except InvalidArguments as error:
            raise InvalidArguments(
                f"The arguments do not fit {tool.name}: {error.message}.",
                hint=taking(tool),
            ) from error
        except SchemaError as error:
            raise SchemaError(
                f"{tool.name} cannot be run. {error.message}", hint=error.hint
            ) from error

    async def _approved(self, tool: Tool, arguments: Mapping[str, Any]) -> None:
        verdict = self.consent.caution(tool)
        if verdict == "run":
            return
        why = reason(tool)
        session = self.kept.session.id
        approval = Approval(tool=tool, arguments=arguments, why=why, session=session)
        answer = await self.consent.of(approval, verdict)
        self._emit("approval", tool=tool.name, approved=answer.is_approved, why=why)
        if not answer.is_approved:
            raise refusal(tool, answer)

    async def _offloaded(self, tool: Tool, result: Result) -> Result:
        keeper = self.features.offload
        if keeper is None:
            return result
        try:
            kept = await keeper.keep(self.kept.session.id, tool, result)
        except Exception as error:  # noqa: BLE001 - a feature never costs a call its outcome
            self._feature_failed("offload", tool.name, error)
            return result
        if kept is not result:
            self._emit("offload", tool=tool.name, before=len(result.text), after=len(kept.text))
        return kept

    async def _remember(self, tool: Tool, result: Result) -> None:
        memory = self.features.memory

        def move(session: Session) -> tuple[Session, Exception | None]:
            session = session.used(tool.name)
            if memory is None:
                return session, None
            before = session.sections.get(MEMORY)
            try:
                section = memory.observe(before, tool, result, now=self.clock())
            except Exception as error:  # noqa: BLE001 - a feature never costs a call its outcome
                return session, error
            return session.with_section(MEMORY, section), None

        failure = await asyncio.to_thread(self.kept.change, move)
        if failure is not None:
            self._feature_failed("memory", tool.name, failure)

    # Telling

    def _not_found(self, name: str, resolution: Resolution) -> Result:
        refusal = resolution.refusal
        assert refusal is not None
        self._emit(
            "tool_not_found" if refusal.code == "unknown_tool" else "tool_refused", tool=name
        )
        return refusal

    def _refused(self, name: str, error: ToolscoutError) -> Result:
        self._emit("tool_refused", tool=name, code=error.code, why=error.message)
        return Result.error(str(error), code=error.code)

    def _ran(self, tool: Tool, took_ms: float, *, is_error: bool, code: str) -> None:
        self._emit(
            "tool_call",
            tool=tool.name,
            server=tool.server,
            is_error=is_error,
            code=code,
            took_ms=took_ms,
        )

    def _feature_failed(self, feature: str, tool: str, error: Exception) -> None:
        self._emit("feature_failed", feature=feature, tool=tool, why=repr(error))

    def _emit(self, kind: str, **facts: Any) -> None:
        self.sink(Event(kind, self.kept.session.id, facts))


def read_name(name: object) -> str:
    """The name of a tool, which is text; what else a caller may have written names none."""
    if not isinstance(name, str):
        raise UnknownTool(
            f"A {type(name).__name__} is not the name of a tool.", hint="Call a tool by its name."
        )
    return encodable(name)


def _since(started: float) -> float:
    return round((time.perf_counter() - started) * 1_000, 3)
