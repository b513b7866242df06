"""A recorded conversation, led again on each surface, to see what it would cost there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..catalog.catalog import Catalog
from ..catalog.tool import Tool
from ..disclosure.discovery import Outcome, discover
from ..disclosure.profile import Profile
from ..disclosure.profiles import DEFAULT, EVERYTHING
from ..disclosure.rendering import ToolRenderer
from ..disclosure.session_state import SessionState
from ..disclosure.surface import SurfaceChoice
from ..disclosure.target import Target
from ..disclosure.tool_list import ToolEntry
from ..disclosure.view import View, view
from ..search.engine import Engine
from ..tokens import TokenCounter, default_counter
from .caching import Bill, ReplayRequest, compute_bill, prices_for
from .conversation import RecordedCall, RecordedMessage, RecordedSearch, RecordedTurn

_SURFACES: tuple[SurfaceChoice, ...] = ("load", "dispatch", "native")


def compare_surfaces(
    steps: Sequence[RecordedTurn],
    *,
    target: Target | str,
    engine: Engine,
    profile: Profile = DEFAULT,
    by: TokenCounter | None = None,
) -> dict[str, Bill]:
    """The bill of a conversation with everything in view, and on each surface the model has."""
    target = Target.of(target)
    by = by or default_counter()
    rates = prices_for(target)
    bills = {"everything": compute_bill(replay(steps, EVERYTHING, target, engine), rates, by=by)}
    for surface in _SURFACES:
        chosen = replace(profile, surface=surface)
        requests = replay(steps, chosen, target, engine)
        if requests:
            bills[surface] = compute_bill(requests, rates, by=by)
    return bills


def replay(
    steps: Sequence[RecordedTurn], profile: Profile, target: Target, engine: Engine
) -> tuple[ReplayRequest, ...]:
    """The requests that lead through a conversation; none if the model lacks the surface."""
    led = _ConversationReplay(profile, target, engine)
    if profile.surface == "native" and led.view.surface != "native":
        return ()
    for step in steps:
        match step:
            case RecordedMessage("user", text):
                led.add_message({"role": "user", "content": text})
            case RecordedMessage(_, text):
                led.send_request(
                    json.dumps({"role": "assistant", "content": text}, ensure_ascii=False)
                )
            case RecordedSearch(queries):
                led.search(queries)
            case RecordedCall():
                led.call(step)
    return tuple(led.requests)


@dataclass
class _ConversationReplay:
    """A conversation in progress."""

    profile: Profile
    target: Target
    engine: Engine
    session: SessionState = field(default_factory=lambda: SessionState("replay"))
    messages: list[str] = field(default_factory=list[str])
    requests: list[ReplayRequest] = field(default_factory=list[ReplayRequest])

    def __post_init__(self) -> None:
        self.view = self._refresh_view()

    @property
    def catalog(self) -> Catalog:
        return self.engine.catalog

    def _refresh_view(self) -> View:
        seen = view(self.profile, self.catalog, self.session, target=self.target)
        self.session = seen.session
        return seen

    def add_message(self, message: object) -> None:
        self.messages.append(_compact_json(message))

    def send_request(self, output: str) -> None:
        """One request: all there is so far, and what the model answers."""
        self.view = self._refresh_view()
        self.requests.append(
            ReplayRequest(
                tools=tuple(
                    _compact_json(t) for t in _tool_definitions(self.view) if not _is_deferred(t)
                ),
                system=self.view.instructions,
                messages=tuple(self.messages),
                output=output,
            )
        )
        self.messages.append(output)

    def search(self, queries: Sequence[str]) -> None:
        """Look for tools, where they need finding."""
        search = self.profile.tool_for("search")
        if search is None or self.view.surface == "direct":
            return
        asked = queries[0] if len(queries) == 1 else [*queries]
        self.send_request(_compact_json({"name": search.name, "arguments": {"query": asked}}))
        outcome = self._discover(search.name, {"query": asked})
        self.add_message({"role": "tool", "content": self._answer_content(outcome)})

    def call(self, step: RecordedCall) -> None:
        """Call a tool; one that is not callable yet is fetched by its name first."""
        tool = self.catalog.get(step.name)
        if tool is not None and not self._is_callable(tool):
            self._fetch(step.name)
        wrapped = {"name": step.name, "arguments": json.loads(step.arguments)}
        call = self.profile.tool_for("call")
        if self.view.surface == "dispatch" and call is not None:
            wrapped = {"name": call.name, "arguments": wrapped}
        self.send_request(_compact_json(wrapped))
        self.add_message({"role": "tool", "content": step.result})

    def _is_callable(self, tool: Tool) -> bool:
        return tool.name in self.session.loaded or tool.name in self.view.names.values()

    def _fetch(self, name: str) -> None:
        describe = self.profile.tool_for("describe")
        if self.view.surface != "dispatch" or describe is None:
            self.search((f"select:{name}",))
            return
        self.send_request(_compact_json({"name": describe.name, "arguments": {"names": [name]}}))
        outcome = self._discover(describe.name, {"names": [name]})
        self.add_message({"role": "tool", "content": outcome.result.text})

    def _discover(self, name: str, arguments: dict[str, object]) -> Outcome:
        outcome = discover(
            self.profile,
            name,
            arguments,
            session=self.session,
            engine=self.engine,
            catalog=self.catalog,
        )
        self.session = outcome.session
        return outcome

    def _answer_content(self, outcome: Outcome) -> object:
        """What the model reads: the words, or the definitions that its provider puts there, and
        what is said beside them."""
        if not self.view.mechanism or not outcome.loaded:
            return outcome.result.text
        loaded = [ToolEntry(self.catalog[n]) for n in outcome.loaded]
        written = ToolRenderer(target=self.target).render(loaded).written
        return [*(w.value for w in written), *(c.text for c in outcome.result.content[1:])]


def _tool_definitions(seen: View) -> Iterator[dict[str, Any]]:
    """Tool by tool, also where a provider wraps them all into one."""
    for tool in seen.tools:
        yield from tool.get("function_declarations", [tool])


def _is_deferred(tool: dict[str, object]) -> bool:
    return tool.get("defer_loading") is True


def _compact_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
