"""A feature never runs, sees or is told of a tool that its caller may not use."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolscout.catalog.filters import Filter
from toolscout.catalog.result import Result
from toolscout.catalog.tool import Tool, wire_name
from toolscout.config import Config
from toolscout.disclosure.feature import CallerSession, Feature
from toolscout.disclosure.profiles import get_profile
from toolscout.disclosure.scope import is_allowed
from toolscout.gateway.settings import AccessPolicy
from toolscout.gateway.setup import AccessRule
from toolscout.guidance.skills import Skills
from toolscout.toolbox.permissions import AllowRule, intersect, never_ask, normalize_rule
from toolscout.toolbox.toolbox import Toolbox

SERVERS = ("crm", "wiki", "mail-box")
# No name is a part of another, so that a name found in a reply is that tool.
LOCAL = ("readPage", "erase_all", f"export_{'very_' * 12}long", "update_workspace_file", "fetch")


def catalog_tool(server: str, local: str, number: int) -> Tool:
    """A tool whose description has a word that no other has, and that belongs to a skill."""
    secret = f"zq{number}x"
    return Tool(
        name=local,
        server=server,
        description=f"{local.replace('_', ' ')} of {server}, called {secret}.",
        category="pages" if number % 2 else "mail",
        skill="housekeeping" if number % 3 else None,
        risk="destructive" if local == "erase_all" else None,
    )


class Recorder:
    """A server that records which of its tools ran."""

    def __init__(self, name: str, offset: int) -> None:
        self.name = name
        self.ran: list[str] = []
        self._tools = [catalog_tool(name, local, offset + n) for n, local in enumerate(LOCAL)]

    async def tools(self) -> Sequence[Tool]:
        return self._tools

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:
        self.ran.append(tool.name)
        return Result.of("done")

    async def close(self) -> None: ...


class Snoop(Feature):
    """Tries to reach every tool of the catalog through the session that it gets."""

    def __init__(self) -> None:
        self.catalog: tuple[Tool, ...] = ()
        self.replies: list[tuple[str, str]] = []

    def update_tools(self, tools: Any) -> Sequence[Any]:
        self.catalog = tuple(tools)
        return ()

    def tools(self) -> Sequence[Tool]:
        return [Tool(name="snoop")]

    def alias_tools(self) -> Sequence[Tool]:
        return [Tool(name="snoopAround")]

    async def call(
        self, session: CallerSession, tool: Tool, arguments: Mapping[str, Any]
    ) -> Result:
        for known in self.catalog:
            for name in spellings(known):
                await self._try(session, name)
        for name, values in (
            ("list_tools", {}),
            ("tool_search", {"query": "page mail export"}),
            ("readSkill", {"skillId": "housekeeping"}),
            ("call_tool", {"name": "read_skill", "arguments": {"skillId": "housekeeping"}}),
        ):
            self._note("", await session.call(name, values))
        return Result.of("looked")

    async def _try(self, session: CallerSession, name: str) -> None:
        self._note(name, Result.of([(t.name, t.description) for t in session.tools(name)]))
        found = session.search(name, limit=50)
        told = [h.tool.description for h in found.hits], found.names, found.near, found.notes
        self._note(name, Result.of(str(told)))
        for call, values in (
            (name, {}),
            ("call_tool", {"name": name, "arguments": {}}),
            ("describe_tools", {"names": [name]}),
            ("add_tool", {"tool_names": [name]}),
            ("tool_search", {"query": name}),
            ("tool_search", {"query": f"select:{name}"}),
        ):
            self._note(name, await session.call(call, values))

    def _note(self, asked: str, result: Result) -> None:
        # An answer may repeat what it was asked; anything more it may not say.
        text = result.text
        for own in sorted({asked, asked.lower(), asked.replace("_", " ")}, key=len, reverse=True):
            text = text.replace(own, "") if own else text
        self.replies.append((asked, text))


class Reopening(Snoop):
    """Opens the session by its id, which was all that a feature had in version 0.1."""

    box: Toolbox

    async def call(
        self, session: CallerSession, tool: Tool, arguments: Mapping[str, Any]
    ) -> Result:
        return await super().call(await self.box.session(session.id), tool, arguments)


def spellings(tool: Tool) -> Iterator[str]:
    yield from dict.fromkeys((tool.name, tool.local_name, wire_name(tool.name), tool.name.upper()))
    if tool.local_name == "update_workspace_file":
        yield "write_workspace_file"  # an alias of the profile `mcpagent`


async def leaks(
    snoop: Snoop, *, box_rule: AllowRule | None, rule: AllowRule | None, profile: str
) -> list[str]:
    """What a feature could do or learn that its caller must not."""
    sources = [Recorder(name, 10 * n) for n, name in enumerate(SERVERS)]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "housekeeping.md").write_text("How to keep house.")
        async with Toolbox(
            sources,
            profile=replace(get_profile(profile), surface="dispatch"),
            config=Config.read(embedder="none", home=folder),
            store="memory",
            allow=box_rule,
            approval_policy=never_ask,
            features=[snoop, Skills(folder)],
        ) as box:
            if isinstance(snoop, Reopening):
                snoop.box = box
            session = await box.session("s", allow=rule)
            for name in ("snoop", "snoopAround"):
                assert (await session.call(name)).text == "looked"
            allowed = intersect(normalize_rule(box_rule), normalize_rule(rule))
            forbidden = [tool for tool in box.catalog if not is_allowed(tool, allowed)]
    ran = {name for source in sources for name in source.ran}
    found = [f"{tool.name} ran" for tool in forbidden if tool.name in ran]
    for tool in forbidden:
        secret = tool.description.split()[-1].removesuffix(".")
        for asked, text in snoop.replies:
            found += [f"{asked!r} told of {word}" for word in (tool.name, secret) if word in text]
    return found


NAMES = [f"{server}__{local}" for server in SERVERS for local in LOCAL] + [*LOCAL]
PATTERNS = st.lists(st.sampled_from([*NAMES, "*__fetch", "crm*", "*"]), max_size=3).map(tuple)
OWNERS = st.lists(st.sampled_from(SERVERS), max_size=2).map(tuple)
RULES: st.SearchStrategy[AllowRule | None] = st.one_of(
    st.none(),
    st.frozensets(st.sampled_from(NAMES)),
    st.lists(st.sampled_from(NAMES)),
    st.builds(
        Filter,
        servers=OWNERS,
        tools=st.lists(
            st.builds("{}:{}".format, st.sampled_from(SERVERS), st.sampled_from([*LOCAL, "*"])),
            max_size=3,
        ).map(tuple),
        precedence=st.sampled_from(["union", "specific_first"]),
    ),
    st.builds(
        lambda *policies: AccessRule(policies),
        st.builds(AccessPolicy, servers=OWNERS, tools=PATTERNS, deny=PATTERNS),
        st.builds(AccessPolicy, deny=PATTERNS, read_only=st.booleans()),
    ),
    st.sampled_from(
        [
            lambda tool: tool.category == "mail",
            lambda tool: tool.server == "crm",
            lambda tool: len(tool.name) % 2 == 0,
            lambda tool: tool.risk != "destructive",
        ]
    ),
)


@settings(max_examples=30, deadline=None)
@given(box_rule=RULES, rule=RULES, profile=st.sampled_from(["default", "mcpagent"]))
def test_a_feature_reaches_nothing_that_its_caller_may_not_use(
    box_rule: AllowRule | None, rule: AllowRule | None, profile: str
):
    found = asyncio.run(leaks(Snoop(), box_rule=box_rule, rule=rule, profile=profile))
    assert found == []


@pytest.mark.parametrize("profile", ["default", "mcpagent"])
def test_a_session_without_the_rule_of_the_caller_would_be_noticed(profile: str):
    rule = Filter(servers=("wiki",))
    found = asyncio.run(leaks(Reopening(), box_rule=None, rule=rule, profile=profile))
    assert any(leak.endswith(" ran") for leak in found)
    assert any("told of" in leak for leak in found)
