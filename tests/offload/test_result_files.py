"""One suite for both places of results: what holds for the folder holds for PostgreSQL."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import pytest
from tests.store.postgres_server import Server, shared_server

from toolscout.catalog.result import Content, Result
from toolscout.disclosure.feature import DetachedSession
from toolscout.offload.folder import ResultFolder
from toolscout.offload.limits import OffloadLimits
from toolscout.offload.result_files import (
    NewResult,
    NoSuchFileError,
    ResultFiles,
    ResultTooLargeError,
    session_folder,
)
from toolscout.offload.result_rows import ResultRows
from toolscout.offload.result_store import ResultStore
from toolscout.store.postgres_files import PIECE_BYTES, FileEntry, PostgresFiles

from .bench import Words, ask, store_result, text, tool

NOW = 1_760_000_000.25
DAY = 86_400.0
Make = Callable[..., ResultFiles]


@pytest.fixture(params=["folder", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Opens the same place again each time, as another gateway does."""
    opened: list[ResultFiles] = []
    url = shared_server().clean_database() if request.param == "postgres" else ""

    def build(**limits: int) -> ResultFiles:
        given = OffloadLimits(**limits)
        files = ResultRows(PostgresFiles(url), given) if url else ResultFolder(tmp_path, given)
        opened.append(files)
        return files

    yield build
    for files in opened:
        files.close()


def write(
    files: ResultFiles,
    *pieces: bytes,
    session: str = "ann",
    now: float = NOW,
    name: str = "report",
    extension: str = ".txt",
) -> str:
    size = sum(map(len, pieces))
    new = NewResult(
        session=session, tool=name, extension=extension, size=size, now=now, pieces=pieces
    )
    return files.write(new).filename


def content(stream: BinaryIO | None) -> bytes:
    assert stream is not None
    with stream:
        return stream.read()


def test_a_result_of_one_gateway_is_a_real_file_at_another(make: Make):
    name = write(make(), b"one ", "żółw\0\x1b".encode(), b"\xff\xed\xa0\x80")
    with make().open("ann", name) as stream:
        assert stream.fileno() > 0
        assert stream.read() == b"one " + "żółw\0\x1b".encode() + b"\xff\xed\xa0\x80"


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 5 * PIECE_BYTES + 7])
def test_a_result_of_any_size_is_read_back_exactly(make: Make, size: int):
    data = bytes(range(251)) * (size // 251 + 1)
    files = make()
    name = write(files, data[:size])
    assert content(files.open("ann", name)) == data[:size]


def test_names_say_when_and_what_and_are_never_used_twice(make: Make):
    one, other = make(), make()
    names = {write(files, b"x", name="mail/send it") for files in (one, other, one, other)}
    assert len(names) == 4
    assert all(n.startswith("tool_20251009_085320_250000000_") for n in names)
    assert all(n.endswith("_mail_send_it.txt") for n in names)
    assert set(one.names("ann")) == names


def test_gateways_that_write_at_the_same_moment_lose_nothing(make: Make):
    gateways = [make() for _ in range(4)]

    def fill(number: int) -> str:
        return write(gateways[number % 4], str(number).encode())

    with ThreadPoolExecutor(4) as pool:
        names = [*pool.map(fill, range(40))]
    assert [content(gateways[0].open("ann", name)) for name in names] == [
        str(number).encode() for number in range(40)
    ]


def test_a_session_opens_only_its_own_results(make: Make):
    files = make()
    mine, theirs = write(files, b"mine"), write(files, b"secret", session="bob")
    for spelling in (mine, f"ann/{mine}"):
        assert content(files.open("ann", spelling)) == b"mine"
    refused = (
        theirs, f"bob/{theirs}", f"../bob/{theirs}", f"ann/../bob/{theirs}", f"/bob/{theirs}",
        "notes.txt", "tool_\0.txt", "tool_\ud800.txt", "", ".", "tool_" + "x" * 5_000, "tool_none",
        mine.upper(), f"ann/ann/{mine}", f"tool_/{mine}",
    )  # fmt: skip
    for spelling in refused:
        with pytest.raises(NoSuchFileError):
            files.open("ann", spelling)
    assert files.names("ann") == (mine,)


def test_a_foreign_result_and_a_missing_one_get_the_same_message(make: Make):
    files = make()
    theirs = write(files, b"secret", session="bob")
    messages = []
    for spelling in (f"bob/{theirs}", "bob/tool_none.txt", theirs, "tool_none.txt"):
        with pytest.raises(NoSuchFileError) as raised:
            files.open("ann", spelling)
        messages.append(str(raised.value).replace(spelling, "X"))
    assert len(set(messages)) == 1


@pytest.mark.parametrize(
    ("one", "other"), [("a/b", "a_b"), ("Ann", "ann"), ("", "."), ("é", "è"), ("x" * 80, "x" * 81)]
)
def test_no_two_sessions_share_results(make: Make, one: str, other: str):
    files = make()
    name = write(files, b"mine", session=one)
    assert content(files.open(one, name)) == b"mine"
    for session in {other, session_folder(one)} - {one}:
        assert files.names(session) == ()
        with pytest.raises(NoSuchFileError):
            files.open(session, name)


def test_the_newest_results_of_a_session_stay_and_those_of_others_too(make: Make):
    files = make(max_session_bytes=200)
    theirs = write(files, b"x" * 150, session="bob", now=NOW - 9)
    names = [write(files, b"x" * 100, now=NOW + n) for n in range(3)]
    assert files.names("ann") == (names[2], names[1])
    assert files.names("bob") == (theirs,)


def test_all_results_together_keep_the_limit(make: Make):
    files = make(max_total_bytes=300)
    for number, session in enumerate(("ann", "bob", "cid", "dan", "eve")):
        write(files, b"x" * 100, session=session, now=NOW + number)
    assert [e.folder for e in sorted(files.entries(), key=lambda e: e.written)] == [
        "cid", "dan", "eve",
    ]  # fmt: skip


def test_a_gateway_whose_clock_is_behind_keeps_what_it_just_wrote(make: Make):
    files = make(max_total_bytes=300)
    for number in range(3):
        write(files, b"x" * 100, now=NOW + number)
    late = write(files, b"x" * 100, now=NOW - 100)
    assert content(files.open("ann", late)) == b"x" * 100
    assert len(files.names("ann")) == 3


def test_a_result_above_the_limit_deletes_nothing(make: Make):
    files = make(max_session_bytes=200)
    kept = write(files, b"x" * 150)
    with pytest.raises(ResultTooLargeError):
        write(files, b"x" * 201)
    assert files.names("ann") == (kept,)


def test_results_expire_by_age_and_a_session_takes_its_own_along(make: Make):
    files = make()
    for _ in range(3):
        write(files, b"old", session="bob", now=NOW - 8 * DAY)
    young, theirs = write(files, b"young", now=NOW - 6 * DAY), write(files, b"x", session="eve")
    assert files.sweep(NOW) == 3
    assert files.sweep(NOW) == 0
    assert (files.names("bob"), files.names("ann")) == ((), (young,))
    assert files.forget("ann") == 1
    assert files.forget("ann") == 0
    assert files.names("eve") == (theirs,)


def test_a_sweep_keeps_the_size_limit(make: Make):
    for number in range(5):
        write(make(), b"x" * 100, now=NOW + number)
    assert make(max_total_bytes=250).sweep(NOW) == 3


def test_a_write_that_fails_leaves_nothing_behind(make: Make):
    files = make()

    def pieces() -> Iterator[bytes]:
        yield b"x" * PIECE_BYTES
        raise OSError("no more")

    new = NewResult(
        session="ann", tool="t", extension=".txt", size=2 * PIECE_BYTES, now=NOW, pieces=pieces()
    )
    with pytest.raises(OSError, match="no more"):
        files.write(new)
    assert files.names("ann") == ()
    assert [*files.entries()] == []


def test_entries_are_carried_to_another_place_under_their_names(make: Make, tmp_path: Path):
    files, target = make(), ResultFolder(tmp_path / "target", OffloadLimits())
    mine, theirs = write(files, b"mine"), write(files, b"theirs", session="A b", now=NOW + 1)
    rootless = write(files, b"none", session="")
    entries = [*files.entries()]
    assert {(e.name, e.size, e.written) for e in entries} == {
        (mine, 4, NOW), (theirs, 6, NOW + 1), (rootless, 4, NOW),
    }  # fmt: skip
    for entry in entries:
        assert target.add(entry, (content(files.read(entry)),))
        assert not target.add(entry, (b"again",))
        assert not files.add(entry, (b"again",))
    for session, name, data in (
        ("ann", mine, b"mine"),
        ("A b", theirs, b"theirs"),
        ("", rootless, b"none"),
    ):
        assert content(target.open(session, name)) == data
        assert content(files.open(session, name)) == data
    assert files.read(FileEntry("ann", "tool_none", 1, NOW)) is None


@pytest.mark.parametrize(
    ("folder", "name"), [("..", "tool_x"), ("a/b", "tool_x"), ("a", "x/tool_x")]
)
def test_an_entry_never_leads_out_of_the_folder(tmp_path: Path, folder: str, name: str):
    target = ResultFolder(tmp_path / "target", OffloadLimits())
    assert not target.add(FileEntry(folder, name, 1, NOW), (b"x",))
    assert [*tmp_path.rglob("*")] == []


async def test_every_operation_works_at_another_gateway(make: Make):
    limits = OffloadLimits(threshold_tokens=10)
    one, other = (ResultStore(make(), limits=limits, counter=Words()) for _ in range(2))
    lines = "\n".join(f"line {n}" for n in range(5_000))
    plain = await store_result(one, lines)
    json = await store_result(
        one, '{"rows": [' + ", ".join(f'{{"n": {n}}}' for n in range(99)) + "]}"
    )
    read = await ask(other, filename=plain, operation="read", start=1, end=6)
    assert read.text == "line 0"
    assert (
        "4321: line 4320"
        in (await ask(other, filename=plain, operation="search", pattern="line 4320")).text
    )
    query = await ask(other, filename=json, operation="query", query=".rows[] | select(.n == 42)")
    assert '"n": 42' in query.text
    refused = await ask(other, "bob", filename=plain, operation="read", start=1, end=6)
    assert refused.is_error
    assert "line" not in refused.text.replace("filename", "")
    assert await other.forget("ann") == 2
    assert (await ask(one, filename=plain, operation="read", start=1, end=6)).is_error


async def test_an_image_is_shown_by_another_gateway(make: Make):
    limits = OffloadLimits(threshold_tokens=50)
    one, other = (ResultStore(make(), limits=limits, counter=Words()) for _ in range(2))
    image = Content("image", data=b64encode(b"\x89PNG" * 50).decode(), mime="image/png")
    kept = await one.keep(DetachedSession("ann"), tool(), Result((image,)))
    (link,) = kept.content
    assert link.type == "link"
    shown = await ask(other, filename=link.name, operation="read", start=1, end=1)
    assert shown.content[0].data == image.data


@pytest.mark.slow
async def test_a_database_that_is_away_loses_no_result_and_is_not_named_to_the_model():
    server = Server().start()
    try:
        url = server.new_database()
        files = ResultRows(PostgresFiles(url), OffloadLimits())
        limits = OffloadLimits(threshold_tokens=10, cap_tokens=50)
        store = ResultStore(files, limits=limits, counter=Words())
        name = await store_result(store, text(30))
        server.kill()
        short = await store.keep(DetachedSession("ann"), tool(), Result.of(text(30)))
        assert short.text == text(30)
        long = await store.keep(DetachedSession("ann"), tool(), Result.of(text(90)))
        assert "could not be saved (the store does not answer)" in long.text
        assert "127.0.0.1" in store.health()[1]["failure"]
        missing = await ask(store, filename=name, operation="read", start=1, end=2)
        assert missing.is_error
        assert "127.0.0.1" not in missing.text + long.text
        server.start()
        again = await ask(store, filename=name, operation="read", start=1, end=2)
        assert again.text == "w0"
        await store.close()
    finally:
        server.stop()
