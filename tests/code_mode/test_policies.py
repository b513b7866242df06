"""Inside a program, a tool that the caller may not use is unknown, whatever the policy."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from toolscout.catalog.result import Result
from toolscout.catalog.tool import Tool
from toolscout.config import Config
from toolscout.disclosure.scope import is_allowed
from toolscout.gateway.settings import AccessPolicy
from toolscout.gateway.setup import AccessRule
from toolscout.toolbox.permissions import AllowRule, never_ask, normalize_rule
from toolscout.toolbox.toolbox import Toolbox

SERVERS = ("crm", "mail-box", "mail_box")
LOCAL = ("erase_all", "fetch", "fetch-it", "fetch_it")


class Recorder:
    """A server that records which of its tools ran."""

    def __init__(self, name: str, offset: int) -> None:
        self.name = name
        self.ran: list[str] = []
        self._tools = [
            Tool(
                name=local,
                server=name,
                description=f"{local.replace('_', ' ')} of {name}, called zq{offset + n}x.",
                risk="destructive" if local == "erase_all" else None,
            )
            for n, local in enumerate(LOCAL)
        ]

    async def tools(self) -> Sequence[Tool]:
        return self._tools

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:
        self.ran.append(tool.name)
        return Result.of(f"{tool.name} ran, {tool.description}")

    async def close(self) -> None: ...


def attempts(tool: Tool) -> list[str]:
    """Programs that try to reach one tool."""
    name, server = tool.name, tool.server.replace("-", "_")
    attribute = f"{server}.{tool.local_name.replace('-', '_')}"
    return [
        f"await call_tool({name!r}, {{}})",
        f"await call_tool({tool.local_name!r}, {{}})",
        f"await call_tool({name.upper()!r})",
        f"await {attribute}()",
        f"x = {attribute}\nawait x()",
        f"eval({f'call_tool({name!r})'!r})",
        f"describe({name!r})",
        f"[search(q, 20) for q in ({name!r}, {tool.local_name!r}, {tool.server!r})]",
        f"await call_tool('tool_search', {{'query': {name!r}}})",
        f"await call_tool('tool_search', {{'query': 'select:{name}'}})",
        f"await call_tool('describe_tools', {{'names': [{name!r}]}})",
        f"await call_tool('call_tool', {{'name': {name!r}, 'arguments': {{}}}})",
    ]


async def leaks(rule: AllowRule | None) -> list[str]:
    """What programs could do or learn that their caller must not."""
    sources = [Recorder(name, 10 * n) for n, name in enumerate(SERVERS)]
    found: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        config = Config.read(embedder="none", home=folder)
        async with Toolbox(
            sources, profile="code", config=config, store="memory", approval_policy=never_ask
        ) as box:
            session = await box.session("s", allow=rule)
            allowed = normalize_rule(rule)
            hidden = [tool for tool in box.catalog if not is_allowed(tool, allowed)]
            secrets = {re.findall(r"zq\d+x", tool.description)[0]: tool for tool in hidden}
            for tool in box.catalog:
                for code in attempts(tool):
                    text = (await session.call("run_code", {"code": code})).text
                    found += [f"{code!r} told of {secret}" for secret in secrets if secret in text]
                    if tool in hidden and f"{tool.name} ran" in text:
                        found.append(f"{code!r} ran it")
    ran = {name for source in sources for name in source.ran}
    return found + [f"{tool.name} ran" for tool in hidden if tool.name in ran]


NAMES = [f"{server}__{local}" for server in SERVERS for local in LOCAL]
PATTERNS = st.lists(st.sampled_from([*NAMES, "*__fetch", "crm*", "mail*"]), max_size=3).map(tuple)
OWNERS = st.lists(st.sampled_from(SERVERS), max_size=2).map(tuple)
RULES: st.SearchStrategy[AllowRule | None] = st.one_of(
    st.frozensets(st.sampled_from(NAMES)),
    st.builds(
        lambda *policies: AccessRule(policies),
        st.builds(AccessPolicy, servers=OWNERS, tools=PATTERNS, deny=PATTERNS),
        st.builds(AccessPolicy, deny=PATTERNS, read_only=st.booleans()),
    ),
    st.sampled_from([lambda tool: tool.server == "crm", lambda tool: tool.risk != "destructive"]),
)


@settings(max_examples=5, deadline=None)
@given(rule=RULES)
def test_a_program_reaches_nothing_that_its_caller_may_not_use(rule: AllowRule | None) -> None:
    assert asyncio.run(leaks(rule)) == []


def test_without_the_rule_of_the_caller_the_attempts_reach_every_tool() -> None:
    async def reached() -> set[str]:
        sources = [Recorder(name, 10 * n) for n, name in enumerate(SERVERS)]
        config = Config.read(embedder="none")
        async with Toolbox(
            sources, profile="code", config=config, store="memory", approval_policy=never_ask
        ) as box:
            session = await box.session("s")
            for tool in box.catalog:
                await session.call("run_code", {"code": attempts(tool)[0]})
        return {name for source in sources for name in source.ran}

    assert asyncio.run(reached()) == set(NAMES)


async def test_a_hidden_tool_is_answered_like_one_that_does_not_exist() -> None:
    sources = [Recorder(name, 10 * n) for n, name in enumerate(SERVERS)]
    config = Config.read(embedder="none")
    async with Toolbox(sources, profile="code", config=config, store="memory") as box:
        session = await box.session("s", allow={"crm__fetch"})
        for hidden, absent in (
            ("crm__erase_all", "crm__rease_all"),
            ("mail_box__fetch", "male_box__fetch"),
        ):
            for form in ("await call_tool({!r})", "describe({!r})", "search({!r})"):
                texts = [
                    (await session.call("run_code", {"code": form.format(name)})).text
                    for name in (hidden, absent)
                ]
                assert texts[0].replace(hidden, absent) == texts[1]
        attributes = [
            (await session.call("run_code", {"code": f"await {path}()"})).text
            for path in ("crm.erase_all", "crm.rease_all")
        ]
        assert attributes[0].replace("erase", "rease") == attributes[1]
        # Of two tools with one spelling, the one that the caller may use is meant.
        one = await box.session("t", allow={"mail_box__fetch"})
        result = await one.call("run_code", {"code": "await mail_box.fetch()"})
        assert result.text.startswith("mail_box__fetch ran")
