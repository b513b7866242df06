"""What is counted and written down of calls that did not run to their end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.gateway.conftest import Running, Serve, cancel_a_wait, small

from toolscout.gateway.operations.health import render_metrics


def audited(running: Running) -> list[dict[str, Any]]:
    text = (running.home / "state" / "audit.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_cancelled_call_is_counted_and_noted_with_its_server(
    serve: Serve, talker: dict[str, Any], mode: str
) -> None:
    async with serve({"talker": talker}) as running, running.client(mode) as client:
        await cancel_a_wait(running, client)
        (row,) = [r for r in audited(running) if r["outcome"] == "cancelled"]
        assert (row["tool"], row["server"]) == ("talker__wait", "talker")
        counted = 'toolscout_calls_total{outcome="cancelled",server="talker"} 1'
        assert counted in render_metrics(running.gateway)


@pytest.mark.parametrize(
    "arguments", [{"name": "one__echo", "arguments": "text"}, {"name": 5}, {"arguments": {}}]
)
async def test_a_malformed_call_is_a_refusal_and_no_search(
    serve: Serve, arguments: dict[str, Any]
) -> None:
    async with serve({"one": small()}) as running, running.client("legacy") as client:
        assert (await client.call_tool("call_tool", arguments)).is_error
        metrics = render_metrics(running.gateway)
    assert 'toolscout_refusals_total{code="invalid_arguments"} 1' in metrics
    assert "toolscout_searches_total" not in metrics


async def test_a_refusal_is_reported_for_the_tool_that_was_meant(serve: Serve) -> None:
    async with serve({"one": small()}) as running, running.client() as client:
        asked = {"name": "one__echo", "arguments": {"text": []}}
        assert (await client.call_tool("call_tool", asked)).is_error
        (refused,) = [e for e in running.events if e.kind == "tool_refused"]
    assert (refused.facts["tool"], refused.facts["code"]) == ("one__echo", "invalid_arguments")
