"""A policy decides for everything that a caller can reach, and leaves no trace of the rest."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from tests.gateway.conftest import UPSTREAMS, Running, Serve, text
from tests.upstreams.guarded import PROMPTS, RESOURCES, code, uri

from toolscout.events import DiscoveryResultEvent
from toolscout.gateway.settings import AccessPolicy

ALICE, BOB = "alice-token-0123456789", "bob-token-0123456789"
TOKENS = {"auth": {"tokens": {"alice": ALICE, "bob": BOB}}}
MODES = ("legacy", "2026-07-28")
# The numbers of tools: that of `crowd` is found in no other text.
TOOLS = {"alpha": 3, "beta": 4, "crowd": 211}
API = "gamma"
FAILING, DISABLED = "quasar", "zeppelin"
SERVERS = (*TOOLS, API, FAILING, DISABLED)


def guarded(name: str, tools: int) -> dict[str, Any]:
    args = [str(UPSTREAMS / "guarded.py"), name, str(tools)]
    return {"command": sys.executable, "args": args, "pinned": [f"nm{code(name, 't', 2)}"]}


def configuration(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The servers, and the other tables: an API, a server that fails, and one that is disabled."""
    fails = f"import sys; sys.exit('tx{code(FAILING, 'f', 0)}')"
    own = code(API, "t", 0)
    operation = {"operationId": f"nm{own}", "summary": f"Handles the tx{own} of things."}
    document = folder / "api.json"
    document.write_text(
        json.dumps(
            {
                "openapi": "3.1.0",
                "info": {"title": "g", "version": "1"},
                "servers": [{"url": "http://127.0.0.1:9"}],
                "paths": {"/x": {"get": operation}},
            }
        )
    )
    servers = {
        **{name: guarded(name, count) for name, count in TOOLS.items()},
        FAILING: {"command": sys.executable, "args": ["-c", fails]},
        DISABLED: {**guarded(DISABLED, 1), "disabled": True},
    }
    return servers, {"openapi": {API: {"document": str(document)}}, **TOKENS}


@dataclass(frozen=True)
class Item:
    """A tool, prompt, resource or template, by the names that patterns match."""

    server: str
    kind: str
    number: int
    is_read_only: bool = True

    @property
    def code(self) -> str:
        return code(self.server, self.kind, self.number)

    @property
    def names(self) -> tuple[str, ...]:
        name = f"{self.server}__nm{self.code}"
        is_resource = self.kind in ("r", "m")
        return (name, uri(self.server, self.kind, self.number)) if is_resource else (name,)


def list_items() -> Iterator[Item]:
    for server, count in TOOLS.items():
        # One more than it has at first: a tool that is added later, and held for approval.
        for number in range(count + 1):
            yield Item(server, "t", number, number % 2 == 0)
        yield from (Item(server, "p", number) for number in range(PROMPTS))
        yield from (Item(server, "r", number) for number in range(RESOURCES))
        yield Item(server, "m", 0)
    yield Item(API, "t", 0)


ITEMS = tuple(list_items())


def is_admitted(policy: AccessPolicy, item: Item) -> bool:
    def matches(patterns: tuple[str, ...]) -> bool:
        return any(fnmatchcase(name, pattern) for name in item.names for pattern in patterns)

    return (
        (not policy.servers or item.server in policy.servers)
        and (not policy.tools or matches(policy.tools))
        and not matches(policy.deny)
        and (item.is_read_only or not policy.read_only)
    )


def is_server_admitted(policy: AccessPolicy, server: str) -> bool:
    tools = [item for item in ITEMS if item.server == server and item.kind == "t"]
    if tools:
        return any(is_admitted(policy, tool) for tool in tools)
    # Nothing is known of a server that fails, but its name.
    whole = ("*", f"{server}__*")
    is_selected = not policy.servers or server in policy.servers
    is_named = not policy.tools or any(p in whole for p in policy.tools)
    return is_selected and is_named and not any(p in whole for p in policy.deny)


@dataclass(frozen=True)
class Oracle:
    """What a policy admits, by the documentation and not by the code."""

    policy: AccessPolicy

    @property
    def servers(self) -> list[str]:
        return [server for server in SERVERS if is_server_admitted(self.policy, server)]

    @property
    def visible(self) -> list[Item]:
        servers = self.servers
        return [i for i in ITEMS if i.server in servers and is_admitted(self.policy, i)]

    def count(self, server: str, kinds: str = "t", *, has_later: bool = True) -> int:
        last = TOOLS.get(server)
        items = [i for i in self.visible if i.server == server and i.kind in kinds]
        return sum(has_later or not (i.kind == "t" and i.number == last) for i in items)

    @property
    def needles(self) -> list[re.Pattern[bytes]]:
        """What must not be in anything that the caller receives."""
        visible = {item.code for item in self.visible}
        hidden = [item.code for item in ITEMS if item.code not in visible]
        texts = [server for server in SERVERS if server not in self.servers]
        texts += [code for code in hidden if not any(code.startswith(name) for name in texts)]
        found = [re.compile(re.escape(each).encode()) for each in texts]
        if "crowd" not in self.servers:
            total = sum(TOOLS.values())
            numbers = (TOOLS["crowd"], TOOLS["crowd"] + 1, total, total + 1, total + 3)
            found += [re.compile(rb"(?<![.\d\w-])%d(?![.\d\w-])" % number) for number in numbers]
        return found


@dataclass
class Exchange:
    """A request, and all bytes that came back."""

    request: bytes
    response: bytearray = field(default_factory=bytearray)


class Recorder(httpx2.AsyncBaseTransport):
    """Sends requests, and keeps every byte of the answers."""

    def __init__(self) -> None:
        self._inner = httpx2.AsyncHTTPTransport()
        self.exchanges: list[Exchange] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        exchange = Exchange(str(request.url).encode() + await request.aread())
        self.exchanges.append(exchange)
        response = await self._inner.handle_async_request(request)
        # But for the length of the body, which may be any number.
        headers = [h for h in response.headers.raw if h[0].lower() != b"content-length"]
        exchange.response += repr(headers).encode()
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_RecordedStream(response.stream, exchange),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


class _RecordedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: Any, exchange: Exchange) -> None:
        self._inner = inner
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._exchange.response += chunk
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


@asynccontextmanager
async def connect(
    running: Running, token: str, mode: str, transport: Recorder | None = None, **options: Any
) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60, transport=transport or Recorder()) as http,
        Client(
            streamable_http_client(running.url, http_client=http), mode=mode, **options
        ) as client,
    ):
        yield client


async def use_policy(running: Running, policy: AccessPolicy) -> None:
    """Let a policy apply to bob, as an edit of the configuration would."""
    setup = running.gateway.setup
    policies = {
        "all": AccessPolicy(principals=("alice",)),
        "some": policy.model_copy(update={"principals": ("bob",)}),
    }
    tables = setup.settings.model_copy(update={"policies": policies})
    await running.gateway.apply(replace(setup, settings=tables))


async def heard_progress(*_: Any) -> None:
    """Asks for progress, which the recorder sees."""


def requests(
    client: Client, mode: str, targets: list[Item]
) -> Iterator[Callable[[], Awaitable[Any]]]:
    """Requests of every method, about these items and in general."""

    def call(tool: str, /, **arguments: Any) -> Callable[[], Awaitable[Any]]:
        return lambda: client.call_tool(tool, arguments, progress_callback=heard_progress)

    yield client.list_tools
    yield client.list_prompts
    yield client.list_resources
    yield client.list_resource_templates
    yield call("tool_search", query="handles things")
    yield call("tool_search", query=r"/nm\w+/")
    yield call("tool_search", query=["things of others", "has the"])
    yield call("call_tool", name="get_prompt", arguments={"server": "none", "name": "x"})
    yield call("call_tool", name="get_resource", arguments={"server": "none", "uri": "x"})
    if mode == "legacy":
        yield client.send_ping
        yield lambda: client.set_logging_level("debug")
    for item in targets:
        name = item.names[0]
        match item.kind:
            case "t":
                yield call("tool_search", query=f"tx{item.code}")
                yield call("tool_search", query=f"select:{name}")
                yield call("describe_tools", names=[name])
                yield call("call_tool", name=name, arguments={})
                yield call(name)
            case "p":
                yield lambda name=name: client.get_prompt(name)
                ref = types.PromptReference(type="ref/prompt", name=name)
                yield lambda ref=ref: client.complete(ref, {"name": "a", "value": "b"})
                wanted = {"server": item.server, "name": f"nm{item.code}"}
                yield call("call_tool", name="get_prompt", arguments=wanted)
            case _:
                address = item.names[1].replace("{id}", "7")
                yield lambda address=address: client.read_resource(address)
                refs = types.ResourceTemplateReference(type="ref/resource", uri=item.names[1])
                yield lambda refs=refs: client.complete(refs, {"name": "a", "value": "b"})
                if mode == "legacy":
                    yield lambda address=address: client.subscribe_resource(address)
                wanted = {"server": item.server, "uri": address}
                yield call("call_tool", name="get_resource", arguments=wanted)


async def receive_everything(
    running: Running, mode: str, targets: list[Item], recorder: Recorder
) -> list[Any]:
    """Send bob's requests; returns the results, and leaves all bytes in the recorder."""
    results: list[Any] = []
    async with connect(running, BOB, mode, recorder) as client:
        for request in requests(client, mode, targets):
            with suppress(MCPError):
                results.append(await request())
    return results


async def read_pages(running: Running, recorder: Recorder) -> tuple[dict[str, Any], str]:
    """Bob's `/health` and `/metrics`, after all other pages."""
    base = running.url.removesuffix("/mcp")
    headers = {"Authorization": f"Bearer {BOB}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60, transport=recorder) as http:
        for accept in ("text/html", "application/json", "text/plain"):
            await http.get(f"{base}/", headers={"Accept": accept})
        await http.get(f"{base}/health/extraction")
        await http.get(f"{base}/nothing/here")
        health = (await http.get(f"{base}/health")).json()
        return health, (await http.get(f"{base}/metrics")).text


def check_nothing_leaked(recorder: Recorder, oracle: Oracle) -> None:
    needles = oracle.needles
    for exchange in recorder.exchanges:
        # What the caller itself has sent may come back, for example in an error.
        found = [n for n in needles if n.search(exchange.response)]
        leaked = [n.pattern for n in found if not n.search(exchange.request)]
        assert leaked == [], (exchange.request, bytes(exchange.response), oracle.policy)


def check_reports(health: dict[str, Any], metrics: str, oracle: Oracle) -> None:
    listed = [name for name in oracle.servers if name != API]
    assert sorted(health["servers"]) == sorted(listed)
    for server in set(listed) & TOOLS.keys():
        row = health["servers"][server]
        assert row["tools"] == oracle.count(server)
        assert row["held"] == oracle.count(server) - oracle.count(server, has_later=False)
        assert row.get("prompts", 0) == oracle.count(server, "p")
        assert row.get("resources", 0) == oracle.count(server, "rm")
    named = set(re.findall(r'server="(\w+)"', metrics))
    assert named <= set(listed)


def check_reach(results: list[Any], oracle: Oracle) -> None:
    """What is admitted is there: a gateway that shows nothing would leak nothing either."""
    prompts = next(r for r in results if isinstance(r, types.ListPromptsResult)).prompts
    assert {p.name for p in prompts} == {i.names[0] for i in oracle.visible if i.kind == "p"}
    resources = next(r for r in results if isinstance(r, types.ListResourcesResult)).resources
    assert {r.uri for r in resources} == {i.names[1] for i in oracle.visible if i.kind == "r"}


_names = st.sampled_from([item.names[0] for item in ITEMS if item.number < 4])
_patterns = st.one_of(
    st.sampled_from([f"{server}__*" for server in SERVERS]),
    _names,
    st.sampled_from(["*", "*paa", "*__nm*t*", "*pab", "urbetaraa://*", "get_*", "*mm*"]),
)
policies = st.builds(
    AccessPolicy,
    servers=st.lists(st.sampled_from(SERVERS), max_size=3, unique=True).map(tuple),
    tools=st.lists(_patterns, max_size=3, unique=True).map(tuple),
    deny=st.lists(_patterns, max_size=4, unique=True).map(tuple),
    read_only=st.booleans(),
)
# Tools with the numbers 0 and 1 change their server when they are called.
_targets = st.lists(
    st.sampled_from([i for i in ITEMS if i.kind != "t" or 2 <= i.number < 5]),
    min_size=4,
    max_size=4,
    unique=True,
)


# Some methods exist only in the older generation of the protocol, and the SDK warns of that.
@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
async def test_no_policy_lets_a_caller_receive_a_hidden_name_word_or_number(
    serve: Serve, tmp_path: Path
) -> None:
    servers, tables = configuration(tmp_path)
    loop = asyncio.get_running_loop()
    async with serve(
        servers, quiet_seconds=0, gateway={"start_wait_seconds": 1}, **tables
    ) as running:
        await start_all(running)

        async def check(policy: AccessPolicy, targets: list[Item]) -> None:
            await use_policy(running, policy)
            oracle = Oracle(policy)
            for mode in MODES:
                recorder = Recorder()
                results = await receive_everything(running, mode, targets, recorder)
                check_nothing_leaked(recorder, oracle)
                check_reach(results, oracle)
            recorder = Recorder()
            health, metrics = await read_pages(running, recorder)
            check_nothing_leaked(recorder, oracle)
            check_reports(health, metrics, oracle)

        @given(policy=policies, targets=_targets)
        @settings(
            max_examples=15,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            # Without shrinking, which would take minutes with real processes.
            phases=(Phase.generate,),
        )
        def check_policy(policy: AccessPolicy, targets: list[Item]) -> None:
            asyncio.run_coroutine_threadsafe(check(policy, targets), loop).result(60)

        await asyncio.to_thread(check_policy)


async def wait_for_servers(running: Running) -> None:
    """Wait until every server is listed and in the catalog, with its prompts and resources."""
    servers = running.gateway.upstreams
    async with asyncio.timeout(60), connect(running, ALICE, "legacy") as alice:
        while servers.absent_servers() or not await lists_content(running):
            await alice.call_tool("tool_search", {"query": "anything"})


async def lists_content(running: Running) -> bool:
    """Whether the tools that get prompts and resources are those of all servers."""
    now = await running.gateway.upstreams.content.tools()
    return [running.gateway.box.catalog.get(tool.name) for tool in now] == now


async def start_all(running: Running) -> None:
    """Wait for all servers, one of which fails; then let each add a tool, which is held."""
    gateway = running.gateway
    async with asyncio.timeout(60), connect(running, ALICE, "legacy") as alice:
        while not all(s.is_listed or s.status == "failing" for s in gateway.upstreams.states()):
            await alice.call_tool("tool_search", {"query": "anything"})
        for server in TOOLS:
            called = await alice.call_tool(f"{server}__nm{code(server, 't', 0)}", {})
            assert text(called) == f"rs{code(server, 't', 0)}"
        while len(gateway.upstreams.held_tools.catalog) < len(TOOLS):
            await alice.call_tool("tool_search", {"query": "anything"})


QUERIES = [
    *(f"{verb} the {noun}" for verb in ("handle", "send", "delete") for noun in ("thing", "list")),
    *(f"handles the tx{code('beta', 't', number)} of things" for number in range(3)),
    *(f"tx{code('alpha', 't', number)}" for number in range(3)),
    *("handles", "of", "thngs", "select:nope", "/nm/", "+handles things", "has the", "prompt"),
]


@pytest.mark.parametrize("mode", MODES)
async def test_answers_are_the_same_whether_hidden_servers_exist_or_not(
    serve: Serve, tmp_path: Path, mode: str
) -> None:
    """So nobody can test for a word of a hidden tool by comparing scores, order or notes."""
    servers, _ = configuration(tmp_path)
    policies = {"some": {"deny": ["beta__*", "crowd__*"]}}
    hidden = {name: servers[name] for name in ("beta", "crowd")}

    async def ask(configured: dict[str, Any]) -> list[list[str]]:
        async with serve(configured, quiet_seconds=0, policies=policies, **TOKENS) as running:
            await wait_for_servers(running)
            async with connect(running, BOB, mode) as bob:
                answers = await ask_all(bob, running)
        # Conversations are stored. Both begin a new one.
        shutil.rmtree(running.home)
        return answers

    async def ask_all(bob: Client, running: Running) -> list[list[str]]:
        answers = [(await bob.list_tools()).model_dump_json()]
        answers += [text(await bob.call_tool("tool_search", {"query": q})) for q in QUERIES]
        scores = [str(e.scores) for e in running.events if isinstance(e, DiscoveryResultEvent)]
        return [answers, scores[-len(QUERIES) :]]

    alpha = {"alpha": servers["alpha"]}
    assert await ask({**hidden, **alpha}) == await ask(alpha)


async def subscribe(client: Client, address: str) -> None:
    request = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=address))
    await client.session.send_request(request, types.EmptyResult)


async def test_a_subscriber_hears_only_of_resources_that_its_policy_admits_now(
    serve: Serve, tmp_path: Path
) -> None:
    servers, tables = configuration(tmp_path)
    servers = {name: servers[name] for name in ("alpha", "beta")}
    heard: list[str] = []
    done = asyncio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            heard.append(message.params.uri)
            if message.params.uri == uri("alpha", "r", 0):
                done.set()

    async with serve(servers, quiet_seconds=0, **tables) as running:
        await wait_for_servers(running)
        await use_policy(running, AccessPolicy())
        async with (
            connect(running, ALICE, "legacy") as alice,
            connect(running, BOB, "legacy", message_handler=hear) as bob,
        ):
            for name in servers:
                await subscribe(bob, uri(name, "r", 0))
            await use_policy(running, AccessPolicy(deny=("beta__*",)))
            for name in ("beta", "alpha"):
                called = await alice.call_tool(f"{name}__nm{code(name, 't', 1)}", {})
                assert not called.is_error
            async with asyncio.timeout(30):
                await done.wait()
    assert heard == [uri("alpha", "r", 0)]


async def test_a_stream_hears_only_of_resources_that_its_policy_admits_now(
    serve: Serve, tmp_path: Path
) -> None:
    servers, tables = configuration(tmp_path)
    servers = {name: servers[name] for name in ("alpha", "beta")}
    first, hidden = uri("alpha", "r", 0), uri("beta", "r", 1)
    addresses = [first, uri("beta", "r", 0), hidden, f"{hidden}#a", "urnowhere://x"]
    async with serve(servers, quiet_seconds=0, **tables) as running, asyncio.timeout(60):
        await wait_for_servers(running)
        await use_policy(running, AccessPolicy(deny=(hidden,)))
        async with (
            connect(running, ALICE, MODES[1]) as alice,
            connect(running, BOB, MODES[1]) as bob,
            bob.listen(resource_subscriptions=addresses) as events,
        ):
            assert events.honored.resource_subscriptions == addresses[:2]
            await use_policy(running, AccessPolicy(deny=("beta__*",)))
            for name in ("beta", "alpha"):
                await alice.call_tool(f"{name}__nm{code(name, 't', 1)}", {})
            assert (await anext(events)).uri == first  # type: ignore[union-attr]


async def test_only_the_principals_whose_tools_change_are_notified(
    serve: Serve, tmp_path: Path
) -> None:
    servers, tables = configuration(tmp_path)
    policies = {
        "all": {"principals": ["alice"]},
        "some": {"principals": ["bob"], "deny": ["beta__*"]},
    }
    options: Any = {"gateway": {"profile": "everything"}, "policies": policies, **tables}
    heard: dict[str, int] = {"alice": 0, "bob": 0}
    alpha = {"alpha": servers["alpha"]}

    async def listen(client: Client, name: str, ready: asyncio.Event) -> None:
        async with client.listen(tools_list_changed=True) as events:
            ready.set()
            async for _ in events:
                heard[name] += 1

    async with (
        serve(alpha, quiet_seconds=0, **options) as running,
        connect(running, ALICE, MODES[1]) as alice,
        connect(running, BOB, MODES[1]) as bob,
    ):
        while not all(s.is_listed for s in running.gateway.upstreams.states()):
            await alice.list_tools(cache_mode="bypass")
        ready = [asyncio.Event(), asyncio.Event()]
        tasks = [
            asyncio.create_task(listen(alice, "alice", ready[0])),
            asyncio.create_task(listen(bob, "bob", ready[1])),
        ]
        async with asyncio.timeout(60):
            await asyncio.gather(*(each.wait() for each in ready))
            document = json.loads(running.path.read_text())
            changed = {**document, "mcpServers": {**alpha, "beta": servers["beta"]}}
            running.path.write_text(json.dumps(changed))
            while not heard["alice"]:
                await bob.list_tools(cache_mode="bypass")
            await bob.list_tools(cache_mode="bypass")
            assert heard["bob"] == 0
            both = {**changed["mcpServers"], "crowd": servers["crowd"]}
            running.path.write_text(json.dumps({**changed, "mcpServers": both}))
            while not heard["bob"]:
                await bob.list_tools(cache_mode="bypass")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


WAYS_TO_WRITE = (
    "{}",
    "{}#a",
    "{}?a",
    "{} ",
    "\t{}",
    "{}%20",
    "{}%23a",
    "{}%2523a",
    "{}%00",
    "{}/",
    "{}/.",
    "{}/../listed",
)


@asynccontextmanager
async def serve_covered(serve: Serve, policy: AccessPolicy) -> AsyncIterator[Running]:
    """A server with a template that covers a resource that it lists, and a policy for bob."""
    server = guarded("alpha", 3)
    server["args"].append("covered")
    async with serve({"alpha": server}, quiet_seconds=0, **TOKENS) as running:
        await wait_for_servers(running)
        await use_policy(running, policy)
        yield running


async def check_refused(client: Client, mode: str, address: str) -> None:
    """Neither a read, nor a call, nor a subscription reaches a URI."""
    with pytest.raises(MCPError, match="not found"):
        await client.read_resource(address)
    wanted = {"server": "alpha", "uri": address}
    called = await client.call_tool("call_tool", {"name": "get_resource", "arguments": wanted})
    assert "has no resource" in text(called)
    if mode == "legacy":
        with pytest.raises(MCPError, match="not found"):
            await subscribe(client, address)


@pytest.mark.parametrize("mode", MODES)
async def test_a_template_does_not_open_a_resource_that_is_denied(serve: Serve, mode: str) -> None:
    template = uri("alpha", "m", 0)
    listed, other = (template.replace("{id}", each) for each in ("listed", "other"))
    async with (
        serve_covered(serve, AccessPolicy(deny=("alpha__covered",))) as running,
        connect(running, BOB, mode) as bob,
        connect(running, ALICE, mode) as alice,
    ):
        assert (await bob.read_resource(other)).contents
        assert (await bob.read_resource(f"{other}?a#b")).contents
        assert (await alice.read_resource(f"{listed}#a")).contents
        encoded = listed.replace("listed", "l%69sted")
        ways = [way.format(listed) for way in WAYS_TO_WRITE]
        for address in (*ways, encoded, f"{encoded}#a", listed.replace("ur", "UR", 1)):
            await check_refused(bob, mode, address)


@pytest.mark.parametrize("mode", MODES)
async def test_a_denied_uri_is_refused_though_a_template_covers_it(serve: Serve, mode: str) -> None:
    start = uri("alpha", "m", 0).replace("{id}", "")
    policy = AccessPolicy(deny=(f"{start}private*", f"{start}closed"))
    async with (
        serve_covered(serve, policy) as running,
        connect(running, BOB, mode) as bob,
        connect(running, ALICE, mode) as alice,
    ):
        assert (await bob.read_resource(f"{start}public")).contents
        assert (await bob.read_resource(f"{start}public;v=1")).contents
        assert (await alice.read_resource(f"{start}private-1")).contents
        assert (await alice.read_resource(f"{start}closed;v=1")).contents
        for name in (
            "private-1",
            "Private-1",
            "%70rivate-1",
            "/private-1",
            "./private-1",
            " private",
            "closed",
            "closed;v=1",  # with a parameter, which a server may ignore
            "closed%3Bv=1",
        ):
            await check_refused(bob, mode, f"{start}{name}")


async def test_over_stdio_the_policy_of_an_anonymous_caller_holds(tmp_path: Path) -> None:
    servers, tables = configuration(tmp_path)
    tables = {"openapi": tables["openapi"], "policies": {"some": {"deny": ["beta__*"]}}}
    path = tmp_path / "mcp.json"
    names = ("alpha", "beta")
    path.write_text(json.dumps({"mcpServers": {n: servers[n] for n in names}, **tables}))
    environment = {"TOOLSCOUT_HOME": str(tmp_path / "home"), "TOOLSCOUT_EMBEDDER": "none"}
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "toolscout.cli", "serve", "--stdio", "--config", str(path)],
        env={**os.environ, **environment},
    )
    for mode in MODES:
        async with Client(stdio_client(command), mode=mode) as client, asyncio.timeout(60):
            while not (prompts := (await client.list_prompts(cache_mode="bypass")).prompts):
                await client.call_tool("tool_search", {"query": "anything"})
            found = await client.call_tool("tool_search", {"query": "handles things"})
            received = text(found) + repr(prompts) + repr(await client.list_resources())
            assert "alpha" in received
            assert "beta" not in received
            with pytest.raises(MCPError, match="Unknown prompt"):
                await client.get_prompt(f"beta__nm{code('beta', 'p', 0)}")
