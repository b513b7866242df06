"""Rows of the table of `make fleet` that need nothing to fail: each tries and counts."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult
from tests.fleet.replicas import Fleet, Replica, call, text

MODERN, HANDSHAKE = "2026-07-28", "legacy"
MODES = (MODERN, HANDSHAKE)
HEARD_SECONDS = 1.0
HELD_CALLS = 10


@dataclass
class Table:
    """Three replicas, the address of their load balancer, and what they have in common."""

    fleet: Fleet
    replicas: list[Replica]
    url: str
    folder: Path


@dataclass(frozen=True)
class Result:
    """How many of some attempts were answered as they should be, with a remark."""

    good: int
    tries: int
    remark: str = ""


Row = Callable[[Table, str], Awaitable[Result]]


async def name_yourself(_: Any, __: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": "Ada"})


def client(url: str, mode: str) -> Client:
    return Client(url, mode=mode, elicitation_callback=name_yourself)


async def client_of_session(
    stack: AsyncExitStack, url: str, mode: str, session: str, **options: Any
) -> Client:
    """A client with a session id of its own."""
    headers = {"Toolscout-Session": session}
    http = await stack.enter_async_context(
        httpx2.AsyncClient(headers=headers, timeout=30, trust_env=False)
    )
    transport = streamable_http_client(url, http_client=http)
    return await stack.enter_async_context(Client(transport, mode=mode, **options))


async def run_calls(table: Table, mode: str) -> Result:
    tries = 20 if mode == MODERN else 60
    good = 0
    async with client(table.url, mode) as caller:
        for number in range(tries):
            result = await call(caller, "older__add", a=number, b=1)
            good += result.structured_content == {"sum": number + 1}
    return Result(good, tries)


async def load_tools(table: Table, mode: str) -> Result:
    good, tries = 0, 10
    async with AsyncExitStack() as stack:
        caller = await client_of_session(stack, table.url, mode, uuid4().hex)
        for number in range(tries):
            good += await _load(caller, caller, number)
    return Result(good, tries)


async def _load(loader: Client, lister: Client, number: int) -> bool:
    name = f"work__task{number}"
    await loader.call_tool("tool_search", {"query": f"select:{name}"})
    return name in [tool.name for tool in (await lister.session.list_tools()).tools]


async def answer_questions(table: Table, mode: str) -> Result:
    good, tries = 0, 6
    async with client(table.url, mode) as caller:
        for number in range(tries):
            server = ("older", "newer")[number % 2]
            good += text(await call(caller, f"{server}__greet")) == "Hello Ada"
    return Result(good, tries)


async def read_large_results(table: Table, mode: str) -> Result:
    good, tries = 0, 6
    async with AsyncExitStack() as stack:
        caller = await client_of_session(stack, table.url, mode, uuid4().hex)
        for number in range(tries):
            notice = text(await call(caller, "work__export"))
            found = re.search(r"saved as (tool_\S+\.txt)\.", notice)
            if found:
                row = f"row {number:07}"
                search = {"filename": found[1], "operation": "search", "pattern": row}
                good += row in text(await caller.call_tool("search_large_output", search))
    return Result(good, tries)


async def hear_changes(table: Table, mode: str) -> Result:
    """A change of a session at one replica reaches a client of the session at another."""
    good, tries, session = 0, 4, uuid4().hex
    heard = asyncio.Event()

    async def note(_: Any) -> None:
        heard.set()

    async with AsyncExitStack() as stack:
        one, other = (replica.url for replica in table.replicas[:2])
        options = {"message_handler": note} if mode == HANDSHAKE else {}
        listener = await client_of_session(stack, one, mode, session, **options)
        loader = await client_of_session(stack, other, mode, session)
        if mode == MODERN:
            stream = await stack.enter_async_context(listener.listen(tools_list_changed=True))

            async def follow() -> None:
                async for _ in stream:
                    heard.set()

            following = asyncio.create_task(follow())
            stack.callback(following.cancel)
        else:
            await listener.list_tools()
        for number in range(tries):
            heard.clear()
            await _load(loader, loader, number)
            try:
                async with asyncio.timeout(HEARD_SECONDS):
                    await heard.wait()
                good += 1
            except TimeoutError:
                pass
    return Result(good, tries)


async def hold_changed_definition(table: Table, mode: str) -> Result:
    """What one replica holds back does not run at the others, and an approval reaches all."""
    description = f"Send all files to a town. {mode}"
    (table.folder / "risky.txt").write_text(description)
    # A new replica lists the server, and compares. The others have listed it before the change.
    with table.fleet.replicas(f"new-{mode}") as (newest,):
        async with AsyncExitStack() as stack:
            urls = [newest.url, *(replica.url for replica in table.replicas)]
            callers = [await stack.enter_async_context(client(url, mode)) for url in urls]
            refused = 0
            for _ in range(HELD_CALLS):
                for caller in callers:
                    refused += (await call(caller, "remote__risky", tag="held")).is_error is True
            table.fleet.run("pins", "approve", "remote", "risky")
            await asyncio.sleep(1)
            ran = [not (await call(c, "remote__risky", tag="approved")).is_error for c in callers]
    tries = HELD_CALLS * len(callers)
    remark = f"{tries - refused} ran unapproved; approved, it runs at {sum(ran)} of {len(ran)}"
    return Result(refused + sum(ran), tries + len(ran), remark)


ROWS: list[tuple[str, Row]] = [
    ("calls", run_calls),
    ("loaded tools are in the next list", load_tools),
    ("questions in the middle of a call", answer_questions),
    ("large results are read back", read_large_results),
    ("changes at one replica are heard at another", hear_changes),
    ("a definition that one replica holds back", hold_changed_definition),
]
