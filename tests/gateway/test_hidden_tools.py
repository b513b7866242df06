"""Hidden characters never reach a client, wherever in a definition they stand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.conftest import Serve, small

HIDDEN = "\u200b\u202e\U000e0041\x7f"
SNEAKY: dict[str, Any] = {
    "name": "echo",
    "description": f"Say{HIDDEN} it back.",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string", "description": f"What{HIDDEN} to say"}},
        "$comment": f"{HIDDEN}kept",
    },
    "outputSchema": {"type": "object", "title": f"Said{HIDDEN}"},
    "annotations": {"title": f"Echo{HIDDEN}", "readOnlyHint": True},
    "_meta": {"example/note": f"as{HIDDEN} it is"},
}


@pytest.mark.parametrize(
    ("options", "pinned"),
    [({"profile": "everything"}, []), ({"surface": "load"}, []), ({}, ["echo"])],
    ids=["everything", "load", "pinned"],
)
async def test_no_hidden_character_of_a_definition_reaches_a_client(
    serve: Serve, tmp_path: Path, options: dict[str, Any], pinned: list[str]
) -> None:
    (tmp_path / "tool.json").write_text(json.dumps(SNEAKY))
    server = {**small("told", str(tmp_path)), "pinned": pinned}
    # Output schemas are listed where large results are not stored.
    options = {**options, "large_outputs": False}
    async with serve({"one": server}, gateway=options) as running, running.client() as client:
        tools = {t.name: t for t in (await client.list_tools()).tools}
    shown = tools["one__echo"].model_dump(mode="json", by_alias=True, exclude_none=True)
    text = json.dumps(shown, ensure_ascii=False)
    assert [f"{ord(c):x}" for c in HIDDEN if c in text] == []
    assert shown["inputSchema"]["properties"]["text"]["description"] == "What to say"
    assert shown["inputSchema"]["$comment"] == "kept"
    assert shown["outputSchema"]["title"] == "Said"
    assert shown["annotations"] == {"title": "Echo", "readOnlyHint": True}
    assert shown["_meta"]["example/note"] == "as it is"


async def test_metadata_that_is_not_json_costs_a_tool_only_its_metadata(
    serve: Serve, tmp_path: Path
) -> None:
    odd = {**SNEAKY, "_meta": {"odd": float("nan")}}
    (tmp_path / "tool.json").write_text(json.dumps(odd))
    servers = {"one": small("told", str(tmp_path))}
    options = {"profile": "everything"}
    async with serve(servers, gateway=options) as running, running.client() as client:
        tools = {t.name: t for t in (await client.list_tools()).tools}
    tool = tools["one__echo"]
    assert tool.input_schema["properties"]["text"]["description"] == "What to say"
    assert "odd" not in (tool.meta or {})
