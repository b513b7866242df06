"""What goes over the wire for one conversation begins as it did the time before.

The tools of each request are those of a view, sent by the real client; servers come late and are
lost in between, the session is resumed and the conversation compacted.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from tests.models.conftest import CLIENTS
from tests.wire.server import Seen, Wire
from tests.wire.turns import Say

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.schema import Schema
from toolscout.catalog.tool import Tool
from toolscout.disclosure.discovery import discover
from toolscout.disclosure.profile import NativeSearch, Profile
from toolscout.disclosure.profiles import DEFAULT
from toolscout.disclosure.resolution import resolve_call
from toolscout.disclosure.session_state import SessionState
from toolscout.disclosure.snapshot import carry_loaded_tools
from toolscout.disclosure.view import View, view
from toolscout.models.messages import user_message
from toolscout.models.model import ModelRequest, complete
from toolscout.search.engine import Engine

NATIVE = replace(DEFAULT, surface="native")
HOSTED = replace(NATIVE, native=NativeSearch(by="provider"))
REGEX = replace(NATIVE, native=NativeSearch(by="provider", variant="regex"))
LOAD = replace(DEFAULT, surface="load")
DISPATCH = replace(DEFAULT, surface="dispatch")
WAYS = [
    ("openai-chat", "gpt-4o", LOAD),
    ("openai-responses", "gpt-5.4", LOAD),
    ("anthropic", "claude-opus-4-5", LOAD),
    ("gemini", "gemini-3-pro", LOAD),
    ("anthropic", "claude-opus-4-5", HOSTED),
    ("anthropic", "claude-opus-4-5", REGEX),
    ("anthropic", "claude-opus-4-5", NATIVE),
    ("openai-responses", "gpt-5.4", HOSTED),
    ("openai-responses", "gpt-5.4", NATIVE),
    ("openai-chat", "gpt-4o", DISPATCH),
    ("gemini", "gemini-3-pro", DISPATCH),
]
SCHEMA = Schema.of({"type": "object", "properties": {"id": {"type": "string"}}})


def server(name: str, size: int = 10) -> list[Tool]:
    numbers = range(size)
    return [
        Tool(name=f"{name}_{i}", description=f"{i} of {name}.", parameters=SCHEMA, server=name)
        for i in numbers
    ]


def lead(profile: Profile, target: str) -> list[View]:
    """A conversation in which everything happens that may happen to its tools."""
    both = Catalog().with_source("mail", server("mail")).with_source("crm", server("crm"))
    late = both.with_source("archive", server("archive", 3))
    lost = late.without_source("crm").with_source("mail", server("mail", 12))
    views: list[View] = []

    def look(catalog: Catalog, session: SessionState) -> SessionState:
        views.append(view(profile, catalog, session, target=target))
        return views[-1].session

    session = look(both, SessionState("s"))
    for catalog, name in ((both, "crm_3"), (late, "archive_1"), (lost, "mail_11")):
        session = look(catalog, session)
        found = discover(
            profile,
            "tool_search",
            {"query": f"select:{name}"},
            session=session,
            engine=Engine(catalog),
            catalog=catalog,
        )
        session = look(catalog, found.session)
        called = resolve_call(
            profile, name, session=session, engine=Engine(catalog), catalog=catalog
        )
        session = look(catalog, SessionState.from_json(called.session.to_json()))
    look(late, carry_loaded_tools(session))
    return views


def sent(seen: Seen) -> tuple[list[str], str]:
    """The tools of a request one by one, and its instructions, as they went out."""
    entries: list[dict[str, Any]] = seen.body["tools"]
    tools = [t for e in entries for t in e.get("functionDeclarations", [e])]
    if "messages" in seen.body and "system" not in seen.body:
        told = [m for m in seen.body["messages"] if m["role"] in ("system", "developer")]
    else:
        names = ("system", "instructions", "systemInstruction")
        told = [seen.body[name] for name in names if name in seen.body]
    return [json.dumps(t) for t in tools], json.dumps(told)


@pytest.mark.parametrize(("provider", "model", "profile"), WAYS)
async def test_each_request_on_the_wire_begins_with_the_tools_of_the_one_before(
    provider: str, model: str, profile: Profile
) -> None:
    views = lead(profile, f"{provider}:{model}")
    make, path = CLIENTS[provider]
    async with Wire(*(Say("Yes.") for _ in views)) as wire:
        client = make(model, api_key="key-of-the-test", base_url=wire.url + path)
        for shown in views:
            asked = ModelRequest(
                messages=(user_message("Go on."),),
                tools=tuple(shown.tools),
                instructions=shown.instructions,
            )
            await complete(client, asked)
        await client.close()
    bodies = [sent(seen) for seen in wire.seen]
    assert len(bodies) == len(views)
    assert len({told for _, told in bodies}) == 1
    assert len(bodies[0][1]) > len("[]")
    for (before, _), (after, _) in pairwise(bodies):
        assert after[: len(before)] == before
    if profile is DISPATCH:
        assert len({tuple(tools) for tools, _ in bodies}) == 1
