"""What profiles have in common and where they differ, side by side over one catalog."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from toolscout import Catalog, Engine, SessionState, Tool, Toolbox
from toolscout.catalog.schema import Schema
from toolscout.disclosure.profiles import BUILT_IN, CORTEX, EVERYTHING, SOLARIS, get_profile
from toolscout.disclosure.scope import Policy, ToolSelector
from toolscout.disclosure.view import view
from toolscout.evals.costs import CostEstimator
from toolscout.memory.memory import Memory
from toolscout.sources.files import read_tools
from toolscout.tokens import default_counter

TEXT = {"type": "string", "description": "What is to be written, in full sentences."}
WORDS = Schema.of({"type": "object", "properties": {f"part_{n}": TEXT for n in range(6)}})
DESIGNS = ("solaris", "mcpagent", "cortex", "everruns", "cms")


def office(count: int = 50, **fields: object) -> list[Tool]:
    """Tools of several servers, told apart by a number."""
    return [
        Tool(
            name=f"desk_{n % 5}__{'send' if n % 2 else 'read'}_letter_{n}",
            server=f"desk_{n % 5}",
            description=f"{'Send' if n % 2 else 'Read'} letter {n}, with all that belongs to it.",
            parameters=WORDS,
            **fields,
        )
        for n in range(count)
    ]


@pytest.mark.behaviour("A28", "B87")
def test_the_cost_of_every_design_is_counted_at_the_start_and_after_lookups():
    engine = Engine(Catalog(office(60, defer="always")))
    scale = CostEstimator(engine=engine, counter=default_counter())
    everything = scale.full_catalog_tokens()
    for name in DESIGNS:
        cost = scale.cost(get_profile(name))
        assert cost.start <= cost.after_1 <= cost.after_5
        if name != "solaris":  # it sends every definition, whatever the prompt leaves out
            assert cost.start < everything
    hidden = view(SOLARIS, engine.catalog, SessionState("s")).instructions
    told = sum(default_counter().count(tool.description) for tool in engine.catalog)
    assert default_counter().count(hidden) < told


@pytest.mark.behaviour("B83", "K3", "K16")
async def test_each_mode_has_its_own_way_of_finding_tools_and_reports_it():
    ways: dict[str, tuple[str, ...]] = {}
    prompts: dict[str, str] = {}
    tools = office(40)
    for each in BUILT_IN:
        async with Toolbox(tools, profile=each, engine=Engine(), store="memory") as box:
            shown = (await box.session("s")).view()
            known = {t.name for t in tools}
            ways[each.name] = tuple(t["name"] for t in shown.tools if t["name"] not in known)
            prompts[each.name] = shown.instructions
    dispatch = ("tool_search", "describe_tools", "call_tool")
    assert ways == {
        "default": dispatch,
        "compact": dispatch,
        "code": ("tool_search", "describe_tools", "run_code"),
        "solaris": ("searchTools",),
        "mcpagent": (
            *("search_tools", "add_tool", "show_all_tools"),
            *("search_large_output", "read_large_output", "query_large_output"),
        ),
        "cortex": ("ToolSearch",),
        "everruns": ("tool_search",),
        "cms": ("tool_search",),
        "everything": (),
    }
    told = {name: prompts[name] for name in ("default", "mcpagent", "everruns", "cms")}
    assert len(set(told.values())) == len(told)
    assert all(ways[name][0] in text for name, text in told.items())
    assert prompts["everything"] == ""


@pytest.mark.behaviour("K4")
@pytest.mark.parametrize(
    ("name", "finds"),
    [
        ("solaris", "letter 7,"),  # a literal part
        ("mcpagent", "letter_7$"),  # a pattern
        ("cortex", "+letter_7 send"),  # a word that is required
        ("everruns", "`letter_7,` nothing else"),  # how many words occur
        ("cms", "Send letter 7"),  # words and meaning
        ("default", "select:desk_2__send_letter_7"),  # the query language
    ],
)
async def test_every_design_reads_a_query_its_own_way(name: str, finds: str):
    async with Toolbox(
        office(20, defer="always"), profile=name, engine=Engine(), store="memory"
    ) as box:
        session = await box.session("s")
        search = get_profile(name).tool_for("search")
        assert search is not None
        reply = await session.call(search.name, {"query": finds})
        assert not reply.is_error
        assert "desk_2__send_letter_7" in reply.text


@pytest.mark.behaviour("D15")
async def test_tools_that_run_at_the_client_are_hidden_and_found_like_all_others(tmp_path: Path):
    rows = [{**tool.row(), "policy": "client_side" if n % 2 else "auto"} for n, tool in
            enumerate(office(16))]  # fmt: skip
    file = tmp_path / "tools.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    tools = read_tools(file).tools
    assert [t.meta.get("policy") for t in tools[:2]] == [None, "client_side"]
    async with Toolbox(tools, profile="everruns", engine=Engine(), store="memory") as box:
        session = await box.session("s")
        hidden = [t for t in session.view().tools if "properties" not in t["parameters"]]
        assert [t["name"] for t in hidden] == [t.name for t in tools]
        reply = await session.call("tool_search", {"query": "desk_1__send_letter_1"})
        assert reply.value["tools"][0]["parameters"] == WORDS.value


@pytest.mark.behaviour("B3")
async def test_a_pinned_name_that_no_tool_has_is_said_to_be_unknown():
    policy = Policy(rule="all", pinned=ToolSelector(names=("gone",)))
    own = replace(CORTEX, name="own", policy=policy)
    async with Toolbox(office(20), profile=own, engine=Engine(), store="memory") as box:
        session = await box.session("s")
        assert [t["name"] for t in session.view().tools] == ["ToolSearch"]
        assert session.why("gone").reason == "unknown"
        assert "gone" in session.why("gone").sentence


@pytest.mark.behaviour("K19")
def test_below_the_users_cut_a_search_is_not_answered_and_nothing_is_withheld():
    tools = [
        Tool(name="send_email", description="Send an email message to someone."),
        Tool(name="get_weather", description="Tell the weather forecast for a city."),
    ]
    plain, wary = Engine(Catalog(tools)), Engine(Catalog(tools), min_confidence=1.0)
    for query, is_answered in (("send_email", True), ("weather of rome or email", False)):
        found = wary.search(query)
        assert found.is_answered is is_answered
        assert found.names == plain.search(query).names != ()
        assert plain.search(query).is_answered


@pytest.mark.behaviour("K21")
async def test_use_is_counted_per_call_and_shows_the_turn():
    def ring(times: int) -> str:
        """Ring the bell."""
        return "ding" * times

    async with Toolbox([ring], profile=EVERYTHING, engine=Engine(), memory=Memory(),
                       store="memory") as box:  # fmt: skip
        session = await box.session("s")
        for _ in range(3):
            await session.call("ring", {"times": 1})
        await session.finish()
        assert "ring (3x)" in session.render_memory()
        assert session.state.uses == ("ring",)
