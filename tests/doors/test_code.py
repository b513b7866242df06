"""Code mode is the same through the loop of an SDK, the agent and the gateway."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.doors.harness import DOORS, converse

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
ROWS = [
    {"name": "list_orders", "description": "List the orders of a month.", "result": "[3, 5, 8]"},
    {"name": "send_report", "description": "Send a report.", "parameters": TEXT},
]
PROGRAM = """
orders = await call_tool("list_orders", {})
sent = await call_tool("send_report", {"text": f"{len(orders)} orders"})
print(sent)
sum(orders)
"""


@pytest.mark.parametrize("door", DOORS)
async def test_a_program_is_one_call_through_every_door(door: str, tmp_path: Path) -> None:
    steps = [
        [("tool_search", {"query": "send a report"})],
        [("run_code", {"code": PROGRAM})],
        [("run_code", {"code": 'await call_tool("send_report", {"words": 1})'})],
    ]
    talk = await converse(door, ROWS, steps, folder=tmp_path, profile="code")
    assert {"tool_search", "run_code"} <= {*talk.first.names}
    assert "send_report" not in talk.last.names
    assert "async def send_report(self, *, text: str)" in talk.answers[0][0]
    (answer,) = talk.answers[1]
    assert 'send_report {"text": "3 orders"}' in answer
    assert answer.endswith("16")
    assert talk.errors == [[False], [False], [True]]
    assert "The arguments do not fit" in talk.answers[2][0]
