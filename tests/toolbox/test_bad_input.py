"""Whatever a model writes and whatever state a file is in, the answer says what to do next."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolscout.catalog.tool import Tool
from toolscout.disclosure.profiles import get_profile, profile_names
from toolscout.disclosure.session_state import SessionState
from toolscout.errors import ConfigError, SourceError, StoreError, ToolscoutError
from toolscout.store.sqlite import SqliteStore
from toolscout.toolbox.toolbox import Toolbox

PROFILES = [n for n in profile_names() if get_profile(n).tool_for("search")]
INTERNAL = ToolscoutError.code
QUERIES: list[Any] = [
    {},
    {"query": None},
    {"query": 5},
    {"query": ""},
    {"query": " \n "},
    {"query": []},
    {"query": [1, {}, None]},
    {"query": {"text": "mail"}},
    {"query": "x" * 1_000_000},
    {"query": ["mail"] * 10_000},
    {"query": "\ud800 half a pair"},
    {"query": "mail\x00\x1b[31m"},
    {"query": "mail", "limit": "many"},
    {"query": "mail", "limit": -3},
    {"query": "mail", "limit": 10**30},
    {"query": "mail", "limit": float("inf")},
    {"query": "mail", "max_results": [1]},
    {"query": "mail", "colour": "red"},
    {"query": "("},
    {"query": "select:"},
    {"query": "+"},
]


@pytest.mark.parametrize("name", PROFILES)
async def test_every_search_gets_an_answer_whatever_was_written(open_box: Any, name: str):
    box = await open_box(profile=name)
    session = await box.session("s")
    search = box.profile.tool_for("search").name
    for arguments in QUERIES:
        result = await session.call(search, arguments)
        assert result.code != INTERNAL, result.text
        assert result.text
        assert len(result.text) < 30_000
    assert SessionState.from_json(session.state.to_json()).loaded == session.state.loaded


@pytest.mark.parametrize("name", PROFILES)
async def test_every_discovery_tool_answers_to_nothing_at_all(open_box: Any, name: str):
    box = await open_box(profile=name)
    session = await box.session("s")
    for metatool in box.profile.metatools:
        for arguments in (None, {}, {"names": 3}, {"tool_names": [None]}, "{", []):
            result = await session.call(metatool.name, arguments)
            assert result.code != INTERNAL, result.text
            assert result.text


async def test_a_megabyte_of_query_is_refused_in_a_few_words_and_not_kept(open_box: Any):
    session = await (await open_box()).session("s")
    result = await session.call("tool_search", {"query": "x" * 1_000_000})
    assert result.is_error
    assert len(result.text) < 3_000
    assert len(session.state.to_json()) < 10_000


@pytest.mark.parametrize(
    "name", ["", " ", "\ud800", "x" * 100_000, "../../etc/passwd", "a\0b", None, 5, ["t1"]]
)
async def test_an_invalid_name_is_an_unknown_tool(open_box: Any, name: Any):
    session = await (await open_box()).session("s")
    result = await session.call(name, {})
    assert (result.is_error, result.code) == (True, "unknown_tool")
    assert len(result.text) < 1_000


async def test_an_invalid_name_is_not_loaded_and_the_session_can_still_be_read(
    open_box: Any, file: Path
):
    session = await (await open_box(store=file)).session("s")
    await session.load("send_email")
    for name in (5, None, ["get_weather"]):
        with pytest.raises(ToolscoutError, match="not the name of a tool"):
            await session.load("get_weather", name)
    again = await (await open_box(store=file)).session("s")
    assert again.state.loaded == ("send_email",)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = st.sampled_from(["query", "names", "tool_names", "name", "arguments", "limit", "id"])
CALLS = st.lists(
    st.tuples(
        st.sampled_from(
            ["tool_search", "describe_tools", "call_tool", "unload_tools", "add_tool", "t1", "t9"]
        ),
        st.dictionaries(KEYS, JSON | st.sampled_from(["t1", "t2", ["t1", "t3"]]), max_size=3),
    ),
    max_size=6,
)


@given(CALLS, st.sampled_from(PROFILES))
@settings(max_examples=40)
def test_no_sequence_of_calls_raises_or_spoils_the_session(
    calls: list[tuple[str, dict[str, Any]]], name: str
):
    async def play() -> None:
        tools = [Tool(name=f"t{n}", description=f"Thing number {n}") for n in range(20)]
        async with Toolbox(tools, store="memory", profile=name) as box:
            session = await box.session("s")
            for tool, arguments in calls:
                result = await session.call(tool, arguments)
                assert result.code != INTERNAL, result.text
                assert result.content
                session.view("anthropic")
            kept = (await box.session("s")).state
            assert SessionState.from_json(kept.to_json(), version=kept.version) == kept

    asyncio.run(play())


# Stores in a bad way


def newer(path: Path) -> None:
    SqliteStore(path).close()
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA user_version = 99")
    raw.commit()
    raw.close()


def foreign(path: Path) -> None:
    path.write_text("no database, but long enough that it could be taken for one " * 20)


def folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (newer, "Upgrade toolscout"),
        (foreign, "Move it elsewhere"),
        (folder, "Check that its folder exists"),
    ],
)
async def test_a_store_that_cannot_be_used_is_reported_when_a_session_is_opened(
    open_box: Any, file: Path, spoil: Any, told: str
):
    spoil(file)
    box = await open_box(store=file)
    assert box.search("send_email").names
    with pytest.raises(StoreError, match=told) as caught:
        await box.session("s")
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("number", ["NaN", "1e999", "-Infinity"])
async def test_numbers_that_json_does_not_have_are_not_valid_arguments(open_box: Any, number: str):
    def half(amount: float) -> float:
        """Halve it."""
        return amount / 2

    session = await (await open_box(half)).session("s")
    for written in ("{}", '{"name": "half", "arguments": {}}'):
        name = "call_tool" if "half" in written else "half"
        said = f'{{"amount": {number}}}'
        assert (await session.call(name, written.replace("{}", said))).code == "invalid_arguments"
        fine = await session.call(name, written.replace("{}", '{"amount": 1e3}'))
        assert fine.text == "500.0"
    inner = {"name": "half", "arguments": f'{{"amount": {number}}}'}
    assert (await session.call("call_tool", inner)).code == "invalid_arguments"


async def test_no_arguments_may_be_written_as_null(open_box: Any):
    def noon() -> str:
        """Tell the time."""
        return "It is noon."

    session = await (await open_box(noon)).session("s")
    for nothing in (None, "null", "", "{}", {}):
        result = await session.call("call_tool", {"name": "noon", "arguments": nothing})
        assert result.text == "It is noon."
        assert (await session.call("noon", nothing)).text == "It is noon."


@pytest.mark.parametrize("model", [5, None, ["anthropic"], b"openai"])
async def test_an_invalid_model_is_an_error_that_shows_valid_ones(open_box: Any, model: Any):
    session = await (await open_box()).session("s")
    with pytest.raises(ConfigError, match=r"is not the name of a model.*anthropic"):
        session.view(model)


@pytest.mark.parametrize("messages", [5, "hello", b"x", {"role": "user", "content": "hello"}])
async def test_an_invalid_list_of_messages_is_refused(open_box: Any, messages: Any):
    with pytest.raises(ToolscoutError, match="not a list of messages"):
        await (await open_box()).session("s", messages=messages)


@pytest.mark.parametrize("allow", [5, "get_weather", 2.5])
async def test_a_value_that_is_not_a_rule_allows_nothing(open_box: Any, allow: Any):
    box = await open_box()
    for attempt in (
        lambda: Toolbox([], allow=allow),
        lambda: box.search("weather", allow=allow),
    ):
        with pytest.raises(ConfigError, match="is not an allow rule"):
            attempt()
    with pytest.raises(ConfigError, match="is not an allow rule"):
        await box.session("s", allow=allow)


@pytest.mark.parametrize("sources", [None, 5, object()])
def test_an_invalid_source_or_list_of_sources_is_refused(sources: Any):
    with pytest.raises(SourceError, match="is not a source of tools"):
        Toolbox(sources)


@pytest.mark.parametrize(
    ("query", "options", "told"),
    [
        (None, {}, "A NoneType is not a query"),
        (5, {}, "A int is not a query"),
        (["mail", None], {}, "A NoneType is not a query"),
        (b"mail", {}, "A bytes is not a query"),
        ("mail", {"limit": -1}, "a limit of 0 or more"),
        ("mail", {"limit": "many"}, "a limit of 0 or more"),
        ("mail", {"mode": "zzz"}, "no search mode 'zzz'.*Choose from: auto"),
    ],
)
async def test_an_invalid_search_is_refused_with_a_message(
    open_box: Any, query: Any, options: Any, told: str
):
    box = await open_box()
    with pytest.raises(ToolscoutError, match=told):
        box.search(query, **options)
    assert box.search([], limit=0).names == ()


@pytest.mark.parametrize("store", [5, {}, ["sqlite"], object()])
def test_an_invalid_store_is_refused_at_once(store: Any):
    with pytest.raises(ConfigError, match=r"is not a store.*sqlite"):
        Toolbox([], store=store)


async def test_an_invalid_name_has_no_reason(open_box: Any):
    session = await (await open_box()).session("s")
    with pytest.raises(ToolscoutError, match="not the name of a tool"):
        session.why(5)
