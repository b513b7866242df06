"""Conversations: kept after every move, shared by writers, and the same after a restart."""

from __future__ import annotations

import asyncio
import gc
import json
import sqlite3
import subprocess
import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from toolscout.catalog.result import Result
from toolscout.catalog.tool import Tool
from toolscout.config import Config
from toolscout.disclosure.profiles import DEFAULT
from toolscout.errors import ConfigError, StoreError
from toolscout.events import Event
from toolscout.store.contract import Record
from toolscout.store.memory import MemoryStore
from toolscout.store.sqlite import SqliteOptions, SqliteStore
from toolscout.toolbox.toolbox import Toolbox

LOADING = replace(DEFAULT, name="loading", surface="load")


class Crm:
    """A server that comes and goes."""

    name = "crm"

    def __init__(self, listed: list[Tool]) -> None:
        self._listed = listed

    async def tools(self) -> list[Tool]:
        return self._listed

    async def call(self, tool: Tool, arguments: Any) -> Result:
        return Result.of("found")

    async def close(self) -> None: ...


def names(view: Any) -> list[str]:
    return [t["name"] for t in view.tools]


@pytest.mark.behaviour("S1")
async def test_an_unknown_session_is_a_new_and_empty_one(open_box: Any):
    session = await (await open_box()).session("never seen")
    assert session.state.loaded == session.state.searches == session.state.uses == ()


async def test_sessions_that_are_opened_at_once_are_kept_in_one_store(open_box: Any):
    box = await open_box()
    opened = await asyncio.gather(*(box.session(f"user {n}") for n in range(8)))
    for session in opened:
        await session.load("send_email")
    assert len(await box.sessions()) == 8
    del opened, session
    gc.collect()
    again = [(await box.session(f"user {n}")).state.loaded for n in range(8)]
    assert again == [("send_email",)] * 8


@pytest.mark.parametrize("key", ["", "x" * 600, "a\0b", "\udcff", None, 42, b"s", ["s"]])
async def test_an_impossible_id_is_an_error_with_what_would_do(open_box: Any, key: Any):
    box = await open_box()
    with pytest.raises(StoreError, match="1 to 512 characters"):
        await box.session(key)


def test_an_unknown_profile_is_an_error_that_lists_the_known():
    with pytest.raises(ConfigError, match=r"no profile 'solo'.*default.*cortex"):
        Toolbox(profile="solo")


@pytest.mark.behaviour("S1")
async def test_tools_loaded_in_one_session_are_not_loaded_in_another(open_box: Any):
    box = await open_box(profile="everruns")
    one, two = await box.session("one"), await box.session("two")
    before = two.view().text
    await one.call("tool_search", {"query": "send_email"})
    await one.load("send_email")
    assert one.state.loaded == ("send_email",)
    assert two.state.loaded == ()
    assert two.view().text == before


@pytest.mark.behaviour("S1")
async def test_past_the_cap_the_session_unused_for_longest_is_gone(open_box: Any, file: Path):
    config = Config.read(max_sessions=2, store=str(file))
    box = await open_box(store=None, config=config)
    handles = [await box.session(name) for name in ("first", "second", "third")]
    for handle in handles:
        await handle.load("send_email")
    assert [r.key for r in await box.sessions()] == ["third", "second"]
    assert (await box.session("first")).state.loaded == ()


@pytest.mark.behaviour("C41", "B32", "D54")
async def test_a_session_is_the_same_in_another_toolbox_over_the_same_file(
    open_box: Any, file: Path
):
    first = await (await open_box(store=file)).session("s")
    first.view("anthropic")
    await first.call("tool_search", {"query": "send_email"})
    await first.call("get_weather", {"city": "Oslo"})
    second = await (await open_box(store=file)).session("s")
    assert second.state == first.state
    assert second.state.loaded == ("send_email",)
    assert second.view("anthropic").text == first.view("anthropic").text
    assert second.view("anthropic").instructions == first.view("anthropic").instructions


@pytest.mark.behaviour("C48")
async def test_two_handles_of_one_session_agree_at_once(open_box: Any):
    box = await open_box()
    one, two = await box.session("s"), await box.session("s")
    await one.load("send_email")
    assert two.state.loaded == ("send_email",)
    await two.unload("send_email")
    assert one.state.loaded == ()


async def test_two_toolboxes_over_one_file_lose_none_of_each_others_moves(
    open_box: Any, file: Path
):
    boxes = [await open_box(store=file) for _ in range(2)]
    left, right = [await box.session("s") for box in boxes]
    topics = [t for t in boxes[0].catalog.tools if t.startswith("archive_")]

    async def work(session: Any, mine: list[str]) -> None:
        for topic in mine:
            await session.load(topic)
            await session.call(topic, {"name": "x"})

    await asyncio.gather(work(left, topics[::2]), work(right, topics[1::2]))
    kept = await (await open_box(store=file)).session("s")
    assert sorted(kept.state.loaded) == sorted(topics)
    assert sorted(kept.state.uses) == sorted(topics)


WORKER = """
import asyncio, sys
from toolscout.catalog.tool import Tool
from toolscout.toolbox.toolbox import Toolbox

async def main(path, who):
    async with Toolbox([Tool(name="a")], store=path) as box:
        session = await box.session("s")
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(25):
            await session.load(f"{who}-{number}")

asyncio.run(main(*sys.argv[1:]))
"""


def entries(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def at_once(*commands: list[str]) -> None:
    """Run programs that say when they are ready, and let all of them go together."""
    workers = [
        subprocess.Popen(c, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for c in commands
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        worker.communicate()
        assert worker.returncode == 0


async def test_two_processes_working_in_one_session_lose_nothing(open_box: Any, file: Path):
    who = ("left", "right")
    at_once(*([sys.executable, "-c", WORKER, str(file), w] for w in who))
    kept = await (await open_box(store=file)).session("s")
    for name in who:
        mine = [n for n in kept.state.loaded if n.startswith(name)]
        assert mine == [f"{name}-{n}" for n in range(25)]


async def test_writes_of_another_process_show_when_the_session_is_opened_again(
    open_box: Any, file: Path
):
    here, there = await open_box(store=file), await open_box(store=file)
    mine = await here.session("s")
    await (await there.session("s")).load("send_email")
    assert mine.state.loaded == ()
    assert (await here.session("s")).state.loaded == ("send_email",)
    assert mine.state.loaded == ("send_email",)


async def test_a_locked_store_costs_no_call_its_outcome_and_is_written_later(
    open_box: Any, file: Path
):
    events: list[Event] = []
    store = SqliteStore(file, options=SqliteOptions(busy_timeout_seconds=0.01))
    session = await (await open_box(store=store, sink=events.append)).session("s")
    await session.load("get_weather")
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    result = await session.call("send_email", {"to": "ann", "subject": "Hi"})
    await session.load("send_email")
    assert not result.is_error
    assert session.state.uses == ("send_email",)
    assert any(e.kind == "store_failed" and "locked" in e.facts["why"] for e in events)
    other.execute("ROLLBACK")
    other.close()
    await session.save()
    again = await (await open_box(store=file)).session("s")
    assert again.state.loaded == ("get_weather", "send_email")
    assert again.state.uses == ("send_email",)
    store.close()


class Full(MemoryStore):
    """A store that has no room."""

    def put(self, key: str, text: str, *, expected: int) -> Record | None:
        raise StoreError("The disk is full.")


@pytest.mark.timeout(30)
async def test_a_sink_notified_of_a_failing_store_may_look_at_the_conversation(open_box: Any):
    seen: list[tuple[str, ...]] = []

    def look(event: Event) -> None:
        if event.kind == "store_failed":
            session.view()
            seen.append(session.state.uses)

    session = await (await open_box(store=Full(), sink=look)).session("s")
    result = await session.call("send_email", {"to": "ann", "subject": "Hi"})
    assert not result.is_error
    assert ("send_email",) in seen


class Busy(MemoryStore):
    """A store whose writes wait until they may."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked, self.may_write = threading.Event(), threading.Event()
        self.may_write.set()

    def put(self, key: str, text: str, *, expected: int) -> Record | None:
        self.is_asked.set()
        self.may_write.wait()
        return super().put(key, text, expected=expected)

    async def held(self) -> None:
        """Until somebody waits to write."""
        await asyncio.to_thread(self.is_asked.wait)


@pytest.mark.timeout(30)
async def test_a_view_does_not_wait_for_the_store_and_is_kept_with_what_was_written(open_box: Any):
    store = Busy()
    store.may_write.clear()
    session = await (await open_box(store=store)).session("s")
    call = asyncio.create_task(session.call("send_email", {"to": "ann", "subject": "Hi"}))
    await store.held()
    session.view()
    assert "view" in session.state.sections
    store.may_write.set()
    assert not (await call).is_error
    assert session.state.uses == ("send_email",)
    assert "view" in session.state.sections
    await session.save()
    again = await (await open_box(store=store)).session("s")
    assert again.state == session.state


@pytest.mark.timeout(30)
async def test_a_view_made_while_a_search_is_saved_begins_the_next_view(open_box: Any):
    store = Busy()
    session = await (await open_box(store=store, profile=LOADING)).session("s")
    store.may_write.clear()
    query = {"query": "select:send_email,get_weather"}
    search = asyncio.create_task(session.call("tool_search", query))
    await store.held()
    seen = session.view().text
    store.may_write.set()
    await search
    later = session.view()
    assert session.state.loaded == ("send_email", "get_weather")
    assert later.text.startswith(seen.removesuffix("]"))
    assert names(later)[-2:] == ["send_email", "get_weather"]


@pytest.mark.timeout(30)
async def test_a_write_that_comes_second_keeps_what_was_seen_meanwhile(open_box: Any):
    store = Busy()
    mine = await (await open_box(store=store)).session("s")
    theirs = await (await open_box(store=store)).session("s")
    await theirs.load("theirs")
    store.is_asked.clear()
    store.may_write.clear()
    loading = asyncio.create_task(mine.load("mine"))
    await store.held()
    mine.view()
    store.may_write.set()
    await loading
    assert mine.state.loaded == ("theirs", "mine")
    assert "view" in mine.state.sections


async def test_views_and_calls_at_once_lose_nothing_of_each_other(open_box: Any, file: Path):
    box = await open_box(store=file, profile=LOADING)
    session = await box.session("s")
    topics = sorted(t for t in box.catalog.tools if t.startswith("archive_"))

    async def work(name: str) -> None:
        await session.call("tool_search", {"query": f"select:{name}"})
        session.view()
        await session.call(name, {"name": "old"})

    await asyncio.gather(*map(work, topics))
    assert set(topics) <= set(names(session.view()))
    await session.save()
    again = (await (await open_box(store=file)).session("s")).state
    assert again == session.state
    assert sorted(again.uses) == sorted(again.loaded) == topics


async def test_moves_that_a_full_store_delayed_join_what_others_wrote(open_box: Any):
    store = MemoryStore()
    box, other = await open_box(store=store), await open_box(store=store)
    mine, theirs = await box.session("s"), await other.session("s")
    mine.view("anthropic")
    await theirs.load("theirs")
    await mine.load("mine")
    assert mine.state.loaded == ("theirs", "mine")
    assert "view" in mine.state.sections


async def test_a_session_evicted_while_in_use_continues(open_box: Any):
    store = MemoryStore()
    session = await (await open_box(store=store)).session("s")
    await session.load("get_weather")
    store.delete("s")
    await session.load("send_email")
    kept = store.get("s")
    assert kept is not None
    assert json.loads(kept.text)["loaded"] == ["get_weather", "send_email"]


async def test_a_stored_session_that_cannot_be_read_is_an_error_and_stays(open_box: Any):
    store = MemoryStore()
    store.put("s", '{"schema": 99, "id": "s"}', expected=0)
    box = await open_box(store=store)
    with pytest.raises(StoreError, match="Upgrade toolscout"):
        await box.session("s")
    kept = store.get("s")
    assert kept is not None
    assert "99" in kept.text


@pytest.mark.behaviour("E95")
async def test_ending_a_session_forgets_all_of_it(open_box: Any):
    box = await open_box()
    session = await box.session("s")
    await session.call("tool_search", {"query": "send_email"})
    await session.forget()
    assert session.state.loaded == ()
    assert await box.sessions() == ()
    assert (await box.session("s")).state.searches == ()


async def test_nothing_is_written_before_a_session_is_opened(tmp_path: Path):
    async with Toolbox([Tool(name="a")], config=Config.read(home=tmp_path)) as box:
        box.search("a")
        assert entries(tmp_path) == []
        await (await box.session("s")).load("a")
    assert entries(tmp_path / "state") == ["toolscout.db"]


async def test_a_view_is_saved_even_if_no_call_follows(open_box: Any, file: Path):
    async with Toolbox((await open_box()).catalog, store=file) as box:
        (await box.session("s")).view("anthropic")
        gc.collect()
    kept = await (await open_box(store=file)).session("s")
    assert "view" in kept.state.sections


@dataclass(frozen=True, slots=True, kw_only=True)
class CountEvent(Event):
    """A user's program counted."""

    kind: ClassVar[str] = "counted"

    by: str


async def test_sections_of_others_in_a_session_are_updated_and_never_overwritten(
    open_box: Any, file: Path
):
    events: list[Event] = []
    boxes = [await open_box(store=file, sink=events.append) for _ in range(2)]
    handles = [await box.session("s") for box in boxes]

    async def count(session: Any) -> None:
        for _ in range(20):
            await session.update_section("count", lambda text: str(int(text or "0") + 1))

    await asyncio.gather(*map(count, handles))
    handles[0].emit(CountEvent(by="both"))
    assert (await boxes[0].session("s")).state.sections["count"] == "40"
    assert [(e.kind, e.session, e.facts) for e in events if e.session] == [
        ("counted", "s", {"by": "both"})
    ]


async def test_tools_are_looked_up_by_name_as_far_as_the_conversation_may_have_them(
    open_box: Any,
):
    session = await (await open_box()).session("s", allow={"get_weather"})
    assert [t.name for t in session.tools("send_email", "get_weather", "x")] == ["get_weather"]


# Loading and unloading


@pytest.mark.behaviour("S3", "K15")
async def test_a_cap_on_loaded_tools_keeps_the_newest(open_box: Any):
    box = await open_box(config=Config.read(max_loaded=20))
    session = await box.session("s")
    await session.load(*box.catalog.tools)
    assert session.state.loaded == tuple(box.catalog.tools)[-20:]
    await session.call("describe_tools", {"names": ["send_email"]})
    assert session.state.loaded[-1] == "send_email"
    assert len(session.state.loaded) == 20


@pytest.mark.behaviour("S3", "K15")
@pytest.mark.parametrize("clear", [False, True])
async def test_compaction_keeps_loaded_tools_unless_set_to_clear_them(open_box: Any, clear: bool):
    box = await open_box(profile=LOADING, config=Config.read(clear_on_compaction=clear))
    session = await box.session("s")
    session.view()
    await session.load("send_email")
    assert "send_email" in names(session.view())
    await session.mark_compacted()
    assert ("send_email" in names(session.view())) is not clear


@pytest.mark.behaviour("S3")
async def test_the_model_unloads_by_name_and_never_the_discovery_tools(open_box: Any):
    session = await (await open_box(profile="mcpagent")).session("s")
    await session.load("read_workspace_file", "send_email")
    asked = {"tool_names": ["ReadWorkspaceFile", "get_weather", "search_tools"]}
    reply = (await session.call("remove_tool", asked)).text
    assert "Removed: read_workspace_file" in reply
    assert "get_weather, search_tools" in reply
    assert session.state.loaded == ("send_email",)
    assert "search_tools" in names(session.view())


@pytest.mark.behaviour("B22", "B30", "B31")
async def test_tools_added_by_add_tool_are_in_the_next_view_and_still_found(open_box: Any):
    box = await open_box(profile="mcpagent")
    session = await box.session("s")
    before = names(session.view())
    await session.call("add_tool", {"tool_names": ["send_email", "get_weather"]})
    assert names(session.view()) == [*before, "send_email", "get_weather"]
    found = json.loads((await session.call("search_tools", {"query": "send_email"})).text)
    assert found["found"] == 1
    other = await box.session("other")
    await other.call("add_tool", {"tool_names": ["send_email", "get_weather"]})
    assert other.view().text == session.view().text


@pytest.mark.behaviour("B26", "B27")
async def test_add_tool_tells_added_already_available_and_unknown_names_apart(open_box: Any):
    session = await (await open_box(profile="mcpagent")).session("s")
    await session.load("get_weather")
    asked = {"tool_names": ["send_email", "get_weather", "nothing", "send_email"]}
    lines = (await session.call("add_tool", asked)).text.splitlines()
    assert lines[0].startswith("Added: send_email")
    assert lines[1].startswith("Already available: get_weather, send_email")
    assert lines[2].startswith("Not found: nothing")
    assert session.state.loaded == ("get_weather", "send_email")


@pytest.mark.behaviour("B28", "B29")
async def test_add_tool_knows_other_spellings_and_aliases_by_the_real_name(open_box: Any):
    session = await (await open_box(profile="mcpagent")).session("s")
    asked = {"tool_names": ["ReadWorkspaceFile", "write_workspace_file"]}
    await session.call("add_tool", asked)
    assert session.state.loaded == ("read_workspace_file", "update_workspace_file")


@pytest.mark.behaviour("B29")
async def test_a_real_name_beats_an_alias(open_box: Any, office: Any):
    own = Tool(name="write_workspace_file", description="The real one.")
    session = await (await open_box(*office, own, profile="mcpagent")).session("s")
    await session.call("add_tool", {"tool_names": ["write_workspace_file"]})
    assert session.state.loaded == ("write_workspace_file",)


@pytest.mark.behaviour("B70", "B71")
async def test_where_a_conversation_stands_can_be_asked_in_names_and_numbers(open_box: Any):
    box = await open_box(profile="mcpagent")
    session = await box.session("s")
    await session.load("send_email")
    stats = session.stats()
    assert stats.profile == "mcpagent"
    assert stats.loaded == stats.in_view == ("send_email",)
    assert len(stats.deferred) == len(box.catalog) - 1
    assert set(stats.tools) == set(box.catalog.tools)
    assert session.why("send_email").reason == "loaded"
    assert session.why("get_weather").reason == "all"


@pytest.mark.behaviour("D53")
async def test_views_are_made_afresh_from_definitions_that_never_change(open_box: Any):
    box = await open_box(profile="everruns")
    session = await box.session("s")
    before = box.catalog.fingerprint
    first, second = session.view(), session.view()
    assert first.text == second.text
    assert box.catalog.fingerprint == before
    stub = next(t for t in first.tools if t["name"] == "send_email")
    assert "properties" not in json.dumps(stub)
    assert "subject" in box.catalog["send_email"].parameters.value["properties"]


@pytest.mark.behaviour("D54")
async def test_real_schemas_outlive_their_stubs_through_a_restart(open_box: Any, file: Path):
    (await (await open_box(profile="everruns", store=file)).session("s")).view()
    again = await (await open_box(profile="everruns", store=file)).session("s")
    reply = json.loads((await again.call("tool_search", {"query": "send_email"})).text)
    assert "subject" in reply["tools"][0]["parameters"]["properties"]


@pytest.mark.behaviour("C31", "C32", "C33")
async def test_with_cortex_each_tool_is_newly_loaded_once_and_the_rest_stay_listed(
    open_box: Any,
):
    tools = (Tool(name=f"notes__{n}", server="notes") for n in ("write", "read", "find"))
    session = await (await open_box(*tools, profile="cortex")).session("s")
    query = {"query": "select:notes__read,notes__write"}
    first = json.loads((await session.call("ToolSearch", query)).structured)
    second = json.loads((await session.call("ToolSearch", query)).structured)
    assert first["loaded"] == ["notes__read", "notes__write"]
    assert second["loaded"] == []
    assert session.state.loaded == ("notes__read", "notes__write")
    ((_, slot),) = session.view().slots
    assert [line for line in slot.splitlines() if line.startswith("- ")] == ["- notes__find"]


async def test_a_session_that_cannot_be_read_can_be_forgotten_and_rebuilt(file: Path):
    async with Toolbox([Tool(name="t")], store=file) as box:
        await (await box.session("s")).load("t")
    with sqlite3.connect(file) as sql:
        sql.execute("UPDATE records SET text = '{bad'")
    call = {"id": "1", "function": {"name": "t", "arguments": "{}"}}
    messages = [{"role": "assistant", "tool_calls": [call]}]
    async with Toolbox([Tool(name="t")], store=file) as box:
        with pytest.raises(StoreError, match=r"cannot be read.*box\.forget"):
            await box.session("s", messages=messages)
        assert await box.forget("s")
        assert (await box.session("s", messages=messages)).state.loaded == ("t",)
        assert not await box.forget("never seen")


async def test_forgetting_by_id_resets_an_open_conversation(open_box: Any):
    box = await open_box()
    session = await box.session("s")
    await session.load("get_weather")
    assert await box.forget("s")
    assert session.state.loaded == ()
    assert await box.sessions() == ()


async def test_a_loaded_tool_that_left_the_catalog_says_so_and_works_when_it_is_back():
    many = [Tool(name=f"t{i}", description=f"Number {i}.") for i in range(20)]
    source = Tool(name="crm__find", server="crm", description="Find a customer.")
    async with Toolbox(many, store="memory") as box:
        session = await box.session("s")
        assert session.view("openai").surface == "dispatch"
        assert (await session.call("crm__find", {})).code == "unknown_tool"
        before = set(box.catalog.tools)
        await box.add(Crm([source]))
        await session.call("tool_search", {"query": "select:crm__find"})
        await box.remove("crm")
        assert set(box.catalog.tools) == before
        for name, arguments in (("crm__find", {}), ("call_tool", {"name": "crm__find"})):
            gone = await session.call(name, arguments)
            assert gone.code == "source"
            assert "no longer in the catalog" in gone.text
        await box.add(Crm([source]))
        assert (await session.call("crm__find", {})).text == "found"


async def test_the_name_that_sqlite_has_for_memory_makes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    async with Toolbox([], store=":memory:") as box:
        await (await box.session("s")).load("t")
    assert not (tmp_path / ":memory:").exists()


async def test_a_session_takes_another_profile_by_its_name(open_box: Any):
    box = await open_box(Tool(name="s__far", server="s", description="Far away."))
    session = await box.session("s", profile="cortex")
    names = [t["name"] for t in session.view().tools]
    assert "ToolSearch" in names
    assert "s__far" not in names
    assert not (await session.call("ToolSearch", {"query": "select:s__far"})).is_error
    assert "s__far" in [t["name"] for t in session.view().tools]
    other = await box.session("other")  # the profile of the toolbox shows a small catalog whole
    assert [t["name"] for t in other.view().tools] == ["s__far"]


async def test_a_session_is_rebuilt_from_messages_by_its_own_profile(open_box: Any):
    far = [Tool(name=f"s__t{n}", server="s", description=f"Thing {n}.") for n in range(40)]
    box = await open_box(*far, profile="everything")
    before = await box.session("a", profile="cortex")
    before.view()
    answer = await before.call("ToolSearch", {"query": "select:s__t7"})
    call = {"id": "1", "type": "function"}
    function = {"name": "ToolSearch", "arguments": '{"query": "select:s__t7"}'}
    messages = [
        {"role": "user", "content": "Find it."},
        {"role": "assistant", "tool_calls": [{**call, "function": function}]},
        {"role": "tool", "tool_call_id": "1", "content": answer.text},
    ]
    again = await box.session("b", profile="cortex", messages=messages)
    assert again.state.loaded == before.state.loaded == ("s__t7",)


async def test_an_unknown_profile_of_a_session_is_an_error_that_lists_the_known_ones(open_box: Any):
    box = await open_box()
    with pytest.raises(ConfigError, match="no profile 'cortx'"):
        await box.session("s", profile="cortx")
