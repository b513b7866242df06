"""One suite for both places of logins: what holds for files holds for PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.store.postgres_server import Server, shared_server

from toolscout.config import Config
from toolscout.errors import StoreError
from toolscout.sources.mcp.grant_files import GrantTexts
from toolscout.sources.mcp.oauth_tokens import Grant, OAuthTokenStore, open_grant_texts
from toolscout.sources.mcp.rekey import rekey_logins
from toolscout.store.state_key import StateKeys

URL = "https://x.example/mcp"
KEYS = ("k" * 32, "n" * 32)
Open = Callable[..., OAuthTokenStore]


def grant(principal: str = "ann", **changes: Any) -> Grant:
    facts = {"token_endpoint": f"{URL}/token", "client_id": "c", "refresh_token": "r3fresh-token"}
    return Grant(url=URL, principal=principal, **{"access_token": "s3cret", **facts, **changes})


@pytest.fixture(params=["files", "postgres"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> Config:
    store = shared_server().clean_database() if request.param == "postgres" else "sqlite"
    return Config.read(home=str(tmp_path), store=store)


@pytest.fixture
def texts(config: Config) -> Iterator[GrantTexts]:
    opened = open_grant_texts(config)
    yield opened
    opened.close()


@pytest.fixture
def logins(config: Config) -> Iterator[Open]:
    """Opens the same logins each time, as another gateway does, with the same key or another."""
    opened: list[OAuthTokenStore] = []

    def build(key: str = KEYS[0]) -> OAuthTokenStore:
        keys = StateKeys(config.state_folder, environment={"TOOLSCOUT_KEY": key})
        opened.append(OAuthTokenStore(open_grant_texts(config), keys=keys))
        return opened[-1]

    yield build
    for store in opened:
        store.close()


def test_a_login_of_one_gateway_is_used_by_another_and_never_in_clear(
    logins: Open, texts: GrantTexts
):
    logins().save(grant())
    assert logins().load(URL, "ann") == grant()
    assert logins().load(URL) is None
    assert logins().load_all() == [grant()]
    (name,) = texts.names()
    content = texts.read(name)
    assert content is not None
    for secret in (b"s3cret", b"r3fresh", b"x.example", b"ann"):
        assert secret not in content


def test_a_saved_login_replaces_the_one_before_and_a_forgotten_one_is_gone(logins: Open):
    one, other = logins(), logins()
    one.save(grant())
    other.save(grant(access_token="newer"))
    assert one.load(URL, "ann") == grant(access_token="newer")
    assert one.forget(URL, "ann")
    assert not other.forget(URL, "ann")
    assert other.load(URL, "ann") is None
    assert other.explain_unreadable(URL, "ann") == ""


def test_a_login_that_takes_the_place_of_another_is_not_used(logins: Open, texts: GrantTexts):
    store = logins()
    store.save(grant("ann"))
    (ann,) = texts.names()
    store.save(grant("bob"))
    (bob,) = set(texts.names()) - {ann}
    texts.write(bob, texts.read(ann) or b"")
    assert store.load(URL, "bob") is None
    assert "changed or moved" in store.explain_unreadable(URL, "bob")


def test_all_logins_are_encrypted_again_with_a_new_key(
    config: Config, logins: Open, monkeypatch: pytest.MonkeyPatch
):
    for name in ("ann", "bob"):
        logins().save(grant(name))
    monkeypatch.setenv("TOOLSCOUT_KEY", f"{KEYS[1]} {KEYS[0]}")
    assert rekey_logins(config).logins == 2
    assert logins(KEYS[1]).load(URL, "bob") == grant("bob")
    assert logins(KEYS[0]).load(URL, "bob") is None


def test_a_gateway_with_another_key_destroys_no_login_of_the_others(
    logins: Open, texts: GrantTexts, config: Config
):
    logins().save(grant())
    (name,) = texts.names()
    before = texts.read(name)
    lost = logins(KEYS[1])
    assert lost.load(URL, "ann") is None
    assert "which is not in the environment variable" in lost.explain_unreadable(URL, "ann")
    if config.store == "sqlite":
        lost.save(grant(access_token="new"))
        aside = config.state_folder / "logins" / f"{name}.unreadable"
        assert aside.read_bytes() == before
    else:
        with pytest.raises(StoreError, match="cannot read") as raised:
            lost.save(grant(access_token="new"))
        assert "same TOOLSCOUT_KEY" in raised.value.hint
        assert texts.read(name) == before
        assert logins().load(URL, "ann") == grant()


async def test_one_gateway_at_a_time_renews_a_login(logins: Open):
    stores = [logins(), logins(), logins()]
    running = 0
    order: list[int] = []

    async def renew(number: int) -> None:
        nonlocal running
        async with stores[number % 3].lock(URL, "ann"):
            running += 1
            assert running == 1
            await asyncio.sleep(0.01)
            order.append(number)
            running -= 1

    async with asyncio.timeout(30):
        await asyncio.gather(*map(renew, range(9)))
        assert sorted(order) == [*range(9)]
        async with stores[0].lock(URL, "ann"), stores[1].lock(URL, "bob"):
            pass


async def test_a_cancelled_renewal_frees_its_lock(logins: Open):
    one, other = logins(), logins()

    async def wait(store: OAuthTokenStore) -> None:
        async with store.lock(URL, "ann"):
            await asyncio.Event().wait()

    for store in (one, other):
        for seconds in (0.0, 0.005, 0.1):
            task = asyncio.create_task(wait(store))
            await asyncio.sleep(seconds)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    async with asyncio.timeout(10), other.lock(URL, "ann"):
        pass


async def test_a_lock_that_is_held_too_long_is_an_error(texts: GrantTexts, config: Config):
    other = open_grant_texts(config)
    async with texts.hold_async("name", timeout_seconds=5):
        with pytest.raises(StoreError):
            async with other.hold_async("name", timeout_seconds=0.1):
                pass
    async with other.hold_async("name", timeout_seconds=5):
        pass
    other.close()


@pytest.mark.slow
def test_a_login_is_used_while_the_database_is_away(tmp_path: Path):
    server = Server().start()
    try:
        settings = Config.read(home=str(tmp_path), store=server.new_database())
        store = OAuthTokenStore.of(settings)
        store.save(grant())
        server.kill()
        assert store.load(URL, "ann") == grant()
        assert "cannot be reached" in store.explain_unreadable(URL, "bob")
        with pytest.raises(StoreError, match="cannot be reached"):
            store.save(grant(access_token="new"))
        store.close()
    finally:
        server.stop()
