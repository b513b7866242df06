"""A login at one gateway is used by all, and its rotating token is renewed once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.fleet.replicas import Fleet, call, text
from tests.gateway.test_logins import agrees
from tests.gateway.test_principal_logins import ACCOUNTS, ask, wait_until_served
from tests.upstreams.processes import free_port, running

from toolscout.config import Config
from toolscout.sources.mcp.login import log_in
from toolscout.sources.mcp.oauth_tokens import OAuthTokenStore
from toolscout.sources.mcp.servers import Server


@pytest.fixture
def url() -> Iterator[str]:
    port = free_port()
    with running(ACCOUNTS, str(port)):
        wait_until_served(f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}/mcp"


async def test_replicas_share_a_login_and_renew_its_token_once(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLSCOUT_KEY", "k" * 32)
    fleet = Fleet(tmp_path, {"safe": {"url": url}})
    grant = await log_in(Server(name="safe", transport="http", url=url), show_url=agrees)
    logins = OAuthTokenStore.of(Config.read(home=str(tmp_path / "x"), store=fleet.database))
    await asyncio.to_thread(logins.save, grant)
    with fleet.replicas("a", "b") as replicas:
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(r.client()) for r in replicas]
            for client in clients:
                assert text(await call(client, "safe__whoami")) == f"login {grant.client_id}"
            for _ in range(3):
                before = ask(url, "/seen")["renewals"]
                ask(url, "/expire", "POST")
                answers = await asyncio.gather(
                    *(call(client, "safe__whoami") for client in clients for _ in range(3))
                )
                assert {text(answer) for answer in answers} == {f"login {grant.client_id}"}
                assert ask(url, "/seen")["renewals"] == before + 1
    renewed = logins.load(url)
    assert renewed is not None
    assert renewed.refresh_token != grant.refresh_token
    logins.close()
