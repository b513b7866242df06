"""A recorded conversation, led again on each surface, to see what it would cost there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..catalog.catalog import Catalog
from ..catalog.tool import Tool
from ..search.engine import Engine
from ..tokens import Counter, default_counter
from .caching import Bill, Request, bill, prices
from .conversation import Called, Said, Sought, Step
from .discovery import Outcome, discover
from .lineup import Entry
from .profile import Profile
from .profiles import DEFAULT, EVERYTHING
from .rendering import Pen
from .session import Session
from .surface import Wish
from .target import Target
from .view import View, view

_SURFACES: tuple[Wish, ...] = ("load", "dispatch", "native")


def compare(
    steps: Sequence[Step],
    *,
    target: Target | str,
    engine: Engine,
    profile: Profile = DEFAULT,
    by: Counter | None = None,
) -> dict[str, Bill]:
    """The bill of a conversation with everything in view, and on each surface the model has."""
    target = Target.of(target)
    by = by or default_counter()
    rates = prices(target)
    bills = {"everything": bill(replay(steps, EVERYTHING, target, engine), rates, by=by)}
    for surface in _SURFACES:
        chosen = replace(profile, surface=surface)
        requests = replay(steps, chosen, target, engine)
        if requests:
            bills[surface] = bill(requests, rates, by=by)
    return bills


def replay(
    steps: Sequence[Step], profile: Profile, target: Target, engine: Engine
) -> tuple[Request, ...]:
    """The requests that lead through a conversation; none if the model lacks the surface."""
    led = _Led(profile, target, engine)
    if profile.surface == "native" and led.view.surface != "native":
        return ()
    for step in steps:
        match step:
            case Said("user", text):
                led.hear({"role": "user", "content": text})
            case Said(_, text):
                led.send(json.dumps({"role": "assistant", "content": text}, ensure_ascii=False))
            case Sought(queries):
                led.search(queries)
            case Called():
                led.call(step)
    return tuple(led.requests)


@dataclass
class _Led:
    """A conversation in progress."""

    profile: Profile
    target: Target
    engine: Engine
    session: Session = field(default_factory=lambda: Session("replay"))
    messages: list[str] = field(default_factory=list[str])
    requests: list[Request] = field(default_factory=list[Request])

    def __post_init__(self) -> None:
        self.view = self._look()

    @property
    def catalog(self) -> Catalog:
        return self.engine.catalog

    def _look(self) -> View:
        seen = view(self.profile, self.catalog, self.session, target=self.target)
        self.session = seen.session
        return seen

    def hear(self, message: object) -> None:
        self.messages.append(_text(message))

    def send(self, output: str) -> None:
        """One request: all there is so far, and what the model answers."""
        self.view = self._look()
        self.requests.append(
            Request(
                tools=tuple(_text(t) for t in _definitions(self.view) if not _is_deferred(t)),
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
        self.send(_text({"name": search.name, "arguments": {"query": asked}}))
        outcome = self._discover(search.name, {"query": asked})
        self.hear({"role": "tool", "content": self._answer(outcome)})

    def call(self, step: Called) -> None:
        """Call a tool; one that is not callable yet is fetched by its name first."""
        tool = self.catalog.get(step.name)
        if tool is not None and not self._is_callable(tool):
            self._fetch(step.name)
        wrapped = {"name": step.name, "arguments": json.loads(step.arguments)}
        call = self.profile.tool_for("call")
        if self.view.surface == "dispatch" and call is not None:
            wrapped = {"name": call.name, "arguments": wrapped}
        self.send(_text(wrapped))
        self.hear({"role": "tool", "content": step.result})

    def _is_callable(self, tool: Tool) -> bool:
        return tool.name in self.session.loaded or tool.name in self.view.names.values()

    def _fetch(self, name: str) -> None:
        describe = self.profile.tool_for("describe")
        if self.view.surface != "dispatch" or describe is None:
            self.search((f"select:{name}",))
            return
        self.send(_text({"name": describe.name, "arguments": {"names": [name]}}))
        outcome = self._discover(describe.name, {"names": [name]})
        self.hear({"role": "tool", "content": outcome.result.text})

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

    def _answer(self, outcome: Outcome) -> object:
        """What the model reads: the words, or the definitions that its provider puts there, and
        what is said beside them."""
        if not self.view.mechanism or not outcome.loaded:
            return outcome.result.text
        loaded = [Entry(self.catalog[n]) for n in outcome.loaded]
        written = Pen(target=self.target).write(loaded).written
        return [*(w.value for w in written), *(c.text for c in outcome.result.content[1:])]


def _definitions(seen: View) -> Iterator[dict[str, Any]]:
    """Tool by tool, also where a provider wraps them all into one."""
    for tool in seen.tools:
        yield from tool.get("function_declarations", [tool])


def _is_deferred(tool: dict[str, object]) -> bool:
    return tool.get("defer_loading") is True


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
