"""The harness itself: the same conversation comes through every door alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.doors.harness import DOORS, converse

ROWS = [
    {"name": f"archive_{what}", "description": f"Put a {what} into the archive."}
    for what in ("ticket", "branch", "invoice", "recipe", "flight", "hotel", "parcel", "poll")
] + [
    {
        "name": "send_email",
        "description": "Send an email message.",
        "parameters": {
            "type": "object",
            "properties": {"to": {"type": "string"}},
            "required": ["to"],
        },
        "result": "sent",
    }
]


@pytest.mark.parametrize("door", DOORS)
async def test_a_tool_is_found_and_called_through_every_door(door: str, tmp_path: Path) -> None:
    steps = [
        [("tool_search", {"query": "send an email"})],
        [("send_email", {"to": "ann@example.com"})],
    ]
    talk = await converse(door, ROWS, steps, folder=tmp_path, profile="cms")
    assert talk.first.names == ["tool_search"]
    assert "tool_search" in talk.first.instructions
    assert "send_email" in talk.last.names
    assert "send_email" in talk.answers[0][0]
    assert talk.answers[1] == ["sent"]
    assert talk.errors == [[False], [False]]
