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
from toolscout.disclosure.discovery import discover, role_of
from toolscout.disclosure.profile import NativeSearch, Profile
from toolscout.disclosure.profiles import DEFAULT, EVERYTHING
from toolscout.disclosure.providers import PROVIDERS
from toolscout.disclosure.resolution import resolve_call
from toolscout.disclosure.scope import ToolSelector
from toolscout.disclosure.session_state import SessionState
from toolscout.disclosure.snapshot import carry_loaded_tools
from toolscout.disclosure.view import View, view
from toolscout.errors import SourceError
from toolscout.search.engine import Engine

POLICY = replace(DEFAULT.policy, threshold=0, pinned=ToolSelector(categories=("hot",)))
LOAD = replace(DEFAULT, surface="load", policy=POLICY)
DISPATCH = replace(LOAD, surface="dispatch")
NATIVE = replace(LOAD, surface="native")
BM25 = replace(NATIVE, native=NativeSearch(by="provider"))
REGEX = replace(NATIVE, native=NativeSearch(by="provider", variant="regex"))
CLAUDE, GPT = "anthropic:claude-opus-4-5", "openai-responses:gpt-5.4"
LOADING = [(LOAD, name) for name in PROVIDERS]
CLIENTS = [(NATIVE, CLAUDE), (NATIVE, GPT)]
HOSTED = [(BM25, CLAUDE), (REGEX, CLAUDE), (BM25, GPT)]
MECHANISMS = [*LOADING, *CLIENTS, *HOSTED]
EXTRA = Tool(name="read_more", description="Of a feature.")
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
Event = tuple[str, Any]
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
ENABLING = st.tuples(st.just("enable"), st.lists(st.sampled_from(NAMES), min_size=1, max_size=3))


def name_of(value: object) -> str:
    return value.name if isinstance(value, Profile) else str(value)


def connected(*servers: str) -> Catalog:
    catalog = Catalog()
    for server in servers:
        catalog = catalog.with_source(server, tools_of(server))
    return catalog


def lead(
    profile: Profile, target: str, events: list[Event], start: tuple[str, ...] = SERVERS
) -> Iterator[View]:
    """Lead a conversation through events, with a request after each."""
    catalog = connected(*start)
    engine = Engine(catalog)
    session = SessionState("s")
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
            case "enable":
                session = session.load(*value)
            case "call":
                resolution = resolve_call(
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
                session = SessionState.from_json(session.to_json())
            case "compact":
                session = carry_loaded_tools(session)
            case _:
                pass
        engine.update(catalog)
        seen = view(profile, catalog, session, target=target, extras=[EXTRA])
        session = seen.session
        yield seen
    check_that_what_was_sent_is_known(profile, seen, catalog, engine)


def check_that_what_was_sent_is_known(
    profile: Profile, seen: View, catalog: Catalog, engine: Engine
) -> None:
    """Whatever stands in the list can be called, or is answered with what became of its server."""
    for name in {*seen.names.values()} - {EXTRA.name}:
        if role_of(profile, name, catalog) is None:
            called = resolve_call(
                profile, name, session=seen.session, engine=engine, catalog=catalog
            )
            if called.tool is None:
                assert called.refusal.code == SourceError.code
                assert "not connected" in called.refusal.text


def sent(seen: View) -> str:
    """The tools of a request as the bytes that go out, without what closes the list."""
    if seen.text == "[]":
        return ""
    if seen.target.provider.name == "gemini":
        return seen.text.removesuffix("]}]")
    return seen.text.removesuffix("]")


def begins(after: str, before: str) -> bool:
    """Whether a list of definitions only has more of them at its end."""
    return after == before or (
        after.startswith(before) and (not before or after[len(before)] == ",")
    )


def in_context(seen: View) -> list[dict[str, Any]]:
    """What the provider reads before the messages: of Anthropic's deferred tools nothing, of
    OpenAI's namespaces the outside."""
    read: list[dict[str, Any]] = []
    for entry in seen.tools:
        for tool in entry.get("function_declarations", [entry]):
            if tool.get("type") == "namespace":
                read.append({**tool, "tools": None})
            elif not (tool.get("defer_loading") and seen.target.provider.name == "anthropic"):
                read.append(tool)
    return read


@settings(max_examples=60)
@given(st.lists(EVENT, max_size=12), st.sampled_from(["openai-chat", "gemini", "mcp"]))
def test_on_dispatch_tools_and_instructions_are_the_same_bytes_throughout(events, target) -> None:
    views = [*lead(DISPATCH, target, events)]
    assert len({v.text for v in views}) == 1
    assert len({v.instructions for v in views}) == 1


@pytest.mark.parametrize(("profile", "target"), MECHANISMS, ids=name_of)
@settings(max_examples=60)
@given(events=st.lists(EVENT | ENABLING, max_size=12))
def test_a_request_begins_with_the_bytes_of_the_one_before(profile, target, events) -> None:
    views = [*lead(profile, target, events)]
    assert len({v.mechanism for v in views}) == 1
    for before, after in pairwise(views):
        assert begins(sent(after), sent(before))
        had, has = in_context(before), in_context(after)
        assert has[: len(had)] == had
        assert after.instructions == before.instructions


@pytest.mark.parametrize(("profile", "target"), CLIENTS, ids=name_of)
@settings(max_examples=30)
@given(events=st.lists(EVENT, max_size=12))
def test_results_of_our_search_change_nothing_that_the_provider_reads(
    profile, target, events
) -> None:
    views = lead(profile, target, events)
    for (before, after), (kind, _) in zip(pairwise(views), events, strict=True):
        if kind != "compact" or target == CLAUDE:
            assert in_context(after) == in_context(before)


@pytest.mark.parametrize("target", [CLAUDE, GPT])
def test_tools_found_before_another_was_enabled_follow_it_after_a_compaction(
    target,
) -> None:
    events = [("load", ["list_mail"]), ("enable", ["list_crm"]), ("compact", None)]
    *_, enabled, after = lead(NATIVE, target, events)
    assert begins(sent(after), sent(enabled))
    assert {"list_mail", "list_crm"} <= {*after.names.values()}


@pytest.mark.parametrize(("profile", "target"), HOSTED, ids=name_of)
@settings(max_examples=30)
@given(events=st.lists(EVENT, max_size=12))
def test_a_hosted_search_keeps_every_tool_it_was_ever_given(profile, target, events) -> None:
    given_before: set[str] = set()
    for seen in lead(profile, target, events):
        names = {*seen.names.values()}
        assert given_before <= names
        given_before = names


@pytest.mark.parametrize(
    ("profile", "target"), [*MECHANISMS, (DEFAULT, "openai-chat")], ids=name_of
)
@settings(max_examples=20)
@given(
    events=st.lists(EVENT | ENABLING, max_size=10),
    start=st.sampled_from([(), ("mail",), ("mail", "files")]),
)
def test_a_catalog_that_outgrows_its_list_gets_the_search_behind_what_was_there(
    profile, target, events, start
) -> None:
    small = replace(profile, policy=replace(POLICY, threshold=9, share=None))
    views = [*lead(small, target, events, start)]
    assert views[0].surface == "direct"
    for before, after in pairwise(views):
        assert begins(sent(after), sent(before))
        assert after.instructions.startswith(before.instructions)
        assert not before.instructions or after.instructions == before.instructions


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
    resolution = resolve_call(
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
    resolution = resolve_call(
        LOAD,
        "mail__search",
        session=views[-1].session,
        engine=Engine(catalog),
        catalog=catalog,
    )
    assert resolution.tool.name == "search"


def test_a_changed_definition_is_used_when_the_tool_is_loaded_again() -> None:
    views = [*lead(LOAD, "plain", [("load", ["list_mail"]), ("change", "mail")])]
    assert views[-1].text == views[-2].text
    session = views[-1].session.unload("list_mail")
    catalog = Catalog(tools_of("mail", revision=7))
    bare = view(LOAD, catalog, session)
    again = view(LOAD, catalog, bare.session.load("list_mail"))
    assert "added_7" in again.tools[-1]["parameters"]["properties"]


def test_hundreds_of_tools_in_view_keep_their_places_too() -> None:
    many = Catalog(Tool(name=f"t{i}", description="x" * 200) for i in range(400))
    shown = replace(LOAD, policy=replace(POLICY, rule="listed", pinned=ToolSelector(names=("t7",))))
    first = view(shown, many, SessionState("s").load("t399"))
    assert len(first.tools) == 401
    later = view(shown, many.add(Tool(name="late")), first.session)
    assert [t["name"] for t in later.tools][-1] == "late"
    lost = view(shown, many.remove("t3", "t5"), later.session)
    assert lost.text == later.text
    assert later.text.startswith(first.text[:-1])
    everything = view(EVERYTHING, many, SessionState("s"))
    assert len(everything.tools) == 400
    assert view(EVERYTHING, many.remove("t3"), everything.session).text == everything.text
    assert len(everything.session.to_json()) < 40_000
