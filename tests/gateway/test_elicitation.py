"""Questions of an older server to a client that answers with later requests."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp_types import ElicitResult, InputRequiredResult
from tests.gateway.conftest import Serve, text

ASKER = str(Path(__file__).parent / "asker.py")
FIRST, SECOND = "Delete the copy?", "Delete the original?"


@pytest.fixture
def asker(tmp_path: Path) -> dict[str, Any]:
    """A server that asks two things at once."""
    os.mkfifo(tmp_path / "gate")
    return {"command": sys.executable, "args": [ASKER, str(tmp_path)], "protocol": "handshake"}


async def repeated(_: Any, params: Any) -> ElicitResult:
    """A user whose every answer tells the question."""
    return ElicitResult(action="accept", content={"said": params.message})


async def call(client: Any, tool: str) -> Any:
    return await client.call_tool("call_tool", {"name": f"asker__{tool}", "arguments": {}})


async def test_each_of_two_questions_asked_at_once_gets_its_own_answer(
    serve: Serve, asker: dict[str, Any]
) -> None:
    async with (
        asyncio.timeout(30),
        serve({"asker": asker}) as running,
        running.client("2026-07-28", elicitation_callback=repeated) as client,
    ):
        said = json.loads(text(await call(client, "both")))
        assert said == {FIRST: FIRST, SECOND: SECOND}


async def test_a_question_that_its_server_took_back_is_not_asked(
    serve: Serve, asker: dict[str, Any], tmp_path: Path
) -> None:
    asked: list[str] = []

    async def answered(_: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        await asyncio.to_thread((tmp_path / "gate").read_text)
        return await repeated(_, params)

    async with (
        asyncio.timeout(30),
        serve({"asker": asker}) as running,
        running.client("2026-07-28", elicitation_callback=answered) as client,
    ):
        assert json.loads(text(await call(client, "one"))) == {FIRST: FIRST}
    assert asked == [FIRST]


async def test_a_server_that_ended_its_call_hears_that_nobody_answers_its_questions(
    serve: Serve, asker: dict[str, Any], tmp_path: Path
) -> None:
    async with (
        asyncio.timeout(30),
        serve({"asker": asker}) as running,
        running.client("2026-07-28", elicitation_callback=repeated) as client,
    ):
        left: dict[str, Any] = {"name": "asker__none", "arguments": {}}
        asked = await client.session.call_tool("call_tool", left, allow_input_required=True)
        assert isinstance(asked, InputRequiredResult)
        # Until then the gateway may not have read the second question, and a second call would
        # leave it open which of the two calls asks.
        await asyncio.to_thread((tmp_path / "gate").read_text)
        said = json.loads(text(await call(client, "heard")))
        assert said == {FIRST: "The call is over.", SECOND: "The call is over."}


@pytest.mark.parametrize("tool", ["both", "sample"])
async def test_a_handshake_client_without_the_capability_is_not_asked(
    serve: Serve, asker: dict[str, Any], tool: str
) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
    hello["clientInfo"] = {"name": "test", "version": "1"}
    headers = {"accept": "application/json, text/event-stream"}
    called = {"name": "call_tool", "arguments": {"name": f"asker__{tool}", "arguments": {}}}
    async with (
        asyncio.timeout(30),
        serve({"asker": asker}) as running,
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
    ):

        async def post(message: dict[str, Any], **more: str) -> httpx2.Response:
            return await http.post(
                running.url, json={"jsonrpc": "2.0", **message}, headers={**headers, **more}
            )

        opened = await post({"id": 1, "method": "initialize", "params": hello})
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        await post({"method": "notifications/initialized"}, **session)
        answer = await post({"id": 2, "method": "tools/call", "params": called}, **session)
    messages = [json.loads(line[6:]) for line in answer.text.splitlines() if line[:7] == "data: {"]
    (message,) = [each for each in messages if "method" in each or "result" in each]
    heard = json.loads(message["result"]["content"][0]["text"])
    assert set(heard.values()) == {"The client cannot be asked that."}
