"""Sources come, change and go while conversations run."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from toolscout.catalog.result import Result
from toolscout.catalog.tool import Tool
from toolscout.config import Config
from toolscout.disclosure.profiles import DEFAULT
from toolscout.errors import SourceError, ToolscoutError
from toolscout.events import Event
from toolscout.offload.result_store import ResultStore
from toolscout.search.engine import Engine
from toolscout.sources.functions import FunctionSource
from toolscout.toolbox.live_catalog import LiveCatalog
from toolscout.toolbox.toolbox import Toolbox

LOADING = replace(DEFAULT, name="loading", surface="load")


class Notes:
    """A source whose tools and moods a test decides."""

    def __init__(self, *tools: str, name: str = "notes") -> None:
        self.name = name
        self.listed = tools
        self.problem: Exception | None = None
        self.ready = asyncio.Event()
        self.ready.set()
        self.closed = 0

    async def tools(self) -> Sequence[Tool]:
        await self.ready.wait()
        if self.problem:
            raise self.problem
        return [
            Tool(name=f"{self.name}__{t}", server=self.name, description=f"{t} notes")
            for t in self.listed
        ]

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:
        if self.problem:
            raise self.problem
        return Result.of(f"{self.name} ran {tool.local_name}")

    async def close(self) -> None:
        self.closed += 1


def names(view: Any) -> list[str]:
    return [t["name"] for t in view.tools]


async def test_sources_of_every_kind_are_one_catalog(open_box: Any, office: Any):
    box = await open_box(*office, Tool(name="paper"), Notes("read"))
    assert {"send_email", "paper", "notes__read"} <= set(box.catalog.tools)
    assert box.search("notes__read", limit=1).names == ("notes__read",)


async def test_one_source_alone_needs_no_list():
    async with Toolbox(Notes("read"), store="memory") as box:
        assert list(box.catalog.tools) == ["notes__read"]


@pytest.mark.parametrize("given", [3, None, object(), b"x"])
async def test_an_invalid_source_is_refused_with_what_to_give(open_box: Any, given: Any):
    with pytest.raises(SourceError, match="Give functions, tools, paths"):
        await open_box(given)


async def test_two_sources_with_one_name_for_a_tool_both_stay_callable(open_box: Any):
    one, two = Notes(name="one"), Notes(name="two")

    async def listed_one() -> list[Tool]:
        return [Tool(name="read", server="one")]

    async def listed_two() -> list[Tool]:
        return [Tool(name="read", server="two")]

    one.tools, two.tools = listed_one, listed_two  # type: ignore[method-assign]
    session = await (await open_box(one, two)).session("s")
    assert (await session.call("one__read", {})).text == "one ran read"
    assert (await session.call("two__read", {})).text == "two ran read"


@pytest.mark.behaviour("C37", "C46")
async def test_a_source_added_in_the_middle_is_found_shown_and_called(open_box: Any):
    events: list[Event] = []
    box = await open_box(profile=LOADING, sink=events.append)
    session = await box.session("s")
    before = names(session.view())
    await box.add(Notes("read", "write"))
    await session.call("tool_search", {"query": "notes__read"})
    assert names(session.view()) == [*before, "notes__read"]
    assert (await session.call("notes__read", {})).text == "notes ran read"
    changes = [e.facts for e in events if e.kind == "catalog_changed"]
    counts = {"added": 2, "changed": 0, "removed": 0, "version": 2}
    assert changes[-1] == {"source": "notes", **counts}


@pytest.mark.behaviour("C46")
async def test_a_source_of_a_known_name_replaces_it_and_the_old_one_is_closed(open_box: Any):
    old, new = Notes("read", "write"), Notes("read", "find")
    box = await open_box(old)
    await box.add(new)
    assert set(box.catalog.tools) == {"notes__read", "notes__find"}
    assert (old.closed, new.closed) == (1, 0)


async def test_functions_added_one_by_one_stand_beside_those_that_are_there(open_box: Any):
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello {name}"

    def shred(page: int) -> str:
        """Destroy a page."""
        return f"Page {page} is gone"

    box = await open_box(greet)
    session = await box.session("s")
    session.view()
    await asyncio.gather(box.add(shred), box.add(Tool(name="paper")), box.add(Tool(name="ink")))
    assert set(box.catalog.tools) == {"greet", "shred", "paper", "ink"}
    assert (await session.call("greet", {"name": "Ann"})).text == "Hello Ann"
    assert (await session.call("shred", {"page": 3})).text == "Page 3 is gone"
    assert box.search("greet somebody").names[0] == "greet"


async def test_a_function_of_a_known_name_replaces_only_that_one(open_box: Any):
    def greet() -> str:
        """Greet in English."""
        return "Hello"

    def part() -> str:
        """Say goodbye."""
        return "Bye"

    box = await open_box(greet, part, Tool(name="paper", description="Old"), Tool(name="ink"))

    def again() -> str:
        """Greet in French."""
        return "Bonjour"

    again.__name__ = "greet"
    await box.add(again, Tool(name="paper", description="New"))
    assert set(box.catalog.tools) == {"greet", "part", "paper", "ink"}
    assert box.catalog["paper"].description == "New"
    session = await box.session("s")
    assert (await session.call("greet", {})).text == "Bonjour"
    assert (await session.call("part", {})).text == "Bye"
    await box.add(FunctionSource([again], name="mine"))
    await box.add(FunctionSource([part], name="mine"))
    assert box.catalog.resolve("greet") == ("greet",)


# A toolbox from its beginning to its end


async def test_a_toolbox_that_nobody_entered_says_so_and_does_not_look_empty(office: Any):
    box = Toolbox(office, store="memory")
    with pytest.raises(ToolscoutError, match="async with"):
        box.search("send an email")
    with pytest.raises(ToolscoutError, match="async with"):
        await box.session("s")
    async with box:
        assert box.search("send an email").names
    assert box.search("send an email").names


async def test_a_toolbox_is_entered_once(office: Any):
    box = Toolbox(office, store="memory")
    async with box:
        with pytest.raises(ToolscoutError, match="open already"):
            await box.__aenter__()
        assert await box.session("s")
    with pytest.raises(ToolscoutError, match=r"is closed.*new Toolbox"):
        await box.__aenter__()
    with pytest.raises(ToolscoutError, match="is closed"):
        await box.session("s")


async def test_a_toolbox_without_sources_has_nothing_to_wait_for(file: Any):
    box = Toolbox(store=file)
    assert await box.sessions() == ()
    assert box.search("anything").names == ()
    await box.close()


# Names that are taken


async def test_a_tool_that_nobody_can_call_is_a_problem_of_its_source(open_box: Any, tmp_path: Any):
    def tool_search(query: str) -> str:
        """Search the shed for a tool."""
        return query

    def search_large_output() -> str:
        """Search."""
        return ""

    box = await open_box(tool_search, search_large_output, offload=ResultStore(tmp_path))
    why = box.problems["functions"]
    assert "tool_search cannot be called, since the profile default has" in why
    assert "search_large_output cannot be called, since a feature" in why
    health = await box.health()
    assert health.parts["catalog"].status == "degraded"
    assert health.parts["catalog"].facts["problems"] == {"functions": why}
    plain = await open_box(tool_search, profile="everything")
    assert plain.problems == {}
    session = await plain.session("s")
    assert (await session.call("tool_search", {"query": "saw"})).text == "saw"


@pytest.mark.behaviour("C30", "C41")
async def test_replacing_all_tools_of_a_source_keeps_what_was_loaded(open_box: Any):
    box = await open_box(Notes("read", "write"), profile="cortex")
    session = await box.session("s")
    await session.call("ToolSearch", {"query": "select:notes__read"})
    await box.add(Notes("find", "move"))
    assert session.state.loaded == ("notes__read",)
    assert session.stats().deferred == ("notes__find", "notes__move")
    await box.add(Notes("find", "read"))
    assert session.stats().in_view == ("notes__read",)


@pytest.mark.behaviour("C43")
async def test_a_tool_that_comes_back_is_loaded_and_callable_again(open_box: Any, file: Any):
    box = await open_box(Notes("read"), profile="cortex", store=file)
    session = await box.session("s")
    await session.call("ToolSearch", {"query": "select:notes__read"})
    session.view()
    await box.remove("notes")
    gone = await session.call("notes__read", {})
    assert (gone.is_error, gone.code) == (True, "source")
    assert "not connected" in gone.text
    assert session.state.loaded == ("notes__read",)
    assert session.why("notes__read").reason == "lost"
    await box.add(Notes("read"))
    assert session.why("notes__read").in_view
    assert (await session.call("notes__read", {})).text == "notes ran read"


async def test_compacting_by_hand_gives_the_same_list_and_the_matching_messages(
    open_box: Any, file: Any, office: Any
):
    claude, summary = "claude-opus-4-5", {"role": "user", "content": "In short: …"}
    lists: list[str] = []
    box = await open_box(*office, store=file)
    session = await box.session("s")
    lists.append(session.view(claude).text)
    await session.call("tool_search", {"query": "select:send_email"})
    await box.add(Notes("read"))
    lists.append(session.view(claude).text)
    await session.call("tool_search", {"query": "select:notes__read"})
    await box.remove("notes")
    lists.append(session.view(claude).text)
    await session.mark_compacted()
    lists.append(session.view(claude).text)
    resumed = await (await open_box(*office, store=file)).session("s")
    seen = resumed.view(claude)
    for before, after in pairwise([*lists, seen.text]):
        assert after.startswith(before.removesuffix("]"))
    _, asked, answered = seen.restore_references([summary])
    assert asked["content"][0]["input"] == {"query": "select:send_email,notes__read"}
    found = answered["content"][0]["content"]
    assert [block["tool_name"] for block in found] == ["send_email", "notes__read"]
    assert (await resumed.call("notes__read", {})).code == "source"


@pytest.mark.behaviour("E85")
async def test_loaded_names_that_do_not_exist_or_are_not_allowed_are_in_no_view(open_box: Any):
    box = await open_box(Notes("read", "write"), profile="cms")
    session = await box.session("s", allow={"notes__read"})
    await session.load("notes__read", "notes__write", "long_gone")
    assert names(session.view()) == ["tool_search", "notes__read"]
    await session.load()
    assert session.state.loaded == ("notes__read", "notes__write", "long_gone")


async def test_a_broken_source_is_noted_and_the_others_work(open_box: Any):
    events: list[Event] = []
    broken = Notes("read", name="broken")
    broken.problem = SourceError("The cable is out.")
    box = await open_box(broken, Notes("read"), sink=events.append)
    assert list(box.catalog.tools) == ["notes__read"]
    assert [e.facts for e in events if e.kind == "source_failed"] == [
        {"source": "broken", "why": "The cable is out."}
    ]
    health = await box.health()
    assert health.status == "degraded"
    assert health.parts["catalog"].facts["problems"] == {"broken": "The cable is out."}
    broken.problem = None
    await box.refresh("broken")
    assert "broken__read" in box.catalog
    assert (await box.health()).status == "ok"


async def test_a_source_that_fails_later_keeps_its_tools_and_its_calls_say_why(open_box: Any):
    notes = Notes("read")
    box = await open_box(notes)
    session = await box.session("s")
    notes.problem = SourceError("The cable is out.")
    await box.refresh()
    assert "notes__read" in box.catalog
    result = await session.call("notes__read", {})
    assert (result.is_error, result.text) == (True, "The cable is out.")


async def test_a_slow_source_does_not_hold_up_the_start_and_joins_when_ready(open_box: Any):
    slow = Notes("read", name="slow")
    slow.ready.clear()
    changed = asyncio.Event()
    config = Config.read(start_timeout_seconds=0)
    box = await open_box(slow, Notes("read"), config=config, sink=lambda _: changed.set())
    await changed.wait()
    assert list(box.catalog.tools) == ["notes__read"]
    changed.clear()
    slow.ready.set()
    await changed.wait()
    assert (await (await box.session("s")).call("slow__read", {})).text == "slow ran read"
    assert box.catalog.sources == ("slow", "notes")


async def test_a_source_that_starts_is_not_reported_as_missing(open_box: Any):
    slow = Notes("read", name="slow")
    slow.ready.clear()
    config = Config.read(start_timeout_seconds=0)
    box = await open_box(slow, config=config)
    session = await box.session("s")
    assert box.search("read a note").notes == ("Not searched: slow (starting).",)
    called = await session.call("slow__read", {})
    assert (called.code, "slow is still starting" in called.text) == ("starting", True)
    assert "No tools are connected yet" in (await session.call("tool_search", {"query": "x"})).text
    await box.add(Notes("write"))
    found = await session.call("tool_search", {"query": "write"})
    assert found.text.endswith("Not searched: slow (starting).")
    slow.ready.set()
    await box.wait_until_ready()
    assert box.search("read a note").notes == ()


async def test_a_source_that_fails_says_why_its_tools_are_missing(open_box: Any):
    broken = Notes("read", name="broken")
    broken.problem = SourceError("The cable is out.")
    box = await open_box(broken)
    session = await box.session("s")
    assert box.search("read").notes == ("Not searched: broken (failing).",)
    assert "The cable is out." in (await session.call("broken__read", {})).text
    assert "The cable is out." in (await session.call("tool_search", {"query": "read"})).text
    assert "There is no tool" in (await session.call("other__read", {})).text
    hidden = await box.session("t", allow=["notes__*"])
    assert "cable" not in (await hidden.call("broken__read", {})).text
    assert box.search("read", allow=["notes__*"]).notes == ()


async def test_a_caller_can_wait_until_everything_is_ready(open_box: Any, office: Any):
    slow = Notes("read", name="slow")
    slow.ready.clear()
    config = Config.read(start_timeout_seconds=0, embedder="use")
    box = await open_box(*office, slow, config=config)
    asyncio.get_running_loop().call_soon(slow.ready.set)
    await box.wait_until_ready()
    assert "slow__read" in box.catalog
    facts = (await box.health()).parts["index"].facts
    assert facts["vectors"] == {"use-m3": len(box.catalog)}
    assert box.search("quel temps fait-il à Paris", limit=1).names == ("get_weather",)


async def test_a_source_that_raises_anything_at_all_is_that_calls_error(open_box: Any):
    notes = Notes("read")
    session = await (await open_box(notes)).session("s")
    notes.problem = ZeroDivisionError("by zero")
    result = await session.call("notes__read", {})
    assert (result.is_error, result.code) == (True, "call")
    assert "ZeroDivisionError: by zero" in result.text


async def test_sources_are_released_when_the_box_closes_even_if_one_fails_to_close():
    class Stuck(Notes):
        async def close(self) -> None:
            await super().close()
            raise OSError("stuck")

    stuck, fine = Stuck("read", name="stuck"), Notes("read")
    async with Toolbox([stuck, fine], store="memory"):
        pass
    assert (stuck.closed, fine.closed) == (1, 1)


async def test_an_unknown_source_is_an_error_that_lists_the_known(open_box: Any):
    box = await open_box(Notes("read"))
    with pytest.raises(ToolscoutError, match="The sources are: notes"):
        await box.remove("nobody")


async def test_searches_and_calls_continue_while_the_catalog_changes(open_box: Any):
    box = await open_box(Notes("read"))
    session = await box.session("s")

    async def churn() -> None:
        for number in range(30):
            await box.add(Notes(*(f"t{n}" for n in range(number)), name="other"))

    async def use() -> list[Result]:
        return [await session.call("notes__read", {}) for _ in range(60)]

    _, results = await asyncio.gather(churn(), use())
    assert {r.text for r in results} == {"notes ran read"}
    assert len(box.catalog) == 30


async def given_up(work: Coroutine[Any, Any, None], *, after: int) -> None:
    """Cancel what was begun after so many turns of the event loop."""
    task = asyncio.create_task(work)
    for _ in range(after):
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("turns", range(1, 5))
async def test_a_removal_that_somebody_gives_up_on_is_still_a_whole_one(open_box: Any, turns: int):
    notes = Notes("read")
    box = await open_box(notes)
    adding = asyncio.create_task(box.add(Notes(*(f"t{n}" for n in range(300)), name="other")))
    await given_up(box.remove("notes"), after=turns)
    await adding
    await box.wait_until_ready()
    assert box.catalog.sources == ("other",)
    assert notes.closed == 1
    await box.add(Notes("find"))
    assert box.catalog.names_of("notes") == ("notes__find",)


@pytest.mark.parametrize("turns", range(1, 5))
async def test_an_addition_that_somebody_gives_up_on_is_not_undone_by_the_next(
    open_box: Any, turns: int
):
    box = await open_box(Notes("read"))
    many = Notes(*(f"t{n}" for n in range(300)), name="many")
    await given_up(box.add(many), after=turns)
    await box.add(Notes("read", name="other"))
    assert sorted(box.catalog.sources) == ["many", "notes", "other"]


async def test_a_source_that_takes_the_place_of_another_is_listed_though_somebody_gives_up(
    open_box: Any,
):
    box = await open_box(Notes("read"))
    slow = Notes("find")
    slow.ready.clear()
    await given_up(box.add(slow), after=10)
    slow.ready.set()
    await box.wait_until_ready()
    assert box.catalog.names_of("notes") == ("notes__find",)


async def test_who_adds_a_source_while_the_box_is_closed_is_not_cancelled():
    async with Toolbox(Notes("read"), store="memory") as box:
        slow = Notes("find")
        slow.ready.clear()
        adding = asyncio.create_task(box.add(slow))
        for _ in range(10):
            await asyncio.sleep(0)
    await adding


async def test_a_source_whose_removal_was_given_up_is_closed_with_the_box():
    notes = Notes("read")
    async with Toolbox(notes, store="memory") as box:
        await given_up(box.remove("notes"), after=1)
    assert notes.closed == 1


async def test_a_caller_that_gives_up_on_a_change_stops_waiting_for_it(open_box: Any):
    closing = asyncio.Event()

    class Slow(Notes):
        async def close(self) -> None:
            closing.set()
            await self.ready.wait()
            await super().close()

    slow = Slow("read")
    box = await open_box(slow)
    slow.ready.clear()
    removing = asyncio.create_task(box.remove("notes"))
    await closing.wait()
    removing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await removing
    assert slow.closed == 0
    slow.ready.set()
    await box.wait_until_ready()
    assert slow.closed == 1


async def test_the_store_is_part_of_the_health(open_box: Any, file: Any):
    file.write_text("this is no database, but it is long enough to be taken for one " * 20)
    health = await (await open_box(Notes("read"), store=file)).health()
    assert health.status == "error"
    assert "not a store" in health.to_dict()["parts"]["store"]["why"]


async def test_a_source_is_closed_even_if_the_event_sink_fails():
    def hear(event: Event) -> None:
        if event.kind == "catalog_changed" and event.facts["removed"]:
            raise RuntimeError("It cannot hear.")

    notes = Notes("read")
    live = LiveCatalog(Engine(), sink=hear)
    await live.put(notes)
    with pytest.raises(RuntimeError, match="It cannot hear"):
        await live.remove("notes")
    assert notes.closed == 1
    assert not live.catalog.tools
    await live.close()
