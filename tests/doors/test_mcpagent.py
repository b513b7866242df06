"""Design B, mcpagent, section by section, through the SDK loop, the agent and the gateway."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.doors.harness import DOORS, STUB, Step, Transcript, converse

LIBRARY = ("sdk", "agent")
TALKER = Path(__file__).parents[1] / "upstreams" / "talker.py"
DISCOVERY = ["search_tools", "add_tool", "show_all_tools"]
OFFLOADING = ["search_large_output", "read_large_output", "query_large_output"]
START = [*DISCOVERY, *OFFLOADING]


def row(name: str, description: str, *parameters: str, **more: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {p: {"type": "string"} for p in parameters},
        "required": [*parameters],
    }
    return {"name": name, "description": description, "parameters": schema, **more}


SERVED = {
    "weather": [
        row("get_weather", "Get current weather for a location", "location", result="Sunny, 21 C"),
        row("weather_forecast", "Get weather forecast for the next 7 days", "location"),
    ],
    "github": [row("create_issue", "Create an issue in a repository", "title")],
    "slack": [
        row("send_message", "Send a message to a Slack channel", "text"),
        row("list_channels", "List the channels of Slack"),
    ],
    "disk": [
        row("list_files", "List files in a folder", "path"),
        row("read_file", "Read a file", "path"),
        row("run_report", "Run a database report query", "sql"),
    ],
}
SERVED_NAMES = [r["name"] for rows in SERVED.values() for r in rows]
WORKSPACE = [
    row(f"{verb}_workspace_file{s}", f"{verb.capitalize()} files of the workspace", "path",
        category="workspace")
    for verb, s in (("read", ""), ("list", "s"), ("write", ""))
]  # fmt: skip
WORKSPACE_NAMES = [r["name"] for r in WORKSPACE]
SPECIAL = [
    row("submit_result", "Hand in the final result", "result", category="structured_output"),
    row("ask_human", "Ask a person for feedback", "question", category="human"),
]
SPECIAL_NAMES = [r["name"] for r in SPECIAL]


async def talk(
    door: str,
    folder: Path,
    *steps: Step,
    served: Mapping[str, Sequence[dict[str, Any]]] = SERVED,
    custom: Sequence[dict[str, Any]] = (),
    options: Mapping[str, Any] | None = None,
    **more: Any,
) -> Transcript:
    """A conversation with tools of servers and, in the library, custom ones.

    The gateway has no custom tools: there each category of them is one more server.
    """
    if door != "gateway":
        rows = [{**r, "server": server} for server, rows in served.items() for r in rows]
        rows += custom
        more = {k: v for k, v in more.items() if k != "mcpServers"}
    else:
        rows = []
        servers = {**served}
        for r in custom:
            servers[r["category"]] = [*servers.get(r["category"], ()), r]
        more = {"gateway": {}, **more}  # large results as a gateway has them by default
        more["mcpServers"] = {
            **{name: stub(folder, name, rows) for name, rows in servers.items()},
            **more.get("mcpServers", {}),
        }
    return await converse(
        door, rows, steps, folder=folder, profile="mcpagent", options=options, **more
    )


def stub(folder: Path, name: str, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    file = folder / f"{name}.json"
    file.write_text(json.dumps([*rows]))
    return {"command": sys.executable, "args": [str(STUB), str(file)], "prefix": False}


def search(query: str) -> list[tuple[str, dict[str, Any]]]:
    return [("search_tools", {"query": query})]


def add(*names: str) -> list[tuple[str, dict[str, Any]]]:
    return [("add_tool", {"tool_names": [*names]})]


SHOW = [("show_all_tools", {})]


def found(answer: str) -> list[str]:
    return [t["name"] for t in json.loads(answer)["tools"]]


def shown(talk: Transcript, step: int) -> set[str]:
    """The catalog names that `show_all_tools` told in a step."""
    return set(json.loads(talk.answers[step][0])["tools"]) - {*DISCOVERY}


@pytest.mark.section("mcpagent", "How It Works")
@pytest.mark.behaviour("B2", "B12", "B22", "B30", "B31", "B72", "B78")
@pytest.mark.parametrize("door", DOORS)
async def test_a_tool_is_searched_then_added_then_called(door: str, tmp_path: Path) -> None:
    seen = await talk(
        door,
        tmp_path,
        search("weather"),
        add("get_weather"),
        [("get_weather", {"location": "Tokyo"})],
    )
    assert [r.names for r in seen.received] == [
        START,
        START,  # a search adds nothing to the context
        [*START, "get_weather"],
        [*START, "get_weather"],
    ]
    assert seen.last.tools["get_weather"]["description"] == "Get current weather for a location"
    assert seen.last.tools["get_weather"]["schema"]["required"] == ["location"]
    assert len({r.instructions for r in seen.received}) == 1
    assert found(seen.answers[0][0]) == ["get_weather", "weather_forecast"]
    assert seen.answers[1:] == [["Added: get_weather."], ["Sunny, 21 C"]]
    assert seen.errors == [[False]] * 3
    if door != "gateway":  # a gateway sends no messages
        roles = [m["role"] for m in seen.last.messages]
        assert roles == ["user", *["assistant", "user"] * 3]


@pytest.mark.section("mcpagent", "Usage")
@pytest.mark.behaviour("B3")
@pytest.mark.parametrize("door", DOORS)
async def test_pre_discovered_tools_are_there_without_a_search(door: str, tmp_path: Path) -> None:
    names = ["get_weather", "send_message", "list_files"]
    options = {"pre_discovered": [*names, "no_such_tool"]}
    steps = [[("send_message", {"text": "Hello"})], add("get_weather"), search("send_message")]
    # One server: tools of several come in the order in which the servers start.
    served = {"everything": [r for rows in SERVED.values() for r in rows]}
    seen = await talk(door, tmp_path, *steps, served=served, options=options)
    assert [r.names for r in seen.received] == [[*START, *names]] * 4
    assert seen.answers[0] == ['send_message {"text": "Hello"}']
    assert seen.answers[1] == ["Already available: get_weather."]
    assert found(seen.answers[2][0]) == ["send_message"]


@pytest.mark.section("mcpagent", "Usage")
@pytest.mark.behaviour("B3", "B48", "B52", "B85")
@pytest.mark.parametrize("door", DOORS)
async def test_workspace_tools_left_out_of_the_list_are_found_and_added(
    door: str, tmp_path: Path
) -> None:
    """In the gateway a human tool is a tool of a server like any other, so it waits."""
    options = {"pre_discovered": ["read_workspace_file", "list_workspace_files"]}
    custom = [*WORKSPACE, *SPECIAL]
    steps = [search("workspace"), add("write_workspace_file")]
    seen = await talk(door, tmp_path, *steps, custom=custom, options=options)
    special = SPECIAL_NAMES if door != "gateway" else []
    start = [*START, *WORKSPACE_NAMES[:2], *special]
    assert [r.names for r in seen.received] == [start, start, [*start, "write_workspace_file"]]
    assert found(seen.answers[0][0]) == WORKSPACE_NAMES


@pytest.mark.section("mcpagent", "The search_tools Function")
@pytest.mark.behaviour("B5", "B6", "B7", "B8", "B10", "B11")
@pytest.mark.parametrize("door", DOORS)
async def test_each_pattern_of_the_document_finds_what_it_says(door: str, tmp_path: Path) -> None:
    patterns = {
        "weather": ["get_weather", "weather_forecast"],
        "database.*query": ["run_report"],
        "(?i)slack": ["send_message", "list_channels"],
        "get_.*": ["get_weather"],
        "file|folder": ["list_files", "read_file"],
    }
    steps = [[("search_tools", {"query": pattern}) for pattern in patterns]]
    seen = await talk(door, tmp_path, *steps)
    assert [found(answer) for answer in seen.answers[0]] == [*patterns.values()]
    assert all("fuzzy_used" not in answer for answer in seen.answers[0])
    reply = json.loads(seen.answers[0][0])
    assert [*reply] == ["found", "tools", "message"]
    assert reply["found"] == 2
    assert reply["tools"] == [
        {"name": r["name"], "description": r["description"], "server": "weather"}
        for r in SERVED["weather"]
    ]
    assert "add_tool" in reply["message"]
    schema = seen.first.tools["search_tools"]["schema"]
    assert (schema["type"], schema["required"], [*schema["properties"]]) == (
        "object", ["query"], ["query"]
    )  # fmt: skip
    assert schema["properties"]["query"]["type"] == "string"
    assert "regex" in schema["properties"]["query"]["description"].lower()
    assert "add_tool" in seen.first.tools["search_tools"]["description"]


@pytest.mark.section("mcpagent", "The search_tools Function")
@pytest.mark.behaviour("B13", "B15", "B16", "B17")
@pytest.mark.parametrize("door", DOORS)
async def test_without_a_match_the_five_most_similar_tools_are_found(
    door: str, tmp_path: Path
) -> None:
    notices = [row(f"post_notice_{n}", "Put it on the board") for n in range(8)]
    served = {**SERVED, "board": notices}
    queries = ("wether", "send msg", "message everybody today", "post notces", "weather")
    steps = [[("search_tools", {"query": query}) for query in queries]]
    seen = await talk(door, tmp_path, *steps, served=served)
    typo, words, one_word, many, exact = map(json.loads, seen.answers[0])
    assert typo["tools"][0]["name"] == "get_weather"
    assert words["tools"][0]["name"] == "send_message"
    assert [t["name"] for t in one_word["tools"]] == ["send_message"]
    assert [t["name"] for t in many["tools"]] == [r["name"] for r in notices[:5]]
    is_fuzzy = [reply.get("fuzzy_used", False) for reply in (typo, words, one_word, many, exact)]
    assert is_fuzzy == [True, True, True, True, False]


@pytest.mark.section("mcpagent", "The add_tool Function")
@pytest.mark.behaviour("B21", "B22", "B23", "B26", "B27", "B30", "B32")
@pytest.mark.parametrize("door", DOORS)
async def test_several_tools_are_added_at_once_and_stay(door: str, tmp_path: Path) -> None:
    steps = [add("nowhere", "read_file", "get_weather", "read_file"), add("create_issue"), SHOW]
    seen = await talk(door, tmp_path, *steps)
    assert [r.names for r in seen.received] == [
        START,
        [*START, "read_file", "get_weather"],
        [*START, "read_file", "get_weather", "create_issue"],
        [*START, "read_file", "get_weather", "create_issue"],
    ]
    assert seen.answers[0][0].splitlines() == [
        "Added: read_file, get_weather.", "Already available: read_file.", "Not found: nowhere."
    ]  # fmt: skip
    schema = seen.first.tools["add_tool"]["schema"]
    assert schema["required"] == ["tool_names"]
    assert schema["properties"]["tool_names"]["type"] == "array"
    assert schema["properties"]["tool_names"]["items"] == {"type": "string"}
    assert "search_tools" in seen.first.tools["add_tool"]["description"]


@pytest.mark.section("mcpagent", "The show_all_tools Function")
@pytest.mark.behaviour("B33", "B34")
@pytest.mark.parametrize("door", DOORS)
async def test_all_names_are_shown_sorted_the_added_ones_too(door: str, tmp_path: Path) -> None:
    seen = await talk(door, tmp_path, add("read_file"), SHOW)
    names = sorted([*DISCOVERY, *SERVED_NAMES])
    assert json.loads(seen.answers[1][0]) == {"total": len(names), "tools": names}
    assert seen.first.tools["show_all_tools"]["schema"]["properties"] == {}
    assert "search_tools" in seen.first.tools["show_all_tools"]["description"]
    assert seen.last.names == [*START, "read_file"]


@pytest.mark.section("mcpagent", "Immediately Available Tools")
@pytest.mark.behaviour("B2", "B36", "B41", "B42", "B44", "B48", "B52")
@pytest.mark.parametrize("door", DOORS)
async def test_tools_for_large_outputs_and_special_tools_are_in_view_at_once(
    door: str, tmp_path: Path
) -> None:
    """A gateway has no custom tools: there special tools are named as pre-discovered."""
    lines = json.dumps({"lines": [f"step {n} of the build passed" for n in range(5_000)]})
    served = {"build": [row("get_log", "Get the log of a build", result=lines)]}
    steps = [[("get_log", {}), ("ask_human", {"question": "Go on?"})]]
    if door == "gateway":
        served["build"] += SPECIAL
        options = {"pre_discovered": SPECIAL_NAMES}
        seen = await talk(door, tmp_path, *steps, served=served, options=options)
    else:
        seen = await talk(door, tmp_path, *steps, served=served, custom=SPECIAL)
    assert [r.names for r in seen.received] == [[*START, *SPECIAL_NAMES]] * 2
    assert seen.answers[0][1] == 'ask_human {"question": "Go on?"}'
    notice = seen.answers[0][0]
    assert "step 0 of" in notice
    assert "step 4999" not in notice
    assert "search_large_output" in notice


@pytest.mark.section("mcpagent", "Immediately Available Tools")
@pytest.mark.behaviour("B36", "B41")
@pytest.mark.parametrize("door", DOORS)
async def test_the_three_large_output_tools_say_what_they_take(door: str, tmp_path: Path) -> None:
    steps = [
        [
            ("search_large_output", {"filename": "tool_x.txt", "operation": "read",
                                     "start": 1, "end": 2}),
            ("read_large_output", {"filename": "tool_x.txt", "start": 1, "end": 2}),
            ("query_large_output", {"filename": "tool_x.json", "query": ".a"}),
        ]
    ]  # fmt: skip
    seen = await talk(door, tmp_path, *steps)
    required = [seen.first.tools[name]["schema"]["required"] for name in OFFLOADING]
    assert required == [["filename", "operation"], ["filename", "start", "end"],
                        ["filename", "query"]]  # fmt: skip
    assert all("tool_x" in answer for answer in seen.answers[0])
    unified = await talk(door, tmp_path, options={"output_tools": "unified"})
    assert unified.first.names == START[:4]


@pytest.mark.section("mcpagent", "Discoverable Tools")
@pytest.mark.behaviour("B49", "B64", "B73", "S23")
@pytest.mark.parametrize("door", DOORS)
async def test_server_custom_and_virtual_tools_are_deferred(door: str, tmp_path: Path) -> None:
    talker = {"command": sys.executable, "args": [str(TALKER)]}
    more: dict[str, Any] = {"mcpServers": {"talker": talker}}
    if door != "gateway":
        file = tmp_path / "mcp.json"
        file.write_text(json.dumps(more))
        more = {"sources": (file,)}
    poem = {"server": "talker", "name": "poem", "arguments": {"topic": "rain"}}
    steps = [
        [*search("get_weather"), *search("workspace"), *search("^get_(prompt|resource)$")],
        add("get_prompt", "get_resource", "get_weather", "read_workspace_file"),
        [
            ("get_prompt", poem),
            ("get_resource", {"server": "talker", "uri": "talk://greeting"}),
        ],
    ]
    # A filter takes neither of the two virtual tools away.
    options = {"selected_servers": ["talker", "weather", "workspace"]}
    seen = await talk(door, tmp_path, *steps, custom=WORKSPACE, options=None, **more)
    virtual = ["get_prompt", "get_resource"]
    assert seen.first.names == START
    assert [found(a) for a in seen.answers[0]] == [["get_weather"], WORKSPACE_NAMES, virtual]
    assert "talker: poem(topic)" in seen.last.tools["get_prompt"]["description"]
    assert seen.last.names == [*START, *virtual, "get_weather", "read_workspace_file"]
    assert "about rain" in seen.answers[2][0]
    assert seen.errors[2] == [False, False]
    if door == "sdk":
        seen = await talk(door, tmp_path, search("^get_p"), options=options, **more)
        assert found(seen.answers[0][0]) == ["get_prompt"]


@pytest.mark.section("mcpagent", "Tool Filtering Integration")
@pytest.mark.behaviour("B35", "B48", "B56", "B58", "B62", "B63")
@pytest.mark.parametrize("door", DOORS)
async def test_only_selected_servers_and_the_selected_workspace_tool_exist(
    door: str, tmp_path: Path
) -> None:
    """The document's example; in the gateway `workspace` is a server."""
    options = {
        "selected_servers": ["github", "slack"],
        "selected_tools": ["workspace:read_workspace_file"],
    }
    steps = [
        SHOW,
        [*search("weather"), *search("workspace")],
        add("write_workspace_file", "get_weather", "create_issue"),
    ]
    custom = [*WORKSPACE, *SPECIAL]
    seen = await talk(door, tmp_path, *steps, custom=custom, options=options)
    # Tools of special categories pass every filter; in a gateway they are tools of a server.
    special = SPECIAL_NAMES if door in LIBRARY else []
    kept = {"create_issue", "send_message", "list_channels", "read_workspace_file", *special}
    assert shown(seen, 0) == kept
    assert [found(a) for a in seen.answers[1]] == [[], ["read_workspace_file"]]
    assert seen.answers[2][0].splitlines() == [
        "Added: create_issue.", "Not found: write_workspace_file, get_weather."
    ]  # fmt: skip
    assert seen.first.names == [*START, *special]
    assert seen.last.names == [*START, *special, "create_issue"]


@pytest.mark.section("mcpagent", "Tool Filtering Integration")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("servers", "tools", "kept"),
    [
        pytest.param((), (), {*SERVED_NAMES, *WORKSPACE_NAMES}, marks=pytest.mark.behaviour("B57")),
        pytest.param(
            (),
            ("slack:send_message",),
            {"send_message"},
            marks=pytest.mark.behaviour("B48", "B59"),
        ),
        pytest.param(
            ("github",),
            ("slack:send_message", "workspace:none"),
            {"create_issue", "send_message"},
            marks=pytest.mark.behaviour("B60"),
        ),
        pytest.param(
            (), ("slack:*",), {"send_message", "list_channels"}, marks=pytest.mark.behaviour("B61")
        ),
    ],
)
async def test_each_row_of_the_filtering_table_holds(
    door: str,
    servers: tuple[str, ...],
    tools: tuple[str, ...],
    kept: set[str],
    tmp_path: Path,
) -> None:
    options = {"selected_servers": servers, "selected_tools": tools}
    seen = await talk(door, tmp_path, SHOW, custom=[*WORKSPACE, *SPECIAL], options=options)
    is_filtered = bool(servers or tools)
    special = {*SPECIAL_NAMES} if door in LIBRARY or not is_filtered else set[str]()
    assert shown(seen, 0) == kept | special


@pytest.mark.section("mcpagent", "Tool Filtering Integration")
@pytest.mark.behaviour("B3", "B56")
@pytest.mark.parametrize("door", DOORS)
async def test_a_pre_discovered_tool_that_is_filtered_out_stays_out(
    door: str, tmp_path: Path
) -> None:
    options = {"pre_discovered": ["get_weather", "send_message"], "selected_servers": ["slack"]}
    seen = await talk(door, tmp_path, [("get_weather", {"location": "Tokyo"})], options=options)
    assert seen.first.names == [*START, "send_message"]
    assert seen.errors == [[True]]
    assert "get_weather" in seen.answers[0][0]


@pytest.mark.section("mcpagent", "Comparison with Other Modes")
@pytest.mark.behaviour("B1", "B80", "B83")
@pytest.mark.parametrize("door", DOORS)
async def test_in_normal_mode_all_tools_are_visible_and_nothing_is_searched(
    door: str, tmp_path: Path
) -> None:
    rows = SERVED["weather"]
    steps = [[("get_weather", {"location": "Tokyo"})]]
    seen = await converse(door, rows, steps, folder=tmp_path, profile="everything")
    assert seen.first.names == ["get_weather", "weather_forecast"]
    assert seen.first.instructions == ""
    assert seen.answers == [["Sunny, 21 C"]]


@pytest.mark.section("mcpagent", "System Prompt")
@pytest.mark.behaviour("B67", "B68", "B69")
@pytest.mark.parametrize("door", DOORS)
async def test_the_instructions_have_the_steps_and_the_categories(
    door: str, tmp_path: Path
) -> None:
    seen = await talk(door, tmp_path)
    text = seen.first.instructions
    steps = ["1. Understand", "2. Call search_tools with a regex", "3. Review", "4. Call add_tool",
             "5. Use the tools"]  # fmt: skip
    places = [text.index(step) for step in steps]
    assert places == sorted(places)
    assert "5 most similar" in text
    listed = text.partition("Tool categories:\n")[2].splitlines()
    assert {*listed} - {"</tool_search>"} == {f"- {server}" for server in SERVED}
    categories = [
        "google-sheets (spreadsheet operations)",
        "github (repository management)",
        "slack (messaging)",
    ]
    seen = await talk(door, tmp_path, options={"categories": categories})
    assert "\n".join(f"- {c}" for c in categories) in seen.first.instructions
    assert "- weather\n" not in seen.first.instructions


@pytest.mark.section("mcpagent", "Implementation Details")
@pytest.mark.behaviour("B53", "K6")
@pytest.mark.parametrize("door", DOORS)
async def test_discovery_controls_what_is_seen_and_not_what_can_run(
    door: str, tmp_path: Path
) -> None:
    seen = await talk(door, tmp_path, [("get_weather", {"location": "Tokyo"})])
    assert seen.answers == [["Sunny, 21 C"]]
    assert seen.errors == [[False]]
    assert seen.last.names == START


@pytest.mark.section("mcpagent", "Implementation Details")
@pytest.mark.behaviour("B29")
@pytest.mark.parametrize("door", DOORS)
async def test_a_name_of_the_workspace_writer_is_understood_by_its_alias(
    door: str, tmp_path: Path
) -> None:
    served = {"disk": [row("update_workspace_file", "Write a file", "path")]}
    for number, alias in enumerate(("write_workspace_file", "create_workspace_file")):
        folder = tmp_path / str(number)
        folder.mkdir()
        seen = await talk(door, folder, add(alias), served=served)
        assert seen.last.names == [*START, "update_workspace_file"]


@pytest.mark.section("mcpagent", "Best Practices")
@pytest.mark.behaviour("B6")
@pytest.mark.parametrize("door", DOORS)
async def test_words_of_a_good_description_find_the_tool(door: str, tmp_path: Path) -> None:
    served = {
        "a": [row("conditions", "Get current weather conditions for a city or location")],
        "b": [row("data", "Returns data about conditions")],
    }
    seen = await talk(door, tmp_path, search("weather.*city"), served=served)
    assert found(seen.answers[0][0]) == ["conditions"]


@pytest.mark.section("mcpagent", "Error Handling")
@pytest.mark.behaviour("B9", "B18", "B19", "B75")
@pytest.mark.parametrize("door", DOORS)
async def test_errors_are_answers_in_the_shape_of_the_document(door: str, tmp_path: Path) -> None:
    calls = [*search("(weather"), *search("zzqqxx"), ("search_tools", {}), ("get_wether", {})]
    seen = await talk(door, tmp_path, [calls[0]], [calls[1]], [calls[2]], [calls[3]])
    invalid = json.loads(seen.answers[0][0])
    assert [*invalid] == ["error"]
    assert invalid["error"].startswith("invalid regex pattern: ")
    nothing = json.loads(seen.answers[1][0])
    assert (nothing["found"], nothing["tools"]) == (0, [])
    assert "No tools found" in nothing["message"]
    assert "query" in seen.answers[2][0]
    assert "get_weather" in seen.answers[3][0]
    assert seen.errors == [[True], [False], [True], [True]]
    assert seen.last.names == START


@pytest.mark.section("mcpagent", "Example")
@pytest.mark.behaviour("B79")
@pytest.mark.parametrize("door", DOORS)
async def test_documentation_tools_are_found_and_used(door: str, tmp_path: Path) -> None:
    served = {
        "context7": [
            row("resolve_library_id", "Resolve a library name to its documentation id", "name",
                result="/facebook/react"),
            row("get_library_docs", "Fetch documentation of a library", "id",
                result="React is a library for user interfaces."),
        ],
        **SERVED,
    }  # fmt: skip
    steps = [
        search("documentation|docs"),
        add("resolve_library_id", "get_library_docs"),
        [("resolve_library_id", {"name": "react"})],
        [("get_library_docs", {"id": "/facebook/react"})],
    ]
    seen = await talk(door, tmp_path, *steps, served=served)
    names = ["resolve_library_id", "get_library_docs"]
    assert found(seen.answers[0][0]) == names
    assert seen.received[2].names == [*START, *names]
    assert seen.answers[2:] == [["/facebook/react"], ["React is a library for user interfaces."]]
