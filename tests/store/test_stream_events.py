"""Stream events: what is kept for clients that resume, and the limits on it, in both databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.store.postgres_server import shared_server

from toolscout.store.postgres_events import PostgresEvents
from toolscout.store.sqlite_events import SqliteEvents
from toolscout.store.stream_events import MAX_PER_STREAM, EventLimits, StoredEvent, StreamEvents

Open = Callable[[EventLimits], StreamEvents]


@pytest.fixture(params=["sqlite", "postgres"])
def open_events(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    url = shared_server().clean_database() if request.param == "postgres" else ""
    with ExitStack() as stack:

        def open_one(limits: EventLimits) -> StreamEvents:
            path = tmp_path / "events.db"
            events = (
                PostgresEvents(url, limits=limits) if url else SqliteEvents(path, limits=limits)
            )
            return stack.enter_context(closing(events))

        yield open_one


def made(stream: str, numbers: range, data: bytes = b"\0data\xff") -> list[StoredEvent]:
    return [StoredEvent(stream, number, data) for number in numbers]


def numbers(events: StreamEvents, stream: str) -> list[int]:
    return [event.number for event in events.read(stream)]


def test_events_of_one_process_are_read_by_another(open_events: Open) -> None:
    one, other = open_events(EventLimits()), open_events(EventLimits())
    one.append(made("a", range(3)))
    one.append(made("b", range(1)))
    one.append(made("a", range(3, 5)))
    assert other.read("a") == tuple(made("a", range(5)))
    assert other.read("c") == ()


def test_an_event_that_is_written_twice_stays_as_it_was(open_events: Open) -> None:
    events = open_events(EventLimits())
    events.append(made("a", range(2)))
    events.append(made("a", range(1, 3), b"other"))
    assert [event.data for event in events.read("a")] == [b"\0data\xff"] * 2 + [b"other"]


def test_a_long_stream_keeps_its_first_event_and_the_last_ones(open_events: Open) -> None:
    events = open_events(EventLimits())
    events.append(made("short", range(20)))
    for start in range(0, 300, 30):
        events.append(made("long", range(start, start + 30)))
    assert numbers(events, "long") == [0, *range(300 - MAX_PER_STREAM, 300)]
    assert numbers(events, "short") == [*range(20)]


def test_the_oldest_events_make_room_in_number(open_events: Open) -> None:
    events = open_events(EventLimits(max_events=25))
    for stream in "abcd":
        events.append(made(stream, range(10)))
    assert events.prune() == 15
    assert [numbers(events, s) for s in "abcd"] == [[], [5, 6, 7, 8, 9], [*range(10)], [*range(10)]]
    assert events.prune() == 0


def test_the_oldest_events_make_room_in_bytes(open_events: Open) -> None:
    events = open_events(EventLimits(max_bytes=2_500))
    for stream in "abcd":
        events.append(made(stream, range(1), b"x" * 1_000))
    assert events.prune() == 2
    assert [numbers(events, s) for s in "abcd"] == [[], [], [0], [0]]


def test_expired_events_are_not_read_and_then_deleted(open_events: Open) -> None:
    now, later = open_events(EventLimits()), open_events(EventLimits(max_age_seconds=0))
    now.append(made("a", range(3)))
    assert later.read("a") == ()
    assert numbers(now, "a") == [0, 1, 2]
    assert later.prune() == 3
    assert now.read("a") == ()


def test_processes_that_write_and_delete_at_once_do_not_fail(open_events: Open) -> None:
    limits = EventLimits(max_events=20)
    processes = [open_events(limits) for _ in range(4)]

    def work(number: int) -> None:
        for step in range(10):
            processes[number % 4].append(made(f"{number}-{step}", range(5)))
            processes[number % 4].prune()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(8)))
    processes[0].prune()
    kept = sum(len(numbers(processes[0], f"{n}-{step}")) for n in range(8) for step in range(10))
    assert kept == 20
