"""Calls that the user is asked about, through the client that made them."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_types import ElicitResult
from tests.gateway.conftest import Serve, small, text

GENERATIONS = ["legacy", "2026-07-28"]


def saying(action: str, heard: list[str]) -> Any:
    """A user who answers every question like that."""

    async def answered(_: Any, params: Any) -> ElicitResult:
        heard.append(params.message)
        return ElicitResult.model_validate({"action": action, "content": {}})

    return answered


async def run(client: Any, tool: str) -> Any:
    return await client.call_tool("call_tool", {"name": tool, "arguments": {"text": "done"}})


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_a_destructive_call_runs_only_after_approval(serve: Serve, mode: str) -> None:
    options = {"gateway": {"confirm": "destructive"}}
    heard: list[str] = []
    async with serve({"one": small("hints")}, **options) as running:
        async with running.client(mode, elicitation_callback=saying("accept", heard)) as client:
            assert text(await run(client, "one__change")) == "done"
            assert ["one__change" in asked for asked in heard] == [True]
            assert text(await run(client, "one__look")) == "done"
            assert text(await run(client, "one__unknown")) == "done"
            assert len(heard) == 1
        async with running.client(mode, elicitation_callback=saying("decline", heard)) as client:
            refused = await run(client, "one__change")
            assert refused.is_error
            assert text(refused) != "done"
            assert len(heard) == 2


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_tools_without_hints_need_approval_with_confirm_unknown(
    serve: Serve, mode: str
) -> None:
    options = {"gateway": {"confirm": "unknown"}}
    heard: list[str] = []
    async with (
        serve({"one": small("hints")}, **options) as running,
        running.client(mode, elicitation_callback=saying("accept", heard)) as client,
    ):
        assert text(await run(client, "one__look")) == "done"
        assert not heard
        assert text(await run(client, "one__unknown")) == "done"
        assert "one__unknown" in heard[0]


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_a_client_that_cannot_ask_counts_as_a_no(serve: Serve, mode: str) -> None:
    options = {"gateway": {"confirm": "destructive"}}
    async with serve({"one": small("hints")}, **options) as running, running.client(mode) as client:
        refused = await run(client, "one__change")
        assert refused.is_error
        assert "needs approval" in text(refused)
        assert text(await run(client, "one__look")) == "done"
