"""Isolation: callers that reach for what belongs to others."""

from __future__ import annotations

import httpx2
from tests.attack.lab import (
    HEADERS,
    TOKENS,
    UPSTREAMS,
    VERSION,
    Lab,
    bad,
    initialize,
    read_text,
    rpc,
)
from tests.attack.table import Outcome, attack
from tests.upstreams.processes import free_port, running


@attack("The session of another principal", is_quick=True)
async def take_session(lab: Lab) -> Outcome:
    async with (
        lab.gateway({"ok": bad("ok")}, auth={"tokens": TOKENS}) as target,
        httpx2.AsyncClient(headers={**HEADERS, "mcp-protocol-version": VERSION}) as http,
    ):
        ann, bob = ({"authorization": f"Bearer {TOKENS[name]}"} for name in ("ann", "bob"))
        opened = await http.post(target.url, json=initialize(), headers=ann)
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        answers = [
            await http.post(target.url, json=rpc(method), headers={**bob, **session})
            for method in ("tools/list", "ping", "prompts/list")
        ]
        answers.append(await http.delete(target.url, headers={**bob, **session}))
        still = await http.post(target.url, json=rpc("tools/list"), headers={**ann, **session})
        held = sum(lab.note(each.status_code == 404, each) for each in answers)
        return len(answers) + 1, held + lab.note(still.status_code == 200)


async def _log_in(link: str) -> int:
    """Open a link to a login page, continue, and follow to the end; the last status."""
    async with httpx2.AsyncClient(follow_redirects=True) as browser:
        page, _, ticket = link.partition("?ticket=")
        await browser.get(link)
        return (await browser.post(page, data={"ticket": ticket})).status_code


@attack("The login of another principal, at its server and at another one", is_quick=True)
async def use_login(lab: Lab) -> Outcome:
    ports = (free_port(), free_port())
    addresses = [f"http://127.0.0.1:{port}" for port in ports]
    servers = {
        name: {"url": f"{base}/mcp", "oauth": {"per_principal": True}}
        for name, base in zip("ab", addresses, strict=True)
    }
    with running(str(UPSTREAMS / "accounts.py"), *map(str, ports)):
        async with lab.gateway(servers, auth={"tokens": TOKENS}) as target:

            async def call(principal: str, server: str) -> str:
                async with target.client(token=TOKENS[principal]) as client:
                    return read_text(await client.call_tool(f"{server}__whoami", {}))

            said = await call("ann", "a")
            (link,) = [word for word in said.split() if "?ticket=" in word]
            await _log_in(link)
            own = await call("ann", "a")
            refused = [await call("bob", "a"), await call("ann", "b"), await call("bob", "b")]
            again = [await _log_in(link), await _log_in(link.replace("/connect/a", "/connect/b"))]
            stored = b"".join(p.read_bytes() for p in target.home.rglob("*") if p.is_file())
            async with httpx2.AsyncClient() as http:
                first, second = [(await http.get(f"{base}/seen")).json() for base in addresses]
    held = [
        own.startswith("login ") and first["used"] == [own.removeprefix("login ")],
        *("login" in text and not text.startswith("login ") for text in refused),
        *(status == 403 for status in again),
        not second["logins"],
        b"access_token" not in stored and b"refresh_token" not in stored,
    ]
    return len(held), sum(lab.note(each, number) for number, each in enumerate(held))
