"""The shelf in its place: behind every call, with its tool in view."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from toolscout import Agent, Engine, Toolbox, tool
from toolscout.catalog.tool import Extraction
from toolscout.memory.memory import Memory
from toolscout.models.scripted import ScriptedCall, ScriptedModel, Turn
from toolscout.offload.limits import OffloadLimits
from toolscout.offload.result_store import ResultStore
from toolscout.tokens import default_counter


@tool(category="reports")
def export_rows(count: int) -> dict[str, Any]:
    """Export rows of the ledger."""
    return {"rows": [{"id": n, "city": f"Zürich {n}"} for n in range(count)]}


@pytest.mark.behaviour("B36", "B41", "B42", "B44", "B45")
async def test_a_large_result_is_previewed_and_read_back_by_any_of_the_three_names(tmp_path: Path):
    result_store = ResultStore(tmp_path / "outputs")
    store = tmp_path / "s.db"
    async with Toolbox([export_rows], offload=result_store, engine=Engine(), store=store) as box:
        session = await box.session("ann")
        names = [t["name"] for t in session.view("anthropic").tools]
        assert "search_large_output" in names
        assert not {"read_large_output", "query_large_output"} & set(names)
        small = await session.call("export_rows", {"count": 2})
        assert small.value["rows"][1]["city"] == "Zürich 1"
        large = await session.call("export_rows", {"count": 3_000})
        assert ".rows array (3,000 elements)" in large.text
        name = re.findall(r"tool_\S+?\.json", large.text)[0]
        calls: list[tuple[str, dict[str, Any], str]] = [
            (
                "search_large_output",
                {"operation": "search", "pattern": "zürich 2999"},
                "Zürich 2999",
            ),
            ("query_large_output", {"query": ".rows[7].city", "raw": True}, "Zürich 7"),
            ("read_large_output", {"start": 1, "end": 8}, '{"rows":'),
        ]
        for called, arguments, expected in calls:
            reply = await session.call(called, {"filename": name, **arguments})
            assert expected in reply.text
            assert not reply.is_error
        other = await box.session("bob")
        stolen = await other.call("read_large_output", {"filename": name, "start": 1, "end": 8})
        assert stolen.is_error
        assert "Zürich" not in stolen.text
        await session.forget()
        gone = await session.call("read_large_output", {"filename": name, "start": 1, "end": 8})
        assert gone.is_error


@pytest.mark.behaviour("B36", "B46")
async def test_while_keeping_is_off_the_tool_is_absent_and_the_cap_still_holds(tmp_path: Path):
    async with Toolbox(
        [export_rows], offload=ResultStore(None), engine=Engine(), store=tmp_path / "s.db"
    ) as box:
        session = await box.session("ann")
        assert "large_output" not in str(session.view("anthropic").tools)
        reply = await session.call("export_rows", {"count": 20_000})
        assert "too large" in reply.text
        assert len(reply.text) < 5_000
        assert not reply.is_error


@pytest.mark.behaviour("S16")
async def test_many_results_in_one_step_do_not_swamp_the_model(tmp_path: Path):
    result_store = ResultStore(tmp_path / "outputs", limits=OffloadLimits(turn_tokens=30_000))
    calls = tuple(ScriptedCall("export_rows", {"count": 480 + n}) for n in range(6))
    model = ScriptedModel([Turn(calls=calls), "All read."])
    options: dict[str, Any] = {"engine": Engine(), "store": tmp_path / "s.db"}
    async with Toolbox([export_rows], offload=result_store, **options) as box:
        run = await Agent(box, model=model).run("Export the ledger six times.")
    results = [o.result for o in run.steps[0].outcomes]
    aside = ["was saved as" in result.text for result in results]
    assert 0 < sum(aside) < 6
    assert sum(default_counter().count(result.text) for result in results) <= 30_000
    assert run.text == "All read."


def _deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


async def test_rings_and_bottomless_values_end_no_conversation(tmp_path: Path):
    """With a memory that looks into every result and a shelf that measures every large one."""

    @tool(extraction=Extraction("pages", "page", "title", is_array=True))
    def ring() -> dict[str, Any]:
        """Give a value that holds itself."""
        value: dict[str, Any] = {"pages": []}
        value["pages"].append(value)
        return value

    @tool
    def bottomless() -> list[Any]:
        """Give lists in lists in lists."""
        return _deep()

    @tool
    def bottomless_text() -> str:
        """Give the same as text that looks like JSON."""
        return "[" * 200_000 + "]" * 200_000

    @tool(extraction=Extraction("$root", "page", "title"))
    def not_json() -> str:
        """Give plain words where an object was promised."""
        return "just words"

    tools = [ring, bottomless, bottomless_text, not_json]
    features: dict[str, Any] = {"memory": Memory(), "offload": ResultStore(tmp_path / "outputs")}
    async with Toolbox(
        tools, profile="everything", engine=Engine(), store="memory", **features
    ) as b:
        session = await b.session("ann")
        replies = {t.__name__: await session.call(t.__name__) for t in tools}
        assert "..." in replies["ring"].text
        # The tool has run, so a model must not take it for a failure and run it again.
        assert not replies["bottomless"].is_error
        assert "cannot be written as text" in replies["bottomless"].text
        assert "was saved as" in replies["bottomless_text"].text
        assert replies["not_json"].text == "just words"
        assert set(session.state.uses) == set(replies)
        memory = (await b.health()).parts["memory"]
        assert memory.status == "degraded"
        assert {"ring", "not_json"} <= memory.facts["failing"].keys()
