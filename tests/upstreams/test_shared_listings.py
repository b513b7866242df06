"""Listings that gateways share: a server that one of them has listed is known to the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import mcp_types as types
import psycopg
import pytest
from tests.store.postgres_server import Server, shared_server

from toolscout.config import Config
from toolscout.sources.mcp.listing import Listing
from toolscout.sources.mcp.listing_cache import SPACE, ListingCache

Open = Callable[[], ListingCache]


def listing(*names: str) -> Listing:
    tools = [types.Tool(name=name, input_schema={"type": "object"}) for name in names]
    return Listing(tools=tuple(tools), instructions="Żółw \0 and more", protocol="2025-11-25")


@pytest.fixture(params=["sqlite", "postgres"])
def open_again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens the same place again each time: the same folder, or the same database elsewhere."""
    url = shared_server().clean_database() if request.param == "postgres" else ""
    opened: list[ListingCache] = []

    def build() -> ListingCache:
        home = tmp_path / (f"machine-{len(opened)}" if url else "one")
        opened.append(ListingCache.of(Config(store=url or "sqlite", home=home)))
        return opened[-1]

    yield build
    for each in opened:
        each.close()


def test_a_listing_comes_back_unchanged_for_its_own_configuration(open_again: Open) -> None:
    open_again().save("crm", "abc", listing("find", "merge"))
    assert open_again().load("crm", "abc") == listing("find", "merge")
    assert open_again().load("crm", "other") is None
    assert open_again().load("mail", "abc") is None


def test_the_last_listing_replaces_the_others(open_again: Open) -> None:
    first, second = open_again(), open_again()
    first.save("crm", "abc", listing("find"))
    second.save("crm", "abc", listing("find", "merge"))
    assert first.load("crm", "abc") == listing("find", "merge")
    first.save("crm", "abc", listing())
    assert second.load("crm", "abc") == listing()
    assert open_again().load("crm", "abc") == listing()


def shared(url: str, home: Path) -> ListingCache:
    return ListingCache.of(Config(store=url, home=home))


def test_a_damaged_listing_of_the_database_is_as_none_and_is_replaced(tmp_path: Path) -> None:
    url = shared_server().clean_database()
    with closing(shared(url, tmp_path / "a")) as one, closing(shared(url, tmp_path / "b")) as other:
        one.save("crm", "abc", listing("find"))
        with psycopg.connect(url) as sql:
            sql.execute("UPDATE toolscout_records SET text = '{}' WHERE space = %s", (SPACE,))
        assert one.load("crm", "abc") == listing("find")
        assert other.load("crm", "abc") is None
        other.save("crm", "abc", listing("merge"))
        assert one.load("crm", "abc") == listing("merge")


def test_files_from_before_the_database_are_added_to_it(tmp_path: Path) -> None:
    url = shared_server().clean_database()
    with closing(shared("sqlite", tmp_path / "a")) as before:
        before.save("crm", "abc", listing("find"))
    with closing(shared(url, tmp_path / "a")) as one, closing(shared(url, tmp_path / "b")) as other:
        assert one.load("crm", "abc") == listing("find")
        assert other.load("crm", "abc") == listing("find")


def test_without_its_database_a_gateway_has_what_it_saw(tmp_path: Path) -> None:
    url = shared_server().clean_database()
    with closing(shared(url, tmp_path / "a")) as one, closing(shared(url, tmp_path / "b")) as other:
        one.save("crm", "abc", listing("find"))
        other.load("crm", "abc")
    away = "postgresql://postgres@127.0.0.1:1/nowhere"
    for machine in ("a", "b"):
        with closing(shared(away, tmp_path / machine)) as alone:
            assert alone.load("crm", "abc") == listing("find")
            alone.save("crm", "abc", listing("merge"))
            assert alone.load("crm", "abc") == listing("merge")


def test_a_frozen_database_is_waited_for_once(tmp_path: Path) -> None:
    server = Server().start()
    try:
        with closing(shared(server.new_database(), tmp_path)) as cache:
            cache.save("crm", "abc", listing("find"))
            server.freeze()
            started = time.monotonic()
            for _ in range(5):
                assert cache.load("crm", "abc") == listing("find")
            assert time.monotonic() - started < 4
            server.thaw()
    finally:
        server.stop()
