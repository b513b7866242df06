"""Replay a recorded conversation on each surface to compare what it costs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..catalog.catalog import Catalog
from ..catalog.sanitization import compact_json
from ..catalog.tool import Tool
from ..disclosure.discovery import DiscoveryOutcome, discover
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
from .cache_costs import Bill, ReplayRequest, compute_bill, prices_for
from .conversation import RecordedCall, RecordedMessage, RecordedSearch, RecordedTurn

_SURFACES: tuple[SurfaceChoice, ...] = ("load", "dispatch", "native")


def compare_surfaces(
    steps: Sequence[RecordedTurn],
    *,
    target: Target | str,
    engine: Engine,
    profile: Profile = DEFAULT,
    counter: TokenCounter | None = None,
) -> dict[str, Bill]:
    """The cost of a conversation with everything in view, and on each surface of the model."""
    target = Target.of(target)
    counter = counter or default_counter()
    prices = prices_for(target)
    whole = replay(steps, EVERYTHING, target, engine)
    bills = {"everything": compute_bill(whole, prices, counter=counter)}
    for surface in _SURFACES:
        requests = replay(steps, replace(profile, surface=surface), target, engine)
        if requests:
            bills[surface] = compute_bill(requests, prices, counter=counter)
    return bills


def replay(
    steps: Sequence[RecordedTurn], profile: Profile, target: Target, engine: Engine
) -> tuple[ReplayRequest, ...]:
    """The requests of a conversation; none if the model lacks the profile's surface."""
    replayed = _ConversationReplay(profile, target, engine)
    if profile.surface == "native" and replayed.view.surface != "native":
        return ()
    for step in steps:
        match step:
            case RecordedMessage("user", text):
                replayed.add_message({"role": "user", "content": text})
            case RecordedMessage(_, text):
                replayed.send_request(
                    json.dumps({"role": "assistant", "content": text}, ensure_ascii=False)
                )
            case RecordedSearch(queries):
                replayed.search(queries)
            case RecordedCall():
                replayed.call(step)
    return tuple(replayed.requests)


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
        fresh = view(self.profile, self.catalog, self.session, target=self.target)
        self.session = fresh.session
        return fresh

    def add_message(self, message: object) -> None:
        self.messages.append(compact_json(message))

    def send_request(self, output: str) -> None:
        """Record one request: everything so far, and the output of the model."""
        self.view = self._refresh_view()
        self.requests.append(
            ReplayRequest(
                # Deferred definitions are not in the context, so they cost nothing here.
                tools=tuple(
                    compact_json(t) for t in _tool_definitions(self.view) if not _is_deferred(t)
                ),
                system=self.view.instructions,
                messages=tuple(self.messages),
                output=output,
            )
        )
        self.messages.append(output)

    def search(self, queries: Sequence[str]) -> None:
        """Search for tools, unless all of them are in view."""
        search = self.profile.tool_for("search")
        if search is None or self.view.surface == "direct":
            return
        query = queries[0] if len(queries) == 1 else [*queries]
        self.send_request(compact_json({"name": search.name, "arguments": {"query": query}}))
        outcome = self._discover(search.name, {"query": query})
        self.add_message({"role": "tool", "content": self._answer_content(outcome)})

    def call(self, step: RecordedCall) -> None:
        """Call a tool; one that is not callable yet is looked up by name first."""
        # The recorded search may have missed the tool. A real model would look again, and that
        # lookup is part of the cost.
        tool = self.catalog.get(step.name)
        if tool is not None and not self._is_callable(tool):
            self._fetch(step.name)
        call = {"name": step.name, "arguments": json.loads(step.arguments)}
        dispatcher = self.profile.tool_for("call")
        if self.view.surface == "dispatch" and dispatcher is not None:
            call = {"name": dispatcher.name, "arguments": call}
        self.send_request(compact_json(call))
        self.add_message({"role": "tool", "content": step.result})

    def _is_callable(self, tool: Tool) -> bool:
        return tool.name in self.session.loaded or tool.name in self.view.names.values()

    def _fetch(self, name: str) -> None:
        describe = self.profile.tool_for("describe")
        if self.view.surface != "dispatch" or describe is None:
            self.search((f"select:{name}",))
            return
        self.send_request(compact_json({"name": describe.name, "arguments": {"names": [name]}}))
        outcome = self._discover(describe.name, {"names": [name]})
        self.add_message({"role": "tool", "content": outcome.result.text})

    def _discover(self, name: str, arguments: dict[str, object]) -> DiscoveryOutcome:
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

    def _answer_content(self, outcome: DiscoveryOutcome) -> object:
        """The text for the model: the reply, or on native the definitions and the side notes."""
        if not self.view.mechanism or not outcome.loaded:
            return outcome.result.text
        loaded = [ToolEntry(self.catalog[n]) for n in outcome.loaded]
        tools = ToolRenderer(target=self.target).render(loaded).tools
        return [*(t.value for t in tools), *(c.text for c in outcome.result.content[1:])]


def _tool_definitions(current: View) -> Iterator[dict[str, Any]]:
    """The definitions one by one, also where a provider wraps them into one tool."""
    for tool in current.tools:
        yield from tool.get("function_declarations", [tool])


def _is_deferred(tool: dict[str, object]) -> bool:
    return tool.get("defer_loading") is True
