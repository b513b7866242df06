"""`toolscout serve --workers`: several processes at one address behave as one gateway."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing, suppress
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult, InputRequiredResult
from tests.fleet.replicas import call, text
from tests.fleet.supervised import ACCEPT, TOKEN, Supervised, family, is_running, wait_until
from tests.store.postgres_server import shared_server

from toolscout.cli.app import run
from toolscout.gateway.fleet.connection_counts import ConnectionCounts
from toolscout.gateway.fleet.supervisor import MAX_DELAY_SECONDS, Supervisor, next_delay
from toolscout.gateway.fleet.worker_process import WorkerProcess

UPSTREAMS = Path(__file__).parents[1] / "upstreams"
SERVER = '[servers.one]\ncommand = "true"\n\n'
SESSION = {"toolscout/session": "one conversation"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def make_gateway(folder: Path, store: str, *names: str) -> Supervised:
    folder.mkdir(exist_ok=True)
    tools = [
        {"name": f"tool{n}", "description": f"Does thing{n}.", "inputSchema": {"type": "object"}}
        for n in range(60)
    ]
    (folder / "tool.json").write_text(json.dumps(tools))
    talker = {"command": sys.executable, "args": [str(UPSTREAMS / "talker.py")]}
    told = {"command": sys.executable, "args": [str(UPSTREAMS / "bad.py"), "told", str(folder)]}
    servers = {
        "older": {**talker, "protocol": "handshake"},
        "many": told,
        # Ten at once, and then one a second.
        "slow": {**told, "calls_per_minute": 60},
    }
    options = {"surface": "load", "start_wait_seconds": 30}
    chosen = {name: servers[name] for name in names}
    return Supervised(folder / "run", chosen, store=store, gateway=options)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervised]:
    made = make_gateway(tmp_path_factory.mktemp("workers"), "sqlite", "older", "many", "slow")
    yield made
    made.end()


@pytest.fixture
def gateway(started: Supervised) -> Supervised:
    """Two workers with SQLite, which the tests share; one that ended is started again."""
    if started.process is None or started.process.poll() is not None:
        started.start()
    return started


async def name_yourself(_: Any, __: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": "Ada"})


async def count_echoes(gateway: Supervised, calls: int) -> int:
    """Call a tool in one handshake session, with a request to each worker in turn."""
    first, second = gateway.workers
    good = 0
    async with gateway.http_at(first) as one, gateway.http_at(second) as other:
        opened = await one.post("/mcp", json=INITIALIZE)
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await other.post("/mcp", json=ready, headers=session)).is_success
        for number, http in enumerate(islice(cycle((other, one)), calls)):
            arguments = {"name": "many__tool0", "arguments": {"text": f"call {number} arrived"}}
            params = {"name": "call_tool", "arguments": arguments}
            message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
            answer = await http.post("/mcp", json=message, headers=session)
            good += f"call {number} arrived" in answer.text
    return good


async def test_a_handshake_session_is_answered_at_every_worker(gateway: Supervised) -> None:
    assert await count_echoes(gateway, 60) == 60


async def test_a_burst_of_clients_is_shared_by_the_workers(gateway: Supervised) -> None:
    headers = {**ACCEPT, "authorization": f"Bearer {TOKEN}"}
    options: dict[str, Any] = {"base_url": gateway.base, "headers": headers, "timeout": 60}
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(httpx2.AsyncClient(**options, trust_env=False))
            for _ in range(16)
        ]
        opened = await asyncio.gather(*(each.post("/mcp", json=INITIALIZE) for each in clients))
        # The id of a session ends with the name of its worker.
        owners = Counter(each.headers["mcp-session-id"].rpartition("-")[2] for each in opened)
        for each, answer in zip(clients, opened, strict=True):
            session = {"mcp-session-id": answer.headers["mcp-session-id"]}
            assert (await each.delete("/mcp", headers=session)).is_success
    assert min(owners.values()) >= 4
    assert len(owners) == 2


async def test_stateless_calls_are_answered_by_the_worker_that_they_reach(
    gateway: Supervised,
) -> None:
    for worker in gateway.workers:
        async with gateway.client_at(worker) as client:
            for number in range(5):
                added = await call(client, "older__add", a=number, b=1)
                assert added.structured_content == {"sum": number + 1}


async def test_a_client_that_listens_is_notified_of_a_change_at_another_worker(
    gateway: Supervised,
) -> None:
    first, second = gateway.workers
    session = {"toolscout/session": "one that is listened to"}
    async with (
        asyncio.timeout(60),
        gateway.client_at(first) as listening,
        gateway.client_at(second) as changing,
        listening.listen(tools_list_changed=True) as events,
    ):
        for number in range(4):
            query = {"query": f"select:many__tool{number}"}
            await changing.call_tool("tool_search", query, meta=session)
            await anext(events)


async def test_a_question_is_answered_through_another_worker(gateway: Supervised) -> None:
    first, second = gateway.workers
    arguments: dict[str, Any] = {"name": "older__greet", "arguments": {}}
    for asked_at, answered_at in ((first, second), (second, first)):
        async with gateway.client_at(asked_at, elicitation_callback=name_yourself) as client:
            asked = await client.session.call_tool(
                "call_tool", arguments, allow_input_required=True
            )
        assert isinstance(asked, InputRequiredResult)
        async with gateway.client_at(answered_at, elicitation_callback=name_yourself) as client:
            reply = await client.session.call_tool(
                "call_tool",
                arguments,
                request_state=asked.request_state,
                input_responses={"question": await name_yourself(None, None)},
            )
        assert text(reply) == "Hello Ada"


async def check_loaded_tools(gateway: Supervised) -> None:
    first, second = gateway.workers
    async with gateway.client_at(first) as one, gateway.client_at(second) as other:
        # Both have the session open before it changes.
        for client in (one, other):
            await client.list_tools(meta=SESSION)
        for number, (loads, lists) in enumerate([(one, other), (other, one)] * 2):
            name = f"many__tool{number}"
            await loads.call_tool("tool_search", {"query": f"select:{name}"}, meta=SESSION)
            listed = (await lists.list_tools(meta=SESSION)).tools
            assert name in [tool.name for tool in listed]


async def test_a_tool_loaded_at_one_worker_is_in_the_next_list_of_the_other(
    gateway: Supervised,
) -> None:
    await check_loaded_tools(gateway)


async def test_workers_enforce_one_limit_per_minute(gateway: Supervised) -> None:
    first, second = gateway.workers
    answered = 0
    async with gateway.client_at(first) as one, gateway.client_at(second) as other:
        for client in islice(cycle((one, other)), 24):
            with suppress(MCPError):  # over the limit
                answered += not (await call(client, "slow__tool1")).is_error
    assert 10 <= answered <= 15


async def test_pins_hold_a_tool_at_every_worker(gateway: Supervised) -> None:
    first, second = gateway.workers
    async with gateway.client_at(first) as one, gateway.client_at(second) as other:
        for client in (one, other):
            assert not (await call(client, "many__tool7", text="runs")).is_error
        gateway.run("pins", "revoke", "many", "tool7")
        for client in (one, other):
            held = await call(client, "many__tool7", text="runs")
            assert held.is_error
            assert "approve" in text(held)


async def test_pages_are_answered_by_one_worker(gateway: Supervised) -> None:
    first, second = gateway.workers
    async with (
        gateway.http_at(first) as one,
        gateway.http_at(second) as other,
        gateway.client_at(first) as client,
    ):
        # A call changes the count of one worker: if each answered for itself, they would differ
        # before it or after it.
        for _ in range(2):
            pages = [(await http.get("/metrics")).text for http in (one, other)]
            counts = [re.findall(r"toolscout_call_seconds_count (\d+)", page) for page in pages]
            assert counts[0] == counts[1]
            await call(client, "many__tool1")


async def test_a_login_with_a_browser_is_valid_at_every_worker(gateway: Supervised) -> None:
    (key,) = re.findall(r"/login\?key=(\S+)", gateway.log)
    first, second = gateway.workers
    async with (
        gateway.http_at(first, token="") as browser,
        gateway.http_at(second, token="") as again,
    ):
        assert (await browser.get("/metrics")).status_code == 401
        # The form goes to the worker that has not printed the link, whichever it is.
        opened = await again.post("/login", data={"key": key})
        assert opened.status_code == 303
        for http in (browser, again):
            http.cookies = again.cookies
            assert (await http.get("/metrics")).status_code == 200
        used = await browser.post("/login", data={"key": key})
        assert used.status_code == 403


async def test_a_worker_that_is_killed_is_replaced(gateway: Supervised) -> None:
    lost, kept = gateway.workers
    async with gateway.http_at(lost) as http:
        opened = await http.post("/mcp", json=INITIALIZE)
    session = {"mcp-session-id": opened.headers["mcp-session-id"]}
    os.kill(lost, signal.SIGKILL)
    wait_until(lambda: len({*gateway.workers} - {lost}) == 2)
    assert f"(process {lost}) was ended by SIGKILL. It starts again in 0.5 s." in gateway.log
    async with gateway.http_at(kept) as http:
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        gone = await http.post("/mcp", json=listing, headers=session)
        assert gone.status_code == 404
    (new,) = set(gateway.workers) - {kept}
    gateway.wait_for(new)
    async with gateway.client_at(new) as client:
        assert (await call(client, "older__add", a=1, b=2)).structured_content == {"sum": 3}


def test_sigterm_ends_all_processes(gateway: Supervised) -> None:
    assert gateway.process is not None
    everybody = family(gateway.pid)
    assert len(everybody) > 3
    gateway.process.send_signal(signal.SIGTERM)
    assert gateway.process.wait(60) == 0
    assert not [pid for pid in everybody if is_running(pid)]
    assert gateway.log.count("Toolscout serves") == 1
    assert "Traceback" not in gateway.log


async def test_workers_share_a_postgres_store_and_do_not_outlive_their_supervisor(
    tmp_path: Path,
) -> None:
    gateway = make_gateway(tmp_path, shared_server().new_database(), "many")
    gateway.start()
    try:
        assert await count_echoes(gateway, 6) == 6
        await check_loaded_tools(gateway)
        everybody = family(gateway.pid)
    finally:
        os.kill(gateway.pid, signal.SIGKILL)
        assert gateway.process is not None
        gateway.process.wait()
    wait_until(lambda: not any(map(is_running, everybody)))


def test_a_gateway_whose_workers_cannot_start_ends_with_their_exit_code() -> None:
    command = [sys.executable, "-S", "-c", "import sys; sys.exit(3)"]
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        closing(ConnectionCounts.create(2)) as counts,
    ):

        def start(_: int) -> WorkerProcess:
            return WorkerProcess(command, {}, listener=listener, counts=counts)

        assert Supervisor(start, workers=2, counts=counts).run() == 3


@pytest.mark.parametrize("number", ["0", "-1", "65", "two", "1.5"])
def test_a_number_of_workers_has_to_make_sense(
    number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", "--example", "--workers", number]) == 2
    assert "--workers" in capsys.readouterr().err


def test_workers_are_refused_over_stdio(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "--example", "--stdio", "--workers", "2"]) == 2
    assert "--workers is for HTTP" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--workers", "2"], []])
def test_workers_are_refused_with_a_store_in_memory(
    options: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TOOLSCOUT_STORE", "memory")
    config = tmp_path / "mcp.toml"
    config.write_text(f"{SERVER}[gateway]\nworkers = 3\n")
    assert run(["serve", "--config", str(config), "--http", "127.0.0.1:0", *options]) == 2
    error = capsys.readouterr().err
    assert "a store in memory belongs to one process" in error
    assert "Set store to sqlite" in error


def test_internal_ports_of_all_workers_have_to_exist(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "mcp.toml"
    settings = '[gateway]\nworkers = 3\ninternal_address = "127.0.0.1:65534"\n'
    config.write_text(SERVER + settings)
    assert run(["serve", "--config", str(config), "--http", "127.0.0.1:0"]) == 2
    assert "3 workers need 3 ports" in capsys.readouterr().err


def test_a_worker_that_keeps_ending_starts_again_later_and_later() -> None:
    delays = [0.0]
    for _ in range(9):
        delays.append(next_delay(delays[-1], lived_seconds=1))
    assert delays[1:5] == [0.5, 1, 2, 4]
    assert delays[-1] == MAX_DELAY_SECONDS
    assert next_delay(delays[-1], lived_seconds=3_600) == 0.5
