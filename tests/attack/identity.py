"""Identity: callers that are not who they claim to be."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack
from typing import Any

import httpx2
from tests.attack.lab import HEADERS, TOKENS, Lab, Target, bad, initialize, read_to_end, rpc
from tests.attack.table import Outcome, attack
from tests.gateway.certificates import write_certificate
from tests.gateway.key_server import key_server, sign
from tests.gateway.test_tokens import ISSUER, JWT_TABLE, KEY, OTHER_KEY, refused_tokens

NONE_JWT = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ."


@attack("Missing, shortened, extended and forged bearer tokens", is_quick=True)
async def forge_tokens(lab: Lab) -> Outcome:
    secret = TOKENS["ann"]
    forged = (
        "",
        "ann",
        secret[:-1],
        f"{secret}x",
        secret.upper(),
        f" {secret}",
        NONE_JWT,
        "x" * 9_999,
    )
    async with (
        lab.gateway({"ok": bad("ok")}, auth={"tokens": TOKENS}) as target,
        httpx2.AsyncClient(headers=HEADERS) as http,
    ):
        held = 0
        for each in forged:
            login = {"authorization": f"Bearer {each}"} if each else {}
            answer = await http.post(target.url, json=initialize(), headers=login)
            held += lab.note(answer.status_code == 401, each)
        good = await http.post(
            target.url, json=initialize(), headers={"authorization": f"Bearer {secret}"}
        )
        return len(forged) + 1, held + lab.note(good.status_code == 200)


def login_key(target: Target) -> str:
    """The key of the login link that the gateway printed."""
    return re.findall(r"/login\?key=(\S+)", target.log.read_text())[0]


def jwt_tables(issuer: str) -> dict[str, Any]:
    return {"auth": {"issuer": issuer, "audience": "toolscout", "role_claim": "roles"}}


async def send_token(http: httpx2.AsyncClient, target: Target, token: str) -> httpx2.Response:
    login = {"authorization": f"Bearer {token}"}
    return await http.post(target.url, json=initialize(), headers=login)


@attack("JSON Web Tokens with wrong claims, keys, algorithms and headers", is_quick=True)
async def forge_claims(lab: Lab) -> Outcome:
    async with (
        lab.gateway({"ok": bad("ok")}, auth={"jwt": JWT_TABLE}) as target,
        httpx2.AsyncClient(headers=HEADERS) as http,
    ):
        tokens = {name: token for name, (token, _) in refused_tokens().items()}
        answers = {name: await send_token(http, target, each) for name, each in tokens.items()}
        held = sum(lab.note(each.status_code == 401, name) for name, each in answers.items())
        good = await send_token(http, target, sign(KEY, {"iss": ISSUER}))
        return len(answers) + 1, held + lab.note(good.status_code == 200)


@attack("Invented key ids, to make the gateway flood its issuer", is_quick=True)
async def invent_key_ids(lab: Lab) -> Outcome:
    with key_server() as issuer:
        issuer.publish(one=KEY)
        async with (
            lab.gateway({"ok": bad("ok")}, **jwt_tables(issuer.base)) as target,
            httpx2.AsyncClient(headers=HEADERS) as http,
        ):
            tokens = [sign(OTHER_KEY, {"iss": issuer.base}, kid=str(n)) for n in range(100)]
            answers = [await send_token(http, target, token) for token in tokens]
            held = sum(lab.note(each.status_code == 401, each) for each in answers)
            return len(answers) + 1, held + lab.note(issuer.asked["/keys"] == 1)


@attack("An admin's role, claimed with values of the wrong type", is_quick=True)
async def claim_role(lab: Lab) -> Outcome:
    claims: tuple[Any, ...] = (
        True,
        1,
        {"admin": True},
        [["admin"]],
        "ADMIN",
        "user admin",
        ["admin "],
        [{"admin": "admin"}],
    )
    with key_server() as issuer:
        issuer.publish(one=KEY)
        policies = {"none": {"deny": ["*"]}}
        async with (
            lab.gateway({"ok": bad("ok")}, policies=policies, **jwt_tables(issuer.base)) as target,
            httpx2.AsyncClient() as http,
        ):

            async def is_full(**claims: Any) -> bool:
                token = sign(KEY, {"iss": issuer.base, **claims})
                login = {"authorization": f"Bearer {token}"}
                return "parts" in (await http.get(f"{target.base}/health", headers=login)).json()

            held = [not await is_full(roles=claim) for claim in claims]
            held += [not await is_full(role="admin", is_admin=True, scope="admin")]
            held += [await is_full(roles=["admin"])]
            return len(held), sum(lab.note(each, number) for number, each in enumerate(held))


@attack("A login link again, guessed keys, and a session id chosen by a stranger", is_quick=True)
async def replay_link(lab: Lab) -> Outcome:
    async with (
        lab.gateway({"ok": bad("ok")}, auth={"tokens": TOKENS}) as target,
        httpx2.AsyncClient(base_url=target.base) as http,
    ):
        key = login_key(target)
        wrong = ["", key[:-1], f"{key}x", key.swapcase(), "x" * 9_000]
        answers = [await http.post("/login", data={"key": each}) for each in wrong]
        opened = await http.post("/login", data={"key": key})
        http.cookies.clear()
        answers += [await http.post("/login", data={"key": key}) for _ in range(5)]
        held = sum(lab.note(each.status_code == 403, each) for each in answers)
        name = f"toolscout_{target.address[1]}"
        for value in ("", "operator", key, "x" * 4_000):
            page = await http.get("/metrics", headers={"cookie": f"{name}={value}"})
            answers.append(page)
            held += lab.note(page.status_code == 401, value)
        return len(answers) + 1, held + lab.note(opened.status_code == 303)


@attack("The cookie of a browser at /mcp, and forms of other sites", is_quick=True)
async def ride_session(lab: Lab) -> Outcome:
    async with (
        lab.gateway({"ok": bad("ok")}, auth={"tokens": TOKENS}) as target,
        httpx2.AsyncClient(base_url=target.base) as http,
    ):
        await http.post("/login", data={"key": login_key(target)})
        page = (await http.get("/", headers={"accept": "text/html"})).text
        csrf = re.findall(r'name="csrf" value="([^"]+)"', page)[0]
        evil = {"origin": "https://evil.example"}
        calls = [
            await http.post("/mcp", json=rpc(method), headers=HEADERS)
            for method in ("initialize", "tools/list", "tools/call")
        ]
        forms = [
            await http.post("/logout"),
            await http.post("/logout", data={"csrf": csrf[:-1]}),
            await http.post("/logout", data={"csrf": csrf}, headers=evil),
            await http.post("/logout", data={"csrf": csrf}, headers={"origin": "null"}),
        ]
        held = sum(lab.note(each.status_code == 401, each) for each in calls)
        held += sum(lab.note(each.status_code == 403, each) for each in forms)
        still = await http.get("/metrics")
        return len(calls) + len(forms) + 1, held + lab.note(still.status_code == 200)


@attack("Sockets that never finish their TLS handshake", is_quick=True)
async def stall_handshakes(lab: Lab) -> Outcome:
    cert, key = write_certificate(lab.folder)
    options = ["--tls-cert", str(cert), "--tls-key", str(key)]
    limits = {"connections": 50, "connections_per_address": 50, "header_seconds": 0.5}
    async with lab.gateway({"ok": bad("ok")}, options=options, limits=limits) as target:
        starts = (b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 100)
        async with AsyncExitStack() as stack:
            opened = [
                await stack.enter_async_context(target.connect(starts[number % len(starts)]))
                for number in range(200)
            ]
            alive = await target.is_alive()
            ends = await asyncio.gather(*(read_to_end(reader) for reader, _ in opened))
        return len(ends) + 1, sum(lab.note(bool(end)) for end in ends) + lab.note(alive)
