"""Whatever happens in a conversation, what the model has seen of its tools stays as it was.

The promise of docs/prompt-caching.md: on `dispatch` the tools and the instructions of all
requests are the same bytes; on `load` and `native` they differ only by what was appended.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.schema import Schema
from toolscout.catalog.tool import Tool
from toolscout.disclosure.calls import resolve
from toolscout.disclosure.discovery import discover
from toolscout.disclosure.policy import Listing
from toolscout.disclosure.profile import Native, Profile
from toolscout.disclosure.profiles import DEFAULT, EVERYTHING
from toolscout.disclosure.session import Session
from toolscout.disclosure.snapshot import carry
from toolscout.disclosure.view import View, view
from toolscout.search.engine import Engine

POLICY = replace(DEFAULT.policy, threshold=0, pinned=Listing(categories=("hot",)))
LOAD = replace(DEFAULT, surface="load", policy=POLICY)
DISPATCH = replace(LOAD, surface="dispatch")
NATIVE = replace(LOAD, surface="native")
HOSTED = replace(NATIVE, native=Native(by="provider"))
SERVERS = ("mail", "files", "crm")
LATE = ("billing", "monitor")


def tools_of(server: str, *, revision: int = 0) -> list[Tool]:
    extra = {f"added_{revision}": {"type": "string"}} if revision else {}
    schema = {"type": "object", "properties": {"id": {"type": "string"}, **extra}}
    return [
        Tool(
            name=name,
            description=f"{name.replace('_', ' ')} of {server}.",
            parameters=Schema.of(schema),
            server=server,
            category="hot" if name == "ping" else "",
        )
        for name in (f"list_{server}", f"send_{server}", "search", "ping")
    ]


NAMES = [t.name for s in (*SERVERS, *LATE) for t in tools_of(s)]
EVENT = st.one_of(
    st.tuples(st.just("search"), st.sampled_from(["list mail", "send crm", "search", "zebra"])),
    st.tuples(st.just("load"), st.lists(st.sampled_from(NAMES), min_size=1, max_size=3)),
    st.tuples(st.just("call"), st.sampled_from(NAMES)),
    st.tuples(st.just("come"), st.sampled_from((*SERVERS, *LATE))),
    st.tuples(st.just("lose"), st.sampled_from((*SERVERS, *LATE))),
    st.tuples(st.just("change"), st.sampled_from((*SERVERS, *LATE))),
    st.tuples(st.just("resume"), st.none()),
    st.tuples(st.just("compact"), st.none()),
)


def lead(profile: Profile, target: str, events: list[tuple[str, Any]]) -> Iterator[View]:
    """Lead a conversation through events, with a request after each."""
    catalog = Catalog()
    for server in SERVERS:
        catalog = catalog.with_source(server, tools_of(server))
    engine = Engine(catalog)
    session = Session("s")
    for number, (kind, value) in enumerate([("start", None), *events], start=1):
        match kind:
            case "search" | "load":
                query = value if kind == "search" else f"select:{','.join(value)}"
                outcome = discover(
                    profile,
                    "tool_search",
                    {"query": query},
                    session=session,
                    engine=engine,
                    catalog=catalog,
                )
                session = outcome.session
            case "call":
                resolution = resolve(
                    profile, value, session=session, engine=engine, catalog=catalog
                )
                assert (resolution.tool is None) == (resolution.refusal is not None)
                session = resolution.session
            case "come":
                catalog = catalog.with_source(value, tools_of(value))
            case "change":
                catalog = catalog.with_source(value, tools_of(value, revision=number))
            case "lose":
                catalog = catalog.without_source(value)
            case "resume":
                session = Session.from_json(session.to_json())
            case "compact":
                session = carry(session)
            case _:
                pass
        engine.update(catalog)
        seen = view(profile, catalog, session, target=target)
        session = seen.session
        yield seen


def in_context(seen: View) -> list[dict[str, Any]]:
    """What the provider really reads before the messages."""
    return [t for t in seen.tools if not t.get("defer_loading")]


@settings(max_examples=60)
@given(st.lists(EVENT, max_size=12))
def test_on_dispatch_tools_and_instructions_are_the_same_bytes_throughout(events) -> None:
    views = [*lead(DISPATCH, "openai-chat", events)]
    assert len({v.text for v in views}) == 1
    assert len({v.instructions for v in views}) == 1


@settings(max_examples=60)
@given(st.lists(EVENT, max_size=12), st.sampled_from(["openai-chat", "anthropic", "plain"]))
def test_on_load_a_request_only_appends_tools_to_the_one_before(events, target) -> None:
    for before, after in pairwise(lead(LOAD, target, events)):
        assert after.tools[: len(before.tools)] == before.tools
        assert after.instructions == before.instructions


@settings(max_examples=60)
@given(
    st.lists(EVENT, max_size=12),
    st.sampled_from(["anthropic:claude-opus-4-5", "openai-responses:gpt-5.4"]),
)
def test_on_native_nothing_the_model_has_read_changes(events, target) -> None:
    kinds = ["start", *(kind for kind, _ in events)]
    for (before, after), kind in zip(
        pairwise(lead(NATIVE, target, events)), kinds[1:], strict=True
    ):
        had, has = in_context(before), in_context(after)
        assert has[: len(had)] == had
        assert kind == "compact" or has == had
        assert after.instructions == before.instructions
        names = [t.get("name") for t in before.tools]
        assert [t.get("name") for t in after.tools][: len(names)] == names


@settings(max_examples=60)
@given(st.lists(EVENT, max_size=12))
def test_on_a_hosted_search_the_cached_prefix_stays_and_what_was_called_stays_defined(
    events,
) -> None:
    called: set[str] = set()
    views = [*lead(HOSTED, "anthropic:claude-opus-4-5", events)]
    for (before, after), (kind, value) in zip(pairwise(views), events, strict=True):
        had, has = in_context(before), in_context(after)
        assert has[: len(had)] == had
        assert kind == "compact" or has == had
        assert after.instructions == before.instructions
        if kind == "call" and value in before.names.values():
            called.add(value)
        assert called <= set(after.names.values())


@settings(max_examples=40)
@given(st.lists(EVENT, max_size=12))
def test_the_same_state_gives_the_same_bytes(events) -> None:
    for profile in (LOAD, DISPATCH, NATIVE):
        first = [(v.text, v.instructions) for v in lead(profile, "claude-opus-4-5", events)]
        second = [(v.text, v.instructions) for v in lead(profile, "claude-opus-4-5", events)]
        assert first == second


@pytest.mark.behaviour("C43", "S17")
def test_a_lost_servers_tool_keeps_its_place_and_says_so_when_called() -> None:
    views = [*lead(LOAD, "plain", [("load", ["list_mail"]), ("lose", "mail")])]
    assert views[-1].text == views[-2].text
    without = Catalog()
    for server in SERVERS[1:]:
        without = without.with_source(server, tools_of(server))
    resolution = resolve(
        LOAD,
        "list_mail",
        session=views[-1].session,
        engine=Engine(without),
        catalog=without,
    )
    assert resolution.tool is None
    assert resolution.refusal.is_error
    assert "mail" in resolution.refusal.text
    assert "not connected" in resolution.refusal.text


def test_a_tool_renamed_by_a_second_server_is_still_the_one_that_was_shown() -> None:
    views = [*lead(LOAD, "plain", [("load", ["mail__search"]), ("lose", "files"), ("lose", "crm")])]
    names = [t["name"] for t in views[-1].tools]
    assert "mail__search" in names
    catalog = Catalog().with_source("mail", tools_of("mail"))
    assert "mail__search" not in catalog
    resolution = resolve(
        LOAD,
        "mail__search",
        session=views[-1].session,
        engine=Engine(catalog),
        catalog=catalog,
    )
    assert resolution.tool.name == "search"


def test_a_changed_definition_is_taken_over_when_it_is_loaded_anew() -> None:
    views = [*lead(LOAD, "plain", [("load", ["list_mail"]), ("change", "mail")])]
    assert views[-1].text == views[-2].text
    session = views[-1].session.unload("list_mail")
    catalog = Catalog(tools_of("mail", revision=7))
    bare = view(LOAD, catalog, session)
    again = view(LOAD, catalog, bare.session.load("list_mail"))
    assert "added_7" in again.tools[-1]["parameters"]["properties"]


def test_what_is_in_view_by_the_hundred_is_not_kept_with_the_session() -> None:
    many = Catalog(Tool(name=f"t{i}", description="x" * 200) for i in range(400))
    shown = replace(LOAD, policy=replace(POLICY, rule="listed", pinned=Listing(names=("t7",))))
    first = view(shown, many, Session("s").load("t399"))
    assert len(first.tools) == 401
    assert len(first.session.to_json()) < 2_000
    second = view(shown, many.add(Tool(name="late")), first.session)
    assert [t["name"] for t in second.tools][-1] == "late"
    assert second.tools[:401] == first.tools
    everything = view(EVERYTHING, many, Session("s"))
    assert len(everything.tools) == 400
    assert len(everything.session.to_json()) < 2_000
