"""Design C, Cortex, section by section, through every door."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.doors.harness import DOORS, Received, Row, Transcript, converse

from toolscout import Tool, Toolbox

SEND = {
    "type": "object",
    "properties": {"channel": {"type": "string"}, "text": {"type": "string"}},
    "required": ["channel", "text"],
}


def row(name: str, description: str, **more: Any) -> Row:
    """A tool of an MCP server."""
    return {"name": name, "description": description, "server": "stub", **more}


ROWS = [
    row("mcp__slack__send", "Send a message to a channel.", parameters=SEND, result="sent"),
    row("mcp__obsidian__search", "Search the notes."),
    row("mcp__obsidian__read_note", "Read one note."),
]
WAITING = ["mcp__obsidian__read_note", "mcp__obsidian__search", "mcp__slack__send"]
LOAD_SEND = ("ToolSearch", {"query": "select:mcp__slack__send"})
CALL_SEND = ("mcp__slack__send", {"channel": "#home", "text": "hello"})
HEADING = (
    "# Available Tools\n"
    "The schemas of these tools are not loaded. Load them with ToolSearch first.\n"
    "Calling one directly, before it is loaded, fails.\n"
)


async def talk(door: str, folder: Path, *steps: Any, rows: Any = ROWS, **more: Any) -> Transcript:
    return await converse(door, rows, steps, folder=folder, profile="cortex", **more)


def slot(door: str, received: Received) -> str:
    """The section "Available Tools" where this door has it, and nowhere else."""
    description = received.tools["ToolSearch"]["description"] if received.tools else ""
    if door == "sdk":
        assert HEADING not in description
        return received.instructions
    if door == "agent":
        assert received.instructions == ""
        texts = [text for message in received.messages for text in _texts(message["content"])]
        slots = [text for text in texts if "# Available Tools" in text]
        assert texts[: len(slots) + 1] == [*slots, "Please help."]  # before the conversation
        return "".join(slots)
    # A client reads the instructions once. The list of tools it reads again after a change.
    _, mark, names = description.partition("# Available Tools")
    return mark + names


def _texts(content: Any) -> list[str]:
    return [content] if isinstance(content, str) else [c.get("text", "") for c in content]


def slot_of(*names: str) -> str:
    return HEADING + "\n".join(f"- {name}" for name in names)


@pytest.mark.section("cortex", "ToolSearch: load full tool schemas on demand")
@pytest.mark.behaviour("C33", "C34", "C35", "C41", "C42")
@pytest.mark.parametrize("door", DOORS)
async def test_names_are_listed_schemas_are_loaded_and_loaded_tools_stay(
    door: str, tmp_path: Path
) -> None:
    note = ("ToolSearch", {"query": "mcp__obsidian__read_note"})
    got = await talk(door, tmp_path, [LOAD_SEND], [CALL_SEND], [note], [CALL_SEND])
    assert [r.names for r in got.received] == [
        ["ToolSearch"],
        ["ToolSearch", "mcp__slack__send"],
        ["ToolSearch", "mcp__slack__send"],
        ["ToolSearch", "mcp__slack__send", "mcp__obsidian__read_note"],
        ["ToolSearch", "mcp__slack__send", "mcp__obsidian__read_note"],
    ]
    assert got.received[1].tools["mcp__slack__send"] == {
        "description": "Send a message to a channel.",
        "schema": SEND,
    }
    left = [name for name in WAITING if name != "mcp__slack__send"]
    assert [slot(door, r) for r in got.received] == [
        slot_of(*WAITING),
        slot_of(*left),
        slot_of(*left),
        slot_of("mcp__obsidian__search"),
        slot_of("mcp__obsidian__search"),
    ]
    if door == "gateway":
        assert got.first.instructions == slot_of(*WAITING)
    assert [got.answers[1], got.answers[3]] == [["sent"], ["sent"]]
    assert got.errors == [[False]] * 4


@pytest.mark.section("cortex", "ToolSearch: load full tool schemas on demand")
@pytest.mark.behaviour("C34")
@pytest.mark.parametrize("door", DOORS)
async def test_once_all_tools_are_loaded_the_list_is_gone_and_the_search_stays(
    door: str, tmp_path: Path
) -> None:
    got = await talk(door, tmp_path, [("ToolSearch", {"query": f"select:{','.join(WAITING)}"})])
    assert got.last.names == ["ToolSearch", *WAITING]
    assert slot(door, got.last) == ""


@pytest.mark.section("cortex", "ToolSearch: load full tool schemas on demand")
@pytest.mark.behaviour("C2")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "options", [{"enabled": False}, {"always_load": WAITING}, {"defer_mcp": False}]
)
async def test_where_nothing_is_deferred_there_is_no_search_and_no_list(
    door: str, options: dict[str, Any], tmp_path: Path
) -> None:
    got = await talk(door, tmp_path, [CALL_SEND], options=options)
    assert got.first.names == [r["name"] for r in ROWS]
    assert got.first.instructions == ""
    assert "Available Tools" not in str(got.first.messages)
    assert got.answers == [["sent"]]


@pytest.mark.behaviour("C2", "C38")
@pytest.mark.parametrize("door", ["sdk", "agent"])
async def test_without_servers_and_marks_nothing_is_deferred(door: str, tmp_path: Path) -> None:
    own = [{k: v for k, v in r.items() if k != "server"} for r in ROWS]
    got = await talk(door, tmp_path, rows=own)
    assert got.first.names == [r["name"] for r in ROWS]


@pytest.mark.section("cortex", "Constants")
@pytest.mark.behaviour("C1", "C4", "C24", "C29")
@pytest.mark.parametrize("door", DOORS)
async def test_the_tool_is_tool_search_and_loads_five_by_default(door: str, tmp_path: Path) -> None:
    rows = [row(f"note_{i}", "Write a note.") for i in range(7)]
    steps = [
        [("ToolSearch", {"query": "write note"})],
        [("ToolSearch", {"query": "note_", "max_results": 1})],
    ]
    got = await talk(door, tmp_path, *steps, rows=rows)
    assert got.first.names == ["ToolSearch"]
    assert got.received[1].names == ["ToolSearch", *(f"note_{i}" for i in range(5))]
    assert got.received[2].names == ["ToolSearch", *(f"note_{i}" for i in range(6))]


@pytest.mark.section("cortex", "Schema")
@pytest.mark.behaviour("C3", "C4")
@pytest.mark.parametrize("door", DOORS)
async def test_the_parameters_are_a_query_in_five_forms_and_a_limit(
    door: str, tmp_path: Path
) -> None:
    schema = (await talk(door, tmp_path)).first.tools["ToolSearch"]["schema"]
    assert schema["required"] == ["query"]
    assert {*schema["properties"]} == {"query", "max_results"}
    query, limit = schema["properties"]["query"], schema["properties"]["max_results"]
    assert query["type"] == "string"
    forms = [line.split('"')[1] for line in query["description"].splitlines()[1:]]
    assert forms == [
        *("select:NameA,NameB", "exact_tool_name", "prefix", "keyword other", "+word"),
    ]
    assert "mcp__obsidian" in query["description"]
    assert "+slack send" in query["description"]
    assert (limit["type"], limit["default"]) == ("number", 5)
    assert "ignored for select:" in limit["description"]


FORMS = [
    # Ignores the limit; spaces around names are allowed.
    ("select:mcp__slack__send, mcp__slack__list", 1, ["mcp__slack__send", "mcp__slack__list"]),
    # Alone, though it also begins the name of another tool.
    ("mcp__obsidian__search", 5, ["mcp__obsidian__search"]),
    # Sorted, and cut at the limit.
    ("mcp__github", 2, ["mcp__github__close", "mcp__github__list"]),
    # By name and description, best first.
    ("read MAIL", 1, ["mcp__mail__read"]),
    # Only where the required word occurs.
    ("+calendar event", 5, ["mcp__calendar__add"]),
]


@pytest.mark.section("cortex", "Schema")
@pytest.mark.behaviour("C21", "C23", "C24", "C25", "C26")
@pytest.mark.parametrize("door", DOORS)
async def test_each_form_of_query_loads_what_it_says(door: str, tmp_path: Path) -> None:
    rows = [
        *(row(f"mcp__github__{verb}", "An issue.") for verb in ("open", "list", "close")),
        *(row(f"mcp__slack__{verb}", "A message.") for verb in ("list", "send")),
        *(row(f"mcp__obsidian__{verb}", "A note.") for verb in ("search_all", "search")),
        *(row(f"mcp__mail__{verb}", "A letter.") for verb in ("send", "read")),
        row("mcp__meetup__add", "Add an event."),
        row("mcp__calendar__add", "Add an event."),
    ]
    steps = [[("ToolSearch", {"query": q, "max_results": most})] for q, most, _ in FORMS]
    got = await talk(door, tmp_path, *steps, rows=rows)
    loaded = [now.names[len(before.names) :] for before, now in pairwise(got.received)]
    assert loaded == [names for _, _, names in FORMS]


@pytest.mark.section("cortex", "Details")
@pytest.mark.behaviour("C10", "C12", "C13", "C14", "C15", "C40")
@pytest.mark.parametrize("door", DOORS)
async def test_a_search_tells_new_loaded_and_unknown_names_and_how_many_are_left(
    door: str, tmp_path: Path
) -> None:
    steps = [
        [LOAD_SEND],
        [("ToolSearch", {"query": "select:nope,mcp__slack__send,mcp__obsidian__search"})],
        [("ToolSearch", {"query": "zebra"})],
    ]
    got = await talk(door, tmp_path, *steps)
    loaded, already, missing = got.answers[1][0].split("\n\n")
    assert loaded.splitlines()[1:] == ["- mcp__obsidian__search"]
    assert already.splitlines()[1:] == ["- mcp__slack__send"]
    assert missing.splitlines()[1:] == ["- nope"]
    assert "1 more tools" in got.answers[2][0]
    assert "zebra" not in got.answers[2][0].split("\n\n")[1]


@pytest.mark.section("cortex", "Details")
@pytest.mark.behaviour("C13", "C40")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("query", ["mcp__slack__send", "select:mcp__slack__send"])
async def test_a_name_that_never_was_deferred_is_already_available(
    door: str, query: str, tmp_path: Path
) -> None:
    options = {"always_load": ["mcp__slack__send"]}
    got = await talk(door, tmp_path, [("ToolSearch", {"query": query})], options=options)
    assert got.first.names == ["ToolSearch", "mcp__slack__send"]
    assert got.answers == [["Already loaded, no action needed:\n- mcp__slack__send"]]


@pytest.mark.section("cortex", "Details")
@pytest.mark.behaviour("C13", "C40")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("query", ["ToolSearch", "select:ToolSearch"])
async def test_the_search_itself_is_already_available(
    door: str, query: str, tmp_path: Path
) -> None:
    got = await talk(door, tmp_path, [("ToolSearch", {"query": query})])
    assert got.answers == [["Already loaded, no action needed:\n- ToolSearch"]]


@pytest.mark.section("cortex", "Tool factory")
@pytest.mark.behaviour("C42")
async def test_a_call_that_was_too_early_does_not_count_as_a_repeat(tmp_path: Path) -> None:
    got = await talk("agent", tmp_path, [LOAD_SEND, CALL_SEND], [CALL_SEND])
    assert got.answers[1] == ["sent"]
    assert "same arguments" not in str(got.last.messages)
    # Twice with a result is one.
    got = await talk("agent", tmp_path, [LOAD_SEND], [CALL_SEND], [CALL_SEND])
    assert "with the same arguments twice in a row" in str(got.last.messages)


@pytest.mark.section("cortex", "Tool factory")
@pytest.mark.behaviour("C42")
async def test_calls_one_by_one_are_turns_of_their_own(tmp_path: Path) -> None:
    tools = [Tool(name="mcp__slack__send", server="slack"), Tool(name="b", server="slack")]
    async with Toolbox(tools, profile="cortex", store="memory") as box:
        session = await box.session("talk")
        session.view()
        await session.call(*LOAD_SEND)
        result = await session.call("mcp__slack__send", {})
        assert "loaded in this turn" not in result.text
        assert "not loaded" in (await session.call("b", {})).text


@pytest.mark.section("cortex", "Tool factory")
@pytest.mark.behaviour("C5", "C6")
@pytest.mark.parametrize("door", DOORS)
async def test_the_description_says_where_names_are_and_when_tools_can_be_called(
    door: str, tmp_path: Path
) -> None:
    options = {"should_defer": ["ToolSearch"]}
    got = await talk(door, tmp_path, options=options)
    assert got.first.names == ["ToolSearch"]
    description = got.first.tools["ToolSearch"]["description"]
    for words in (
        "Some tools are not loaded",
        '"Available Tools" section, their parameters are not',
        "Call this first",
        "callable on the next turn",
        'prefer "select:Name1,Name2"',
    ):
        assert words in description


@pytest.mark.section("cortex", "Tool factory")
@pytest.mark.behaviour("C7", "C42")
@pytest.mark.parametrize("door", DOORS)
async def test_a_tool_is_callable_from_the_turn_after_the_search(door: str, tmp_path: Path) -> None:
    got = await talk(door, tmp_path, [LOAD_SEND, CALL_SEND], [CALL_SEND])
    loaded, called = got.answers[0]
    assert loaded == "Loaded; callable on the next turn:\n- mcp__slack__send"
    if door == "gateway":  # a client sends calls one by one, so each of them is a turn
        assert called == "sent"
    else:
        assert got.errors[0] == [False, True]
        assert "loaded in this turn, so it did not run" in called
        assert "callable on the next turn" in called
    assert got.answers[1] == ["sent"]


@pytest.mark.section("cortex", "Tool factory")
@pytest.mark.behaviour("C7", "C42")
@pytest.mark.parametrize("door", ["sdk", "agent"])
async def test_the_search_runs_first_and_tools_loaded_before_can_be_called_beside_it(
    door: str, tmp_path: Path
) -> None:
    note = ("mcp__obsidian__search", {})
    got = await talk(
        door,
        tmp_path,
        [LOAD_SEND],
        [note, CALL_SEND, ("ToolSearch", {"query": "mcp__obsidian__search"}), LOAD_SEND],
    )
    early, sent, loaded, already = got.answers[1]
    assert "loaded in this turn" in early
    assert sent == "sent"
    assert "- mcp__obsidian__search" in loaded
    assert already == "Already loaded, no action needed:\n- mcp__slack__send"
    assert got.errors[1] == [True, False, False, False]


@pytest.mark.section("cortex", "Tool factory")
@pytest.mark.behaviour("C42", "K6")
@pytest.mark.parametrize("door", DOORS)
async def test_a_call_before_loading_fails_and_shows_the_way(door: str, tmp_path: Path) -> None:
    got = await talk(door, tmp_path, [CALL_SEND])
    assert got.errors == [[True]]
    assert "mcp__slack__send is not loaded, so it did not run" in got.answers[0][0]
    assert "ToolSearch" in got.answers[0][0]
    assert got.last.names == ["ToolSearch"]


@pytest.mark.section("cortex", "Tool factory")
@pytest.mark.behaviour("C42")
async def test_a_client_without_a_session_can_call_what_it_found(tmp_path: Path) -> None:
    # Nothing stays loaded for it, so the list stays as it is and no call waits for a turn.
    got = await talk("gateway", tmp_path, [LOAD_SEND], [CALL_SEND], mode="auto")
    assert got.last.names == ["ToolSearch"]
    assert slot("gateway", got.last) == slot_of(*WAITING)
    assert got.answers[1] == ["sent"]


@pytest.mark.section("cortex", "Tool factory")
@pytest.mark.behaviour("C39")
@pytest.mark.parametrize("door", ["sdk", "agent"])
async def test_a_tool_file_can_mark_tools_as_always_loaded_or_deferred(
    door: str, tmp_path: Path
) -> None:
    rows = [
        row("kept", "Kept.", alwaysLoad=True),
        row("both", "Both.", alwaysLoad=True, shouldDefer=True),
        row("plain", "From a server.", alwaysLoad=False),
        {"name": "own", "description": "From here."},
        {"name": "own_deferred", "description": "From here.", "shouldDefer": True},
    ]
    got = await talk(door, tmp_path, rows=rows)
    assert got.first.names == ["ToolSearch", "kept", "both", "own"]
    assert slot(door, got.first) == slot_of("own_deferred", "plain")


@pytest.mark.section("cortex", "Tool factory")
@pytest.mark.behaviour("C38", "C39")
@pytest.mark.parametrize("door", DOORS)
async def test_the_options_choose_what_is_deferred(door: str, tmp_path: Path) -> None:
    options = {
        "defer_mcp": False,
        "should_defer": ["mcp__slack__send", "mcp__obsidian__search"],
        "always_load": ["mcp__obsidian__search"],
    }
    got = await talk(door, tmp_path, options=options)
    assert got.first.names == ["ToolSearch", "mcp__obsidian__search", "mcp__obsidian__read_note"]
    assert slot(door, got.first) == slot_of("mcp__slack__send")


@pytest.mark.section("cortex", "Result formatting")
@pytest.mark.behaviour("C16", "C17", "C18", "C19", "C20")
@pytest.mark.parametrize("door", DOORS)
async def test_replies_are_blocks_of_names_or_say_that_nothing_matched(
    door: str, tmp_path: Path
) -> None:
    queries = [
        "mcp__obsidian",
        "select:nope,mcp__obsidian__search,mcp__slack__send",
        "select:nope",
        "zebra",
        "select:mcp__slack__send",
    ]
    searches = [("ToolSearch", {"query": query}) for query in queries]
    got = await talk(door, tmp_path, *([search] for search in searches))
    assert [text for (text,) in got.answers] == [
        "Loaded; callable on the next turn:\n- mcp__obsidian__read_note\n- mcp__obsidian__search",
        (
            "Loaded; callable on the next turn:\n- mcp__slack__send\n\n"
            "Already loaded, no action needed:\n- mcp__obsidian__search\n\n"
            "Not in the deferred tool list:\n- nope"
        ),
        "Not in the deferred tool list:\n- nope",
        'No tools matched the query: "zebra"',
        "Already loaded, no action needed:\n- mcp__slack__send",
    ]


@pytest.mark.section("cortex", "Result formatting")
@pytest.mark.behaviour("C19", "C22")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("query", ["zebra", "  "])
async def test_no_match_counts_what_is_left_and_points_to_the_list(
    door: str, query: str, tmp_path: Path
) -> None:
    got = await talk(door, tmp_path, [("ToolSearch", {"query": query})])
    assert got.answers == [
        [
            (
                f'No tools matched the query: "{query}"\n\n'
                '3 more tools can be loaded; their names are in the "Available Tools" section.'
            )
        ]
    ]
    assert got.errors == [[False]]
