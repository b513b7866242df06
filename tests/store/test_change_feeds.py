"""One suite for every change feed, and what holds when a server goes away in between."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from queue import Empty, Queue
from threading import Event

import psycopg
import pytest
from tests.store.postgres_server import Server, shared_server

from toolscout.errors import StoreError
from toolscout.store.change_feed import MISSED, Change, ChangeFeed, MemoryFeed
from toolscout.store.postgres_feed import POLL_SECONDS, PostgresChanges, open_postgres_feed
from toolscout.store.sqlite_feed import open_sqlite_feed

SRC = str(Path(__file__).parents[2] / "src")
WAIT_SECONDS = 10.0
Make = Callable[[], ChangeFeed]

PUBLISHER = """
import sys
from toolscout.store.postgres_feed import open_postgres_feed
from toolscout.store.sqlite_feed import open_sqlite_feed

make = open_postgres_feed if sys.argv[1].startswith("postgresql") else open_sqlite_feed
feed = make(sys.argv[1])
for number in range(20):
    feed.publish("pins", f"{sys.argv[2]}-{number}")
feed.close()
"""


class Inbox:
    """Takes changes as a subscriber."""

    def __init__(self, feed: ChangeFeed) -> None:
        self._queue: Queue[Change] = Queue()
        self.unsubscribe = feed.subscribe(self._queue.put)

    def take(self, count: int = 1) -> list[Change]:
        return [self._queue.get(timeout=WAIT_SECONDS) for _ in range(count)]

    def is_empty(self) -> bool:
        return self._queue.empty()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where processes meet; empty if they cannot."""
    match request.param:
        case "memory":
            return ""
        case "sqlite":
            return str(tmp_path / "changes.db")
        case _:
            return shared_server().clean_database()


@pytest.fixture
def make(place: str) -> Iterator[Make]:
    opened: list[ChangeFeed] = []

    def build() -> ChangeFeed:
        # In memory there is one feed for all of the process.
        if not place and opened:
            return opened[0]
        feed: ChangeFeed = MemoryFeed() if not place else _open(place)
        opened.append(feed)
        return feed

    yield build
    for feed in opened:
        feed.close()


def _open(place: str) -> ChangeFeed:
    return (open_postgres_feed if place.startswith("postgresql") else open_sqlite_feed)(place)


def test_every_subscriber_gets_every_change_in_order(make: Make):
    first, second = make(), make()
    inboxes = [Inbox(first), Inbox(first), Inbox(second)]
    sent = [Change("pins", str(n)) for n in range(50)]
    for change in sent:
        first.publish(change.topic, change.payload)
    assert [inbox.take(50) for inbox in inboxes] == [sent] * 3


def test_a_subscriber_gets_what_is_published_after_it_subscribed(make: Make):
    feed, other = make(), make()
    other.publish("pins", "before")
    inbox = Inbox(feed)
    other.publish("pins", "after")
    assert inbox.take() == [Change("pins", "after")]


def test_changes_of_many_publishers_all_arrive_once(make: Make):
    inbox, feeds = Inbox(make()), [make(), make()]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: feeds[n % 2].publish("t", str(n)), range(200)))
    assert sorted(int(change.payload) for change in inbox.take(200)) == list(range(200))
    feeds[0].publish("t", "last")
    assert inbox.take() == [Change("t", "last")]


def test_a_large_payload_arrives_whole(make: Make):
    inbox, payload = Inbox(make()), "日本 " * 30_000
    make().publish("t", payload)
    assert inbox.take() == [Change("t", payload)]


def test_a_subscriber_that_left_or_failed_stops_no_other(make: Make):
    feed = make()
    gone, kept = Inbox(feed), Queue[Change]()

    def fail(_: Change) -> None:
        raise RuntimeError("on purpose")

    feed.subscribe(fail)
    feed.subscribe(kept.put)
    gone.unsubscribe()
    gone.unsubscribe()
    feed.publish("t", "1")
    feed.publish("t", "2")
    assert [kept.get(timeout=WAIT_SECONDS).payload for _ in range(2)] == ["1", "2"]
    assert gone.is_empty()


def test_a_callback_may_publish(make: Make):
    feed, heard = make(), Event()

    def answer(change: Change) -> None:
        if change.topic == "question":
            feed.publish("answer")
        else:
            heard.set()

    feed.subscribe(answer)
    feed.publish("question")
    assert heard.wait(WAIT_SECONDS)


@pytest.mark.parametrize(("topic", "payload"), [("", "x"), ("t" * 201, ""), ("t", "a\0b")])
def test_a_change_that_cannot_be_sent_is_refused(make: Make, topic: str, payload: str):
    with pytest.raises(StoreError, match="cannot be sent"):
        make().publish(topic, payload)


def test_a_closed_feed_says_so(make: Make):
    feed = make()
    inbox = Inbox(feed)
    feed.close()
    with pytest.raises(StoreError, match="closed"):
        feed.publish("t")
    assert inbox.is_empty()


@pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)
def test_changes_of_other_processes_arrive(place: str, make: Make):
    inbox = Inbox(make())
    children = [
        subprocess.Popen([sys.executable, "-c", PUBLISHER, place, who],
                         env={**os.environ, "PYTHONPATH": SRC})
        for who in "ab"
    ]  # fmt: skip
    payloads = [change.payload for change in inbox.take(40)]
    assert [child.wait() for child in children] == [0, 0]
    for who in "ab":
        assert [p for p in payloads if p.startswith(who)] == [f"{who}-{n}" for n in range(20)]


@pytest.fixture
def fragile() -> Iterator[Server]:
    """A server of its own for tests that stop it."""
    server = Server().start()
    yield server
    server.stop()


def publish_when_back(feed: ChangeFeed, payload: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return feed.publish("t", payload)
        except StoreError:
            assert time.monotonic() < deadline


def test_changes_arrive_after_the_server_was_killed_or_frozen(fragile: Server):
    url = fragile.new_database()
    feed, other = open_postgres_feed(url), open_postgres_feed(url)
    inbox = Inbox(feed)
    other.publish("t", "before")
    fragile.kill()
    with pytest.raises(StoreError, match="cannot be reached"):
        other.publish("t", "lost")
    fragile.start()
    publish_when_back(other, "after the crash")
    fragile.freeze()
    with pytest.raises(StoreError, match="did not answer"):
        other.publish("t", "unsure")
    fragile.thaw()
    publish_when_back(other, "after the freeze")
    taken = [change.payload for change in inbox.take(3)]
    if taken[2] == "unsure":  # the frozen server had received it, and did it after all
        taken[2:] = [change.payload for change in inbox.take()]
    assert taken == ["before", "after the crash", "after the freeze"]
    feed.close()
    other.close()


def test_notifications_arrive_without_waiting_for_the_poll():
    url = shared_server().clean_database()
    feed, other = open_postgres_feed(url), open_postgres_feed(url)
    inbox, slowest = Inbox(feed), 0.0
    for number in range(150):
        started = time.monotonic()
        # Two at once: the second may arrive while the first is read.
        other.publish("t", str(number))
        other.publish("t", str(number))
        assert inbox.take(2) == [Change("t", str(number))] * 2
        slowest = max(slowest, time.monotonic() - started)
    assert slowest < POLL_SECONDS / 2
    feed.close()
    other.close()


def test_a_notification_that_arrives_with_other_rows_ends_the_next_wait():
    url = shared_server().clean_database()
    with closing(PostgresChanges(url)) as table, closing(PostgresChanges(url)) as other:
        assert table.newest() == 0
        other.append("t", "1")
        # Answers on the connection that listens; the notification comes with one of them.
        while not table.read(0) or table.highest() != 1 or other.newest() != 1:
            pass
        started = time.monotonic()
        table.wait()
        assert time.monotonic() - started < POLL_SECONDS / 2


def test_a_change_without_a_notification_is_found_by_the_poll():
    url = shared_server().clean_database()
    feed = open_postgres_feed(url)
    inbox = Inbox(feed)
    with psycopg.connect(url, autocommit=True) as sql:  # written, and nobody is notified
        sql.execute("INSERT INTO toolscout_changes (time, topic, payload) VALUES (0, 't', 'quiet')")
    started = time.monotonic()
    assert inbox.take() == [Change("t", "quiet")]
    assert time.monotonic() - started < POLL_SECONDS + 1
    feed.close()


def test_a_subscriber_that_cannot_know_what_it_missed_gets_a_sign_of_it(fragile: Server):
    url = fragile.new_database()
    feed = open_postgres_feed(url)
    inbox = Inbox(feed)
    feed.publish("t", "1")
    feed.publish("t", "2")
    assert len(inbox.take(2)) == 2
    with psycopg.connect(url, autocommit=True) as sql:
        # As after a restored backup, or a standby that took over without the last changes.
        sql.execute("TRUNCATE toolscout_changes RESTART IDENTITY")
        sql.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'toolscout' AND datname = current_database()"
        )
    assert inbox.take() == [MISSED]
    publish_when_back(feed, "3")
    assert inbox.take() == [Change("t", "3")]
    feed.close()


def test_a_subscriber_of_a_server_that_is_away_starts_with_a_sign_that_it_missed_some(
    fragile: Server,
):
    url = fragile.new_database()
    fragile.kill()
    feed = open_postgres_feed(url)
    inbox = Inbox(feed)
    with pytest.raises(Empty):
        inbox._queue.get(block=False)
    fragile.start()
    assert inbox.take() == [MISSED]
    publish_when_back(feed, "1")
    assert inbox.take() == [Change("t", "1")]
    feed.close()
