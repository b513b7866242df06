"""Requests behind a plain round robin reach the replica that they belong to."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp_types import ElicitResult, InputRequiredResult
from tests.fleet.replicas import Fleet, call, text
from tests.fleet.round_robin import round_robin

from toolscout.config import Config
from toolscout.gateway.fleet.key_ring import KEPT_SECONDS, KeyRing, SharedCodec, open_key_ring
from toolscout.gateway.fleet.replicas import open_registry
from toolscout.store.memory import MemoryStore

TALKER = str(Path(__file__).parents[1] / "upstreams" / "talker.py")
FLEET_SERVER = str(Path(__file__).parents[1] / "upstreams" / "fleet_server.py")
MODERN, HANDSHAKE = "2026-07-28", "legacy"


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    server = {"command": sys.executable, "args": [TALKER]}
    # The first one asks while its call runs, which is then parked in one process. The second one
    # gives its question back, with a state that every replica can use.
    servers = {"older": {**server, "protocol": "handshake"}, "newer": server}
    return Fleet(tmp_path, servers)


async def name_yourself(_: Any, __: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": "Ada"})


@pytest.mark.parametrize("mode", [MODERN, HANDSHAKE])
async def test_every_request_is_answered_behind_a_round_robin(fleet: Fleet, mode: str) -> None:
    with fleet.replicas("a", "b") as replicas:
        async with (
            asyncio.timeout(60),
            round_robin([r.url for r in replicas]) as url,
            Client(url, mode=mode, elicitation_callback=name_yourself) as client,
        ):
            for number in range(10):
                added = await call(client, "older__add", a=number, b=1)
                assert added.structured_content == {"sum": number + 1}
            for server in ("older", "newer") * 3:
                assert text(await call(client, f"{server}__greet")) == "Hello Ada"


async def test_the_replica_of_a_session_that_is_gone_gives_a_404(fleet: Fleet) -> None:
    with fleet.replicas("a", "b") as (first, second):
        async with httpx2.AsyncClient(trust_env=False) as http:
            opened = await http.post(first.url, json=INITIALIZE, headers=HEADERS)
            session = {"mcp-session-id": opened.headers["mcp-session-id"]}
            listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
            ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            for message in (ready, listing):
                there = await http.post(second.url, json=message, headers={**HEADERS, **session})
                assert there.is_success
            assert "tool_search" in there.text
            first.process.kill()
            first.process.wait()
            gone = await http.post(second.url, json=listing, headers={**HEADERS, **session})
            assert gone.status_code == 404
            ended = await http.request("DELETE", second.url, headers={**HEADERS, **session})
            assert ended.status_code == 404


async def test_a_session_is_deleted_through_any_replica(fleet: Fleet) -> None:
    with fleet.replicas("a", "b") as (first, second):
        async with httpx2.AsyncClient(trust_env=False) as http:
            opened = await http.post(first.url, json=INITIALIZE, headers=HEADERS)
            session = {"mcp-session-id": opened.headers["mcp-session-id"]}
            ended = await http.request("DELETE", second.url, headers={**HEADERS, **session})
            assert ended.is_success
            listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
            gone = await http.post(first.url, json=listing, headers={**HEADERS, **session})
            assert gone.status_code == 404


async def test_a_stream_is_resumed_through_another_replica(fleet: Fleet) -> None:
    with fleet.replicas("a", "b") as (first, second):
        async with httpx2.AsyncClient(trust_env=False) as http:
            opened = await http.post(first.url, json=INITIALIZE, headers=HEADERS)
            headers = {**HEADERS, "mcp-session-id": opened.headers["mcp-session-id"]}
            headers["mcp-protocol-version"] = "2025-11-25"
            ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            await http.post(first.url, json=ready, headers=headers)
            arguments = {"name": "older__add", "arguments": {"a": 1, "b": 2}}
            params = {"name": "call_tool", "arguments": arguments}
            message = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params}
            answer = await http.post(second.url, json=message, headers=headers)
            assert '"sum":3' in answer.text.replace(" ", "")
            first_event = answer.text.split("id: ")[1].split()[0]
            resumed = {**headers, "last-event-id": first_event}
            async with http.stream("GET", second.url, headers=resumed) as stream:
                async for line in stream.aiter_lines():
                    if '"sum":3' in line.replace(" ", ""):
                        return
    raise AssertionError("The stream ended without the result.")


async def test_an_answer_to_a_call_of_a_gone_replica_is_refused_in_words(fleet: Fleet) -> None:
    with fleet.replicas("a", "b") as (first, second):
        arguments: dict[str, Any] = {"name": "older__greet", "arguments": {}}
        options: dict[str, Any] = {"mode": MODERN, "elicitation_callback": name_yourself}
        async with first.client(**options) as client:
            asked = await client.session.call_tool(
                "call_tool", arguments, allow_input_required=True
            )
        assert isinstance(asked, InputRequiredResult)
        assert asked.request_state
        first.process.kill()
        first.process.wait()
        async with second.client(**options) as client:
            late = await client.session.call_tool(
                "call_tool",
                arguments,
                request_state=asked.request_state,
                input_responses={"question": await name_yourself(None, None)},
            )
        assert late.is_error
        assert "wait" in text(late)


# A gateway is gone after 20 s without a heartbeat, which others notice with their second one.
GONE_SECONDS = 40


async def test_a_frozen_replica_holds_up_no_request_for_longer_than_it_counts_as_running(
    fleet: Fleet,
) -> None:
    with fleet.replicas("a", "b") as (first, second):
        async with second.client() as client:
            while (await call(client, "older__add", a=1, b=1)).is_error:  # it still starts
                pass
        async with httpx2.AsyncClient(trust_env=False, timeout=GONE_SECONDS) as http:
            opened = await http.post(second.url, json=INITIALIZE, headers=HEADERS)
            headers = {**HEADERS, "mcp-session-id": opened.headers["mcp-session-id"]}
            ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert (await http.post(first.url, json=ready, headers=headers)).is_success
            listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}

            def post(message: dict[str, Any]) -> Any:
                return http.post(first.url, json=message, headers=headers)

            calling = {"json": calls("older__greet", key=3), "headers": headers}
            async with http.stream("POST", first.url, **calling) as stream:
                lines = stream.aiter_lines()
                # The call runs: its question is there.
                while "elicitation/create" not in await anext(lines):
                    pass
                second.process.send_signal(signal.SIGSTOP)
                listed, called, rest = await asyncio.gather(
                    post(listing), post(calls("older__add", key=4, a=1, b=2)), read_all(lines)
                )
            assert listed.status_code == 404
            assert called.json()["id"] == 4
            assert "may have run" in called.json()["error"]["message"]
            assert '"id": 3' in rest
            assert "may have run" in rest
            again = await post(listing)
            assert again.status_code == 404


async def test_a_replica_that_was_frozen_comes_back_with_its_sessions(tmp_path: Path) -> None:
    work = {"command": sys.executable, "args": [FLEET_SERVER, str(tmp_path)]}
    fleet = Fleet(tmp_path, {"work": work}, gateway={"surface": "load"})
    with fleet.replicas("a", "b") as (first, second):
        async with httpx2.AsyncClient(trust_env=False, timeout=GONE_SECONDS) as http:

            async def open_session(url: str) -> dict[str, str]:
                own = {**HEADERS, "toolscout-session": "one conversation"}
                opened = await http.post(url, json=INITIALIZE, headers=own)
                headers = {**own, "mcp-session-id": opened.headers["mcp-session-id"]}
                ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
                assert (await http.post(url, json=ready, headers=headers)).is_success
                return headers

            async def load(url: str, headers: dict[str, str], tool: str) -> None:
                params = {"name": "tool_search", "arguments": {"query": f"select:{tool}"}}
                message = {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": params}
                answer = await http.post(url, json=message, headers=headers)
                assert tool in answer.text

            async def list_tools(url: str, headers: dict[str, str]) -> httpx2.Response:
                listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
                return await http.post(url, json=listing, headers=headers)

            before = await open_session(second.url)
            await load(first.url, before, "work__task3")
            second.process.send_signal(signal.SIGSTOP)
            assert (await list_tools(first.url, before)).status_code == 404
            # The client does what the protocol says, and its tool is still there.
            after = await open_session(first.url)
            assert "work__task3" in (await list_tools(first.url, after)).text
            await load(first.url, after, "work__task4")
            second.process.send_signal(signal.SIGCONT)
            async with asyncio.timeout(20):
                while (listed := await list_tools(first.url, before)).status_code == 404:
                    pass
            # Clients that did not ask meanwhile notice nothing, and get the latest state.
            assert "work__task3" in listed.text
            assert "work__task4" in listed.text
            assert "work__task4" in (await list_tools(second.url, after)).text


def calls(tool: str, *, key: int, **arguments: Any) -> dict[str, Any]:
    params = {"name": "call_tool", "arguments": {"name": tool, "arguments": arguments}}
    return {"jsonrpc": "2.0", "id": key, "method": "tools/call", "params": params}


async def read_all(lines: AsyncIterator[str]) -> str:
    return "\n".join([line async for line in lines])


async def test_only_gateways_may_use_the_internal_address(fleet: Fleet, tmp_path: Path) -> None:
    with fleet.replicas("a") as (first,):
        async with first.client():  # it answers only once it is registered
            pass
        config = Config.read(home=str(tmp_path / "other"), store=fleet.database)
        with closing(
            open_registry(config, replica="deadbeef", address="http://127.0.0.1:1")
        ) as all_:
            all_.beat()
            (replica,) = [name for name in all_.replicas if name != "deadbeef"]
            address = all_.find_address(replica)
        async with httpx2.AsyncClient(trust_env=False) as http:
            listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
            for token in ({}, {"toolscout-passed-on": "v1.AAAA"}):
                refused = await http.post(
                    f"{address}/mcp", json=listing, headers={**HEADERS, **token}
                )
                assert refused.status_code == 403


async def test_rotated_keys_reach_every_replica_at_once(fleet: Fleet) -> None:
    with fleet.replicas("a", "b") as replicas:
        async with (
            asyncio.timeout(60),
            round_robin([r.url for r in replicas]) as url,
            Client(url, mode=MODERN, elicitation_callback=name_yourself) as client,
        ):
            arguments: dict[str, Any] = {"name": "older__greet", "arguments": {}}
            for count in (2, 3):
                asked = await client.session.call_tool(
                    "call_tool", arguments, allow_input_required=True
                )
                assert isinstance(asked, InputRequiredResult)
                assert f"{count} keys" in fleet.run("store", "rotate-keys")
                answer = {"question": await name_yourself(None, None)}
                reply = await client.session.call_tool(
                    "call_tool",
                    arguments,
                    request_state=asked.request_state,
                    input_responses=answer,
                )
                assert text(reply) == "Hello Ada"
                # A question under the new key.
                assert text(await call(client, "older__greet")) == "Hello Ada"


def test_a_replaced_key_decrypts_for_an_hour() -> None:
    now = [1_000.0]
    store = MemoryStore()
    ring, other = (KeyRing(store, cipher=None, clock=lambda: now[0]) for _ in range(2))
    ring.load()
    other.load()
    sealed = SharedCodec(ring, purpose="one").seal(b"state")
    assert ring.rotate() == 2
    assert SharedCodec(other, purpose="one").unseal(sealed) == b"state"
    assert SharedCodec(other, purpose="two").unseal_or_reload(sealed) is None
    newer = SharedCodec(ring, purpose="one").seal(b"newer")
    assert SharedCodec(other, purpose="one").unseal_or_reload(newer) == b"newer"
    now[0] += 1
    assert ring.rotate() == 3
    now[0] += KEPT_SECONDS
    assert ring.rotate() == 2
    assert SharedCodec(ring, purpose="one").unseal_or_reload(sealed) is None


def test_keys_are_encrypted_with_the_key_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLSCOUT_KEY", "0123456789abcdef" * 4)
    config = Config.read(home=str(tmp_path), store=str(tmp_path / "state.db"))
    with closing(open_key_ring(config)) as ring, closing(open_key_ring(config)) as other:
        ring.load()
        sealed = SharedCodec(ring, purpose="one").seal(b"state")
        other.load()
        assert SharedCodec(other, purpose="one").unseal(sealed) == b"state"
    assert b"secret" not in (tmp_path / "state.db").read_bytes()


HEADERS = {"accept": "application/json, text/event-stream"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
