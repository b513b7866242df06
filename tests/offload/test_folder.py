"""Whose results these are, and when they go."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolscout.catalog.result import Result
from toolscout.disclosure.feature import DetachedSession

from .bench import Bench, ask, store_result, text, tool

_DAY = 86_400


async def read(store, filename: str, session: str = "ann"):
    return await ask(store, session, filename=filename, operation="read", start=1, end=3)


@pytest.mark.behaviour("B45")
async def test_a_bare_name_and_a_path_under_the_folder_are_accepted(bench: Bench):
    store = bench.store(threshold_tokens=10)
    name = await store_result(store, text(20))
    for spelling in (name, f"ann/{name}", str(bench.folder / "ann" / name)):
        assert (await read(store, spelling)).text == "w0 "


@pytest.mark.behaviour("B45")
async def test_nothing_outside_of_the_sessions_own_folder_is_reached(bench: Bench, tmp_path: Path):
    store = bench.store(threshold_tokens=10)
    name = await store_result(store, text(20))
    theirs = await store_result(store, f"their secret {text(20)}", session="bob")
    secret = tmp_path / "tool_secret.txt"
    secret.write_text("secret")
    (bench.folder / "ann" / "tool_link.txt").symlink_to(secret)
    (bench.folder / "ann" / "tool_theirs.txt").symlink_to(bench.folder / "bob" / theirs)
    (bench.folder / "ann" / "tool_folder").mkdir()
    (bench.folder / "link").symlink_to(bench.folder / "bob")
    for spelling in (
        theirs,
        f"bob/{theirs}",
        f"../bob/{theirs}",
        f"ann/../bob/{theirs}",
        str(bench.folder / "bob" / theirs),
        f"link/{theirs}",
        "../tool_secret.txt",
        "../../tool_secret.txt",
        str(secret),
        "/etc/passwd",
        "tool_link.txt",
        "tool_theirs.txt",
        "tool_folder",
        "notes.txt",
        "tool_\0.txt",
        "",
        ".",
        "tool_" + "x" * 5_000,
        name.upper(),
    ):
        answer = await read(store, spelling)
        assert answer.is_error, spelling
        assert "secret" not in answer.text.replace("tool_secret", "")


async def test_a_foreign_name_and_a_missing_one_get_the_same_message(bench: Bench):
    store = bench.store(threshold_tokens=10)
    await store_result(store, text(20))
    theirs = await store_result(store, text(20), session="bob")
    foreign, missing = await read(store, f"bob/{theirs}"), await read(store, "bob/tool_none.txt")
    assert foreign.text.replace(theirs, "X") == missing.text.replace("tool_none.txt", "X")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a/b", "a_b"),
        ("Ann", "ann"),
        ("../x", "x"),
        ("é", "è"),
        ("a b", "a\tb"),
        ("x" * 80, "x" * 81),
    ],
)
async def test_no_two_sessions_share_a_folder(bench: Bench, one: str, other: str):
    store = bench.store(threshold_tokens=10)
    name = await store_result(store, text(20), session=one)
    assert (await read(store, name, one)).text == "w0 "
    assert (await read(store, name, other)).is_error
    made_up = bench.files()[0].parent.name
    if made_up != one:
        assert (await read(store, name, made_up)).is_error
    assert all(p.is_relative_to(bench.folder) for p in bench.files())


@pytest.mark.behaviour("B45")
async def test_a_harmless_name_with_dots_is_not_refused_for_them(bench: Bench):
    store = bench.store(threshold_tokens=10)
    name = await store_result(store, text(20))
    path = bench.folder / "ann" / name
    dotted = path.rename(path.with_name("tool_a..b.txt"))
    assert (await read(store, dotted.name)).text == "w0 "


@pytest.mark.behaviour("B47")
async def test_results_go_after_seven_days_at_the_next_hourly_sweep(bench: Bench):
    store = bench.store(threshold_tokens=10)
    old = await store_result(store, text(20))
    bench.now += 7 * _DAY - 60
    young = await store_result(store, text(21), session="bob")
    bench.now += 1_800
    await store.keep(DetachedSession("bob"), tool(), Result.of(text(20)))
    assert (await read(store, old)).text == "w0 "  # half an hour after the last sweep
    bench.now += 1_801
    await store.keep(DetachedSession("bob"), tool(), Result.of(text(20)))
    gone = await read(store, old)
    assert gone.is_error
    assert "7 days" in gone.text
    assert not (bench.folder / "ann").exists()
    assert (await read(store, young, "bob")).text == "w0 "


@pytest.mark.behaviour("B47")
async def test_a_session_that_ends_takes_its_results_along(bench: Bench):
    store = bench.store(threshold_tokens=10)
    mine, theirs = (
        await store_result(store, text(20)),
        await store_result(store, text(20), session="bob"),
    )
    assert await store.forget("ann") == 1
    assert await store.forget("ann") == 0
    gone = await read(store, mine)
    assert gone.is_error
    assert "No result is saved" in gone.text
    assert (await read(store, theirs, "bob")).text == "w0 "


@pytest.mark.behaviour("B47")
async def test_sweeping_a_folder_that_is_not_there_is_fine(bench: Bench):
    store = bench.store()
    assert await store.sweep() == 0
    assert await store.forget("nobody") == 0


async def test_a_session_keeps_the_newest_that_fit_and_leaves_others_alone(bench: Bench):
    size = len(text(20))
    store = bench.store(threshold_tokens=10, max_session_bytes=2 * size)
    theirs = await store_result(store, text(20), session="bob")
    names = []
    for _ in range(3):
        bench.now += 1
        await store.keep(DetachedSession("ann"), tool(), Result.of(text(20)))
        names.append(max(p.name for p in (bench.folder / "ann").iterdir()))
    assert (await read(store, names[0])).is_error
    assert names[1] in (await read(store, names[0])).text
    assert [(await read(store, n)).text for n in names[1:]] == ["w0 ", "w0 "]
    assert (await read(store, theirs, "bob")).text == "w0 "


async def test_all_together_never_take_more_than_the_disk_limit(bench: Bench):
    size = len(text(20))
    store = bench.store(threshold_tokens=10, max_total_bytes=3 * size)
    for session in ("ann", "bob", "cid", "dan", "eve"):
        bench.now += 1
        await store.keep(DetachedSession(session), tool(), Result.of(text(20)))
    assert [p.parent.name for p in bench.files()] == ["cid", "dan", "eve"]


async def test_only_what_the_shelf_wrote_is_ever_removed(bench: Bench):
    store = bench.store(threshold_tokens=10)
    await store_result(store, text(20))
    notes = bench.folder / "ann" / "notes.md"
    notes.write_text("mine")
    (bench.folder / "photos").mkdir()
    (bench.folder / "photos" / "a.jpg").write_text("mine")
    bench.now += 30 * _DAY
    assert await store.sweep() == 1
    assert await store.forget("ann") == 0
    assert [p.name for p in bench.files()] == ["notes.md", "a.jpg"]


async def test_stored_results_are_for_their_owner_only(bench: Bench):
    store = bench.store(threshold_tokens=10)
    await store_result(store, text(20))
    (path,) = bench.files()
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0
