"""Features join at small seams, and none of them can cost a call its outcome."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from toolscout.catalog.result import Result
from toolscout.catalog.tool import Tool
from toolscout.disclosure.feature import CallerSession, Feature
from toolscout.errors import ConfigError
from toolscout.events import Event, FeatureFailureEvent, ToolCallEvent
from toolscout.guidance.rules import Rules
from toolscout.memory.memory import Memory as RealMemory
from toolscout.offload.limits import OffloadLimits
from toolscout.offload.result_store import ResultStore
from toolscout.toolbox.toolbox import Toolbox

from .conftest import OFFICE


def names(view: Any) -> list[str]:
    return [t["name"] for t in view.tools]


class Memory(Feature):
    """Counts successes and failures by tool."""

    def observe(self, section: str | None, tool: Tool, result: Result, *, now: float) -> str:
        seen = json.loads(section or "{}")
        seen[tool.name] = [*seen.get(tool.name, []), [now, not result.is_error]]
        return json.dumps(seen)

    def render(self, section: str | None, *, discovered: Sequence[str] = ()) -> str:
        seen = json.loads(section or "{}")
        used = ", ".join(f"{name} ({len(uses)}x)" for name, uses in seen.items())
        return f"{used}; loaded {', '.join(discovered)}"


class Broken(Feature):
    """Fails at everything it is asked."""

    def deliver(self, section: str | None, tools: Sequence[Tool]) -> tuple[str, str]:
        raise RuntimeError("no rules")

    def observe(self, section: str | None, tool: Tool, result: Result, *, now: float) -> str:
        raise RuntimeError("no memory")

    def render(self, section: str | None, *, discovered: Sequence[str] = ()) -> str:
        raise RuntimeError("no recall")

    def update_tools(self, tools: object) -> Sequence[Any]:
        raise RuntimeError("no wish to know")

    async def keep(self, session: CallerSession, tool: Tool, result: Result) -> Result:
        raise RuntimeError("no shelf")

    async def keep_turn(self, session: CallerSession, results: object) -> Sequence[Result]:
        raise RuntimeError("no budget")

    def tools(self) -> Sequence[Tool]:
        raise RuntimeError("no tools")

    def alias_tools(self) -> Sequence[Tool]:
        raise RuntimeError("no aliases")

    def introduction(self) -> str:
        raise RuntimeError("no words")

    def finish(self, section: str | None) -> str | None:
        raise RuntimeError("no end")

    def mark_compacted(self, section: str | None) -> str | None:
        raise RuntimeError("no shortening")

    async def start(self) -> None:
        raise RuntimeError("no start")

    async def close(self) -> None:
        raise RuntimeError("no close")

    async def forget(self, session_id: str) -> int:
        raise RuntimeError("no forgetting")

    def health(self) -> Any:
        raise RuntimeError("no idea")


async def test_rules_come_with_the_tools_found_and_once_a_conversation(open_box: Any):
    rules = Rules(categories={"mail": "Never write to everybody."})
    session = await (await open_box(rules=rules)).session("s")
    asked = ("tool_search", {"query": "send_email", "limit": 1})
    assert "Never write to everybody." in (await session.call(*asked)).text
    assert "Never write to everybody." not in (await session.call(*asked)).text
    await session.mark_compacted()
    assert "Never write to everybody." in (await session.call(*asked)).text


async def test_memory_sees_every_result_and_is_kept_with_the_session(open_box: Any, file: Path):
    options = {"memory": Memory(), "store": file, "clock": lambda: 12.5}
    session = await (await open_box(**options)).session("s")
    await session.call("get_weather", {"city": "Oslo"})
    await session.call("get_weather", {"city": "Bergen"})
    await session.call("tool_search", {"query": "send_email"})
    again = await (await open_box(**options)).session("s")
    assert json.loads(again.state.sections["memory"]) == {"get_weather": [[12.5, True]] * 2}
    assert again.render_memory() == "get_weather (2x); loaded send_email"


async def test_without_a_memory_there_is_nothing_to_recall(open_box: Any):
    assert (await (await open_box()).session("s")).render_memory() == ""


@pytest.mark.behaviour("B31", "B72", "B73")
async def test_a_large_result_is_stored_and_read_back_with_the_tool_in_view(
    open_box: Any, tmp_path: Path
):
    events: list[Event] = []
    result_store = ResultStore(tmp_path / "shelf", limits=OffloadLimits(threshold_tokens=50))

    def long_story() -> str:
        """Tell a long story."""
        return "\n".join(f"line {n} of the story" for n in range(500))

    box = await open_box(long_story, profile="mcpagent", offload=result_store, sink=events.append)
    session = await box.session("s")
    shown = names(session.view())
    assert shown == ["search_tools", "add_tool", "show_all_tools", "search_large_output"]
    assert session.why("search_large_output").reason == "feature"
    await session.call("add_tool", {"tool_names": ["long_story"]})
    assert names(session.view()) == [*shown, "long_story"]
    kept = await session.call("long_story", {})
    assert "line 499" not in kept.text
    assert [e.facts["tool"] for e in events if e.kind == "offload"] == ["long_story"]
    handle = next(w for w in kept.text.replace('"', " ").split() if "tool_" in w).strip(".,:'`()")
    asked = {"filename": Path(handle).name, "operation": "search", "pattern": "line 499"}
    assert "line 499" in (await session.call("search_large_output", asked)).text
    older = {"filename": Path(handle).name, "start": "1", "end": 10}
    assert "line 0" in (await session.call("read_large_output", older)).text
    elsewhere = await (await box.session("other")).call("search_large_output", asked)
    assert elsewhere.is_error
    await session.forget()
    assert (await session.call("search_large_output", asked)).is_error


async def test_a_result_beyond_all_bounds_stays_out_of_the_context_without_any_setting(
    open_box: Any,
):
    def export(rows: int) -> str:
        """Export rows."""
        return "\n".join(f"row {n} of the export" for n in range(rows))

    box = await open_box(export)
    session = await box.session("s")
    most = await session.call("export", {"rows": 15_000})
    assert most.text.endswith("row 14999 of the export")
    huge = await session.call("export", {"rows": 60_000})
    assert not huge.is_error
    assert "too large to show" in huge.text
    assert "row 0 of" in huge.text
    assert "row 59999 of" in huge.text
    assert len(huge.text) < 5_000
    assert names(session.view()) == ["export"]


async def test_a_feature_says_itself_what_is_wrong_with_its_arguments(
    open_box: Any, tmp_path: Path
):
    session = await (await open_box(offload=ResultStore(tmp_path))).session("s")
    result = await session.call("search_large_output", {"filename": "x", "operation": "dance"})
    assert result.is_error
    assert all(word in result.text for word in ("read", "search", "query"))


async def test_tools_of_features_are_never_filtered(open_box: Any, tmp_path: Path):
    session = await (await open_box(offload=ResultStore(tmp_path), allow=())).session("s")
    assert "search_large_output" in names(session.view())
    result = await session.call("search_large_output", {"filename": "x", "operation": "read"})
    assert result.code != "unknown_tool"


async def test_a_feature_that_raises_in_every_method_is_reported_and_costs_nothing(open_box: Any):
    events: list[Event] = []
    async with Toolbox(OFFICE, store="memory", features=[Broken()], sink=events.append) as box:
        session = await box.session("s")
        session.view()
        session.view()
        assert not (await session.call("tool_search", {"query": "send_email"})).is_error
        weather = await session.call("get_weather", {"city": "Oslo"})
        assert weather.value["sky"] == "clear"
        assert await session.fit(("get_weather", weather)) == (weather,)
        assert session.render_memory() == ""
        await session.finish()
        await session.mark_compacted()
        health = await box.health()
        await session.forget()
        await box.forget("s")
    failed = [e for e in events if isinstance(e, FeatureFailureEvent)]
    assert {e.feature for e in failed} == {"broken"}
    assert [e.why.split("'")[1] for e in failed] == [
        *("no tools", "no start", "no words", "no rules", "no shelf", "no memory", "no budget"),
        *("no recall", "no end", "no shortening", "no forgetting", "no forgetting", "no close"),
    ]
    assert [e.tool for e in failed][3:6] == ["tool_search", "get_weather", "get_weather"]
    assert health.status == "error"
    assert "no idea" in health.parts["broken"].facts["why"]
    problems = " ".join(health.parts["broken"].facts["problems"])
    assert "no tools" in problems
    assert "no wish to know" in problems


async def test_a_wrong_return_value_of_a_feature_never_replaces_a_result(open_box: Any):
    class Forgetful(Feature):
        """Forgets every `return`."""

        async def keep(self, *_: Any) -> Any: ...
        async def keep_turn(self, *_: Any) -> Any: ...
        def observe(self, *_: Any, **__: Any) -> Any:
            return 7

        def deliver(self, *_: Any) -> Any: ...
        def render(self, *_: Any, **__: Any) -> Any: ...

    events: list[Event] = []
    session = await (await open_box(features=[Forgetful()], sink=events.append)).session("s")
    assert not (await session.call("tool_search", {"query": "send_email"})).is_error
    weather = await session.call("get_weather", {"city": "Oslo"})
    assert weather.value["sky"] == "clear"
    assert await session.fit(("get_weather", weather)) == (weather,)
    assert session.render_memory() == ""
    assert [e.kind for e in events].count("feature_failed") == 5


async def test_one_method_is_enough_for_a_feature_and_its_section_is_saved(
    open_box: Any, file: Path
):
    class Counter(Feature):
        """Counts results."""

        def observe(self, section: str | None, tool: Tool, result: Result, *, now: float) -> str:
            return str(int(section or 0) + 1)

    for count in ("1", "2"):
        session = await (await open_box(features=[Counter()], store=file)).session("s")
        await session.call("get_weather", {"city": "Oslo"})
        assert session.state.sections["feature:counter"] == count


@pytest.mark.parametrize("feature", [object(), Feature, "rules"])
def test_an_object_that_is_not_a_feature_is_refused_with_what_to_do(feature: Any):
    with pytest.raises(ConfigError, match=r"Derive its class from toolscout\.Feature"):
        Toolbox(features=[feature])


class Assistant(Feature):
    """Runs another tool for the model, by the name that it is given."""

    def __init__(self) -> None:
        self.seen: list[CallerSession] = []
        self.found: list[tuple[str, ...]] = []

    def tools(self) -> Sequence[Tool]:
        return [Tool(name="run_for_me")]

    async def call(
        self, session: CallerSession, tool: Tool, arguments: Mapping[str, Any]
    ) -> Result:
        self.seen.append(session)
        allowed = session.tools("get_weather", "send_email")
        self.found = [tuple(t.name for t in allowed), session.search("send an email").names]
        return await session.call(arguments["name"], arguments.get("arguments"))


async def test_a_feature_acts_with_the_session_of_its_caller(open_box: Any):
    events: list[Event] = []
    assistant = Assistant()
    box = await open_box(features=[assistant], sink=events.append)
    session = await box.session("s", allow={"get_weather"}, principal="ann")
    asked = {"name": "get_weather", "arguments": {"city": "Oslo"}}
    assert (await session.call("run_for_me", asked)).value["sky"] == "clear"
    [caller] = assistant.seen
    assert (caller.id, caller.principal) == ("s", "ann")
    assert assistant.found == [("get_weather",), ()]
    assert session.search("send an email or tell the weather").names == ("get_weather",)
    assert session.principal == "ann"
    inner, outer = [e for e in events if isinstance(e, ToolCallEvent)]
    assert (inner.tool, outer.tool) == ("get_weather", "run_for_me")
    assert {e.principal for e in events if e.session == "s"} == {"ann"}
    email = {"name": "send_email", "arguments": {"to": "bob", "subject": "x"}}
    assert (await session.call("run_for_me", email)).code == "unknown_tool"


async def test_a_feature_needs_the_approvals_of_its_caller(open_box: Any):
    box = await open_box(features=[Assistant()])
    asked = {"name": "delete_page", "arguments": {"page": 1}}
    refused = await (await box.session("s")).call("run_for_me", asked)
    assert refused.code == "refused"
    yes = await box.session("s", approver=lambda _: True)
    assert (await yes.call("run_for_me", asked)).text == "page 1 is gone"
    step = (await box.session("s")).step()
    record = await step.call("run_for_me", asked)
    assert record.needs is not None
    assert record.needs.tool == "delete_page"
    approved = await (await box.session("s")).approve(record.needs)
    assert approved.result.text == "page 1 is gone"


async def test_a_feature_that_calls_itself_is_stopped(open_box: Any):
    class Mirror(Assistant):
        """Calls itself."""

        async def call(
            self, session: CallerSession, tool: Tool, arguments: Mapping[str, Any]
        ) -> Result:
            self.seen.append(session)
            return await session.call(tool.name)

    mirror = Mirror()
    result = await (await (await open_box(features=[mirror])).session("s")).call("run_for_me")
    assert result.code == "refused"
    assert "features have called one another 5 times in a row" in result.text
    assert len(mirror.seen) == 5


async def test_a_result_is_read_again_at_most_a_few_times_by_a_feature_that_keeps_results(
    open_box: Any,
):
    class Curious(Feature):
        """Calls the tool again for every result of it."""

        async def keep(self, session: CallerSession, tool: Tool, result: Result) -> Result:
            again = await session.call(tool.name, {"city": "Oslo"})
            return result if again.is_error else again

    session = await (await open_box(features=[Curious()])).session("s")
    assert (await session.call("get_weather", {"city": "Oslo"})).value["sky"] == "clear"


@pytest.mark.timeout(30)
async def test_a_sink_notified_of_a_failing_feature_may_look_at_the_conversation(open_box: Any):
    seen: list[str] = []

    def look(event: Event) -> None:
        if event.kind == "feature_failed":
            session.view()
            seen.append(event.facts["feature"])

    box = await open_box(rules=Broken(), memory=Broken(), sink=look)
    session = await box.session("s")
    await session.call("tool_search", {"query": "send_email"})
    await session.call("get_weather", {"city": "Oslo"})
    assert seen.count("rules") == seen.count("memory") > 0


async def test_the_real_memory_knows_the_catalog_and_reports_with_the_toolbox(open_box: Any):
    memory = RealMemory(extractors={"nobody": lambda result: []})
    box = await open_box(memory=memory)
    session = await box.session("s")
    await session.call("get_weather", {"city": "Oslo"})
    part = (await box.health()).parts["memory"]
    assert part.status == "degraded"
    assert "there is no such tool" in part.facts["problems"][0]
    assert part.facts["results"] == 1
    assert "get_weather (1x)" in session.render_memory()


class Oven(Feature):
    """A feature with a tool of its own."""

    def tools(self) -> Sequence[Tool]:
        return [Tool(name="bake")]

    async def call(
        self, session: CallerSession, tool: Tool, arguments: Mapping[str, Any]
    ) -> Result:
        return Result.of("baked")


async def test_health_keys_of_features_do_not_depend_on_the_names_of_our_classes(
    open_box: Any, tmp_path: Path
):
    """`shelf` is what version 0.1 reports for a store of results that is only one of `features`."""
    store = ResultStore(tmp_path / "outputs")
    parts = (await (await open_box(features=[store, Oven(), Oven()])).health()).parts
    assert [*parts][4:] == ["offload", "shelf", "oven", "oven 2"]
    both = (await (await open_box(offload=store, features=[store])).health()).parts
    assert [*both][4:] == ["offload"]
