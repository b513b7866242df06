"""What happens to a result that is too large."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from toolscout.catalog.result import Content, Result
from toolscout.disclosure.feature import DetachedSession
from toolscout.offload.result_store import ResultStore
from toolscout.tokens import default_counter

from .bench import Bench, ask, text, tool


@pytest.mark.behaviour("B42")
async def test_a_result_at_the_threshold_stays_and_one_token_more_is_stored(bench: Bench):
    store = bench.store()
    at = Result.of(text(10_000))
    over = Result.of(text(10_001))
    assert await store.keep(DetachedSession("ann"), tool(), at) is at
    assert bench.files() == []
    replaced = await store.keep(DetachedSession("ann"), tool(), over)
    assert replaced.text != over.text
    assert [p.read_text() for p in bench.files()] == [over.text]
    assert bench.kinds() == ["large_output_detected", "large_output_kept"]


@pytest.mark.behaviour("B36", "B42")
async def test_while_keeping_is_off_nothing_is_kept_and_no_tool_is_shown(bench: Bench):
    store = bench.store(off=True)
    large = Result.of(text(50_000))
    assert await store.keep(DetachedSession("ann"), tool(), large) is large
    assert store.tools() == store.alias_tools() == ()
    assert not bench.folder.exists()


@pytest.mark.behaviour("S16")
async def test_a_tool_may_have_a_threshold_of_its_own_or_none(bench: Bench):
    store = bench.store(thresholds={"chatty": 5, "trusted": None})
    short, long = Result.of(text(20)), Result.of(text(50_000))
    assert (await store.keep(DetachedSession("ann"), tool("chatty"), short)).text != short.text
    assert await store.keep(DetachedSession("ann"), tool("trusted"), long) is long
    assert await store.keep(DetachedSession("ann"), tool("other"), short) is short


@pytest.mark.behaviour("S16")
async def test_a_result_that_was_allowed_is_stored_once_it_is_ten_turns_old(bench: Bench):
    store = bench.store(thresholds={"trusted": 50_000})
    result = Result.of(text(20_000))
    assert await store.keep(DetachedSession("ann"), tool("trusted"), result, age_turns=9) is result
    aged = await store.keep(DetachedSession("ann"), tool("trusted"), result, age_turns=10)
    assert "search_large_output" in aged.text
    again = await store.keep(DetachedSession("ann"), tool("trusted"), aged, age_turns=11)
    assert again is aged


@pytest.mark.behaviour("S16")
async def test_the_results_of_one_turn_fit_together(bench: Bench):
    store = bench.store(turn_tokens=20_000)
    small, middle, large = (Result.of(text(n)) for n in (7_000, 8_000, 9_000))
    fitted = await store.keep_turn(
        DetachedSession("ann"), [(tool("a"), small), (tool("b"), middle), (tool("c"), large)]
    )
    assert fitted[:2] == (small, middle)
    assert "was saved as" in fitted[2].text
    assert sum(len(r.text.split()) for r in fitted) <= 20_000


@pytest.mark.behaviour("B43")
async def test_the_file_is_named_for_its_moment_its_tool_and_its_kind(bench: Bench):
    store = bench.store()
    bench.now = 1_760_000_000.25
    await store.keep(
        DetachedSession("ann"), tool("mail: get/all " + "x" * 90), Result.of(text(10_001))
    )
    await store.keep(DetachedSession("ann"), tool("list"), Result.of([text(10_001)]))
    await store.keep(DetachedSession(""), tool("list"), Result.of(text(10_001)))
    by_folder = {p.relative_to(bench.folder).as_posix() for p in bench.files()}
    assert any(
        re.fullmatch(r"ann/tool_20251009_085320_250000000_\d+_list\.json", n) for n in by_folder
    )
    assert any(re.fullmatch(r"tool_20251009_085320_250000000_\d+_list\.txt", n) for n in by_folder)
    (cut,) = (n for n in by_folder if "mail" in n)
    assert re.fullmatch(r"ann/tool_\d+_\d+_\d+_\d+_mail_get_all_x+\.txt", cut)
    assert len(cut.split("_", 5)[-1].removesuffix(".txt")) == 50


@pytest.mark.behaviour("B43")
async def test_a_hundred_results_at_one_moment_do_not_clash(bench: Bench):
    shelves = [bench.store(), bench.store()]
    bodies = [Result.of(f"{n} {text(10_001)}") for n in range(100)]
    await asyncio.gather(
        *(
            shelves[n % 2].keep(DetachedSession("ann"), tool(), body)
            for n, body in enumerate(bodies)
        )
    )
    assert sorted(p.read_text() for p in bench.files()) == sorted(b.text for b in bodies)


@pytest.mark.behaviour("B44", "S16")
async def test_the_notice_has_place_preview_size_and_how_to_read_on(bench: Bench):
    store = bench.store()
    body = "".join(f"line {i}\n" for i in range(9_000))
    replaced = await store.keep(DetachedSession("ann"), tool("log"), Result.of(body))
    (path,) = bench.files()
    assert path.name in replaced.text
    assert f"ann/{path.name}" in replaced.text
    assert body[:5_000] in replaced.text
    assert body[:5_001] not in replaced.text
    assert "18,000 tokens" in replaced.text
    for word in ("log", "search_large_output", "read", "search"):
        assert word in replaced.text
    assert not replaced.is_error
    assert str(bench.folder) not in replaced.text


async def test_the_notice_of_json_shows_its_keys_and_array_lengths(bench: Bench):
    store = bench.store(threshold_tokens=100)
    rows = [{"id": i, "name": f"n {i}", "tags": ["a"] * (1 + i % 3)} for i in range(200)]
    replaced = await store.keep(
        DetachedSession("ann"), tool(), Result.of({"items": rows, "total": 200})
    )
    lines = replaced.text.splitlines()
    assert ". object (2 keys): items array, total number" in lines
    assert ".items array (200 elements)" in lines
    assert ".items[] object (3 keys): id number, name string, tags array" in lines
    assert ".items[].tags array (1–3 elements)" in lines
    assert "jq" in replaced.text
    assert replaced.structured is None


async def test_structured_data_beside_a_short_text_is_stored_and_the_text_stays(bench: Bench):
    store = bench.store(threshold_tokens=100)
    data = json.dumps({"rows": [text(500)]})
    result = Result((Content(text="500 rows found"),), structured=data, raw=data)
    replaced = await store.keep(DetachedSession("ann"), tool(), result)
    assert replaced.content[0].text == "500 rows found"
    assert (replaced.structured, replaced.raw) == (None, None)
    assert [p.read_text() for p in bench.files()] == [data]


async def test_an_image_leaves_the_context_and_keeps_its_type(bench: Bench):
    store = bench.store()
    pixels = os.urandom(60_000)
    image = Content("image", data=base64.b64encode(pixels).decode(), mime="image/png")
    icon = Content("image", data=base64.b64encode(b"tiny").decode(), mime="image/gif")
    replaced = await store.keep(
        DetachedSession("ann"), tool("shoot"), Result((Content(text="done"), image, icon))
    )
    first, link, last = replaced.content
    assert (first.text, last) == ("done", icon)
    assert (link.type, link.mime, link.data) == ("link", "image/png", "")
    assert "60,000 bytes" in link.text
    shown = await ask(store, filename=link.name, operation="read", start=1, end=1)
    assert shown.content == (Content("image", data=image.data, mime="image/png", name=link.name),)
    refused = await ask(store, filename=link.name, operation="search", pattern="x")
    assert refused.is_error
    assert "image/png" in refused.text


@pytest.mark.behaviour("B46")
@pytest.mark.parametrize("is_error", [False, True])
async def test_above_the_cap_a_result_that_is_not_kept_becomes_a_notice(
    bench: Bench, is_error: bool
):
    store = bench.store(off=True)
    body = f"FIRST {text(100_001)} LAST"
    replaced = await store.keep(
        DetachedSession("ann"), tool("dump"), Result((Content(text=body),), is_error=is_error)
    )
    assert replaced.is_error is is_error
    for word in ("dump", "100,003", "100,000", "limit", "filter", "FIRST", "LAST"):
        assert word in replaced.text
    assert len(replaced.text) < 5_000
    just = Result.of(text(100_000))
    assert await store.keep(DetachedSession("ann"), tool("dump"), just) is just


@pytest.mark.behaviour("B44")
@pytest.mark.parametrize("words", [10_001, 100_001])
async def test_a_failed_write_never_loses_the_outcome(bench: Bench, words: int):
    bench.folder.write_text("a file where the folder should be")
    store = bench.store()
    result = Result.of(f"FIRST {text(words)} LAST")
    replaced = await store.keep(DetachedSession("ann"), tool(), result)
    if words < 100_000:
        assert replaced is result
    else:
        assert "FIRST" in replaced.text
        assert "LAST" in replaced.text
        assert "could not be saved" in replaced.text
    assert not replaced.is_error
    assert bench.kinds() == ["large_output_detected", "large_output_failed"]
    assert bench.events[-1].facts["error"]


async def test_health_is_degraded_from_a_failed_write_until_one_succeeds(bench: Bench):
    bench.folder.write_text("a file where the folder should be")
    store = bench.store()
    assert store.health() == ("ok", {"is_enabled": True, "failure": ""})
    await store.keep(DetachedSession("ann"), tool(), Result.of(text(10_001)))
    status, facts = store.health()
    assert status == "degraded"
    assert facts["failure"]
    bench.folder.unlink()
    await store.keep(DetachedSession("ann"), tool(), Result.of(text(10_001)))
    assert store.health()[0] == "ok"


async def test_a_result_larger_than_all_room_stays_and_leaves_no_file(bench: Bench):
    store = bench.store(max_session_bytes=1_000)
    result = Result.of(text(10_001))
    assert await store.keep(DetachedSession("ann"), tool(), result) is result
    assert bench.files() == []
    assert bench.kinds()[-1] == "large_output_failed"


def test_a_disk_that_fills_up_during_the_write_leaves_the_outcome_and_no_broken_file(
    tmp_path: Path,
):
    """A process that may write files of 10 kB and no more, so that the write itself fails."""
    program = f"""
import asyncio, resource, signal
from toolscout.catalog.result import Result
from toolscout.catalog.tool import Tool
from toolscout.disclosure.feature import DetachedSession
from toolscout.offload.result_store import ResultStore
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
result = Result.of("word " * 20_000)
store = ResultStore({str(tmp_path)!r}, sink=lambda event: print(event.kind))
kept = asyncio.run(store.keep(DetachedSession("ann"), Tool(name="t"), result))
assert kept is result
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert "large_output_failed" in ended.stdout
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


async def test_an_answer_of_the_output_tool_is_never_stored_again(bench: Bench):
    store = bench.store(threshold_tokens=5)
    (reader,) = store.tools()
    answer = Result.of(text(500))
    assert await store.keep(DetachedSession("ann"), reader, answer) is answer


async def test_half_a_surrogate_pair_does_not_break_keeping(bench: Bench):
    store = bench.store(threshold_tokens=3)
    body = "a \ud83d b c d e"
    await store.keep(DetachedSession("ann"), tool(), Result((Content(text=body),)))
    (path,) = bench.files()
    back = await ask(store, filename=path.name, operation="read", start=1, end=len(body))
    assert back.text == body


async def test_with_the_real_counter_a_result_is_kept_and_read_back_in_three_ways(tmp_path: Path):
    store = ResultStore(tmp_path)
    rows = [{"id": i, "city": f"Zürich {i}"} for i in range(2_000)]
    result = Result.of({"rows": rows})
    assert default_counter().count(result.text) > 10_000
    replaced = await store.keep(DetachedSession("ann"), tool("cities"), result)
    name = re.search(r"tool_\S+?\.json", replaced.text)
    assert name
    read = await ask(store, filename=name.group(), operation="read", start=1, end=40)
    assert read.text == result.text[:40]
    found = await ask(store, filename=name.group(), operation="search", pattern="zürich 1999")
    assert "Zürich 1999" in found.text
    asked = await ask(store, filename=name.group(), operation="query", query=".rows[7].city")
    assert asked.text == '"Zürich 7"'
