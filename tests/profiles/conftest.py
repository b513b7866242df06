"""A conversation as a toolbox would lead it: one state, moved on by every call and view."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.result import Result
from toolscout.catalog.schema import Schema
from toolscout.catalog.tool import Tool
from toolscout.disclosure.discovery import DiscoveryOutcome, discover
from toolscout.disclosure.profile import Profile
from toolscout.disclosure.resolution import Resolution, resolve_call
from toolscout.disclosure.session_state import SessionState
from toolscout.disclosure.view import View, view, why
from toolscout.search.engine import Allow, Engine


@dataclass
class Talk:
    """One conversation under one profile."""

    profile: Profile
    catalog: Catalog
    allow: Allow | None = None
    target: str = "plain"
    session: SessionState = field(default_factory=lambda: SessionState("talk"))
    outcomes: list[DiscoveryOutcome] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine = Engine(self.catalog)

    def call(self, tool: str, /, **arguments: Any) -> Result:
        outcome = discover(
            self.profile,
            tool,
            arguments,
            session=self.session,
            engine=self.engine,
            catalog=self.catalog,
            allow=self.allow,
        )
        self.outcomes.append(outcome)
        self.session = outcome.session
        return outcome.result

    def view(self, extras: Iterable[Tool] = ()) -> View:
        seen = view(
            self.profile,
            self.catalog,
            self.session,
            target=self.target,
            allow=self.allow,
            extras=tuple(extras),
        )
        self.session = seen.session
        return seen

    def names(self, extras: Iterable[Tool] = ()) -> list[str]:
        return [t["name"] for t in self.view(extras).tools]

    def resolve(self, name: str) -> Resolution:
        resolution = resolve_call(
            self.profile,
            name,
            session=self.session,
            engine=self.engine,
            catalog=self.catalog,
            allow=self.allow,
        )
        self.session = resolution.session
        return resolution

    def why(self, name: str) -> str:
        return why(
            self.profile, name, session=self.session, catalog=self.catalog, allow=self.allow
        ).reason

    def now(self, catalog: Catalog) -> None:
        """The catalog changed."""
        self.catalog = catalog
        self.engine.update(catalog)


def make(name: str, description: str = "", /, **fields: Any) -> Tool:
    """A tool that takes a path, unless other properties are given."""
    properties = fields.pop("properties", {"path": {"type": "string"}})
    required = fields.pop("required", [])
    schema = {"type": "object", "properties": properties, "required": required}
    return Tool(name=name, description=description, parameters=Schema.of(schema), **fields)


@pytest.fixture
def tool() -> Callable[..., Tool]:
    return make


@pytest.fixture
def talk() -> Callable[..., Talk]:
    def start(profile: Profile, tools: Iterable[Tool] = (), **fields: Any) -> Talk:
        return Talk(profile, Catalog(tools), **fields)

    return start
