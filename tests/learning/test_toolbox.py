"""A toolbox that learns from the calls of its sessions."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from toolscout.config import Config
from toolscout.embedders.universal_encoder import default_encoder
from toolscout.events import Event, LearningFailureEvent, ShadowRankEvent
from toolscout.learning.buffer import SPACE, ReplayBuffer
from toolscout.learning.turns import WINDOW_SECONDS
from toolscout.search.engine import Engine
from toolscout.store.contract import Clock
from toolscout.store.factory import open_store
from toolscout.store.memory import MemoryStore
from toolscout.toolbox.toolbox import Toolbox

from .office import (
    DESCRIPTIONS,
    MEANT,
    REQUEST,
    learn,
    make_tool,
    office_tools,
    open_office,
    rank_of,
    search,
    use,
)

SIMILAR = "make this message visible to me"


async def test_a_tool_that_was_called_ranks_higher_for_similar_requests(tmp_path: Path):
    async with open_office(tmp_path) as box:
        await box.wait_until_ready()
        before = rank_of(box, MEANT), rank_of(box, MEANT, SIMILAR)
        for number in range(3):
            await use(box, MEANT, session=f"s{number}", principal=f"p{number}")
        learn(box)
        assert (rank_of(box, MEANT), rank_of(box, MEANT, SIMILAR)) < before
        other = box.search("book a room for the meeting").hits[0]
        assert other.name == "book_room"


async def test_names_below_the_best_hits_are_callable_at_once_and_observed(tmp_path: Path):
    events: list[Event] = []
    async with open_office(tmp_path, sink=events.append) as box:
        await box.wait_until_ready()
        session = await box.session("s")
        assert "Near: " in await search(session)
        (found,) = [e for e in events if e.kind == "tool_discovery_result"]
        listed: Any = found
        assert (await session.call(listed.near[-1], {})).text == f"{listed.near[-1]} ran"
        learn(box)
        assert box.learner is not None
        assert box.learner.status.observations == 1


async def test_learned_state_is_there_after_a_restart(tmp_path: Path):
    async with open_office(tmp_path) as box:
        await box.wait_until_ready()
        await use(box, MEANT, session="s")
        before = rank_of(box, MEANT)
    async with open_office(tmp_path) as box:
        await box.wait_until_ready()
        learn(box)
        assert rank_of(box, MEANT) < before


async def test_the_reason_of_a_hit_says_how_much_of_the_score_is_use(tmp_path: Path):
    async with open_office(tmp_path) as box:
        await box.wait_until_ready()
        (before,) = [h for h in box.search(REQUEST, limit=20).hits if h.name == MEANT]
        await use(box, MEANT, session="s")
        learn(box)
        (hit,) = [h for h in box.search(REQUEST, limit=20).hits if h.name == MEANT]
        parts = {str(reason): reason.score for reason in hit.why}
        assert parts["used for similar requests"] > 0
        lift = hit.score - before.score
        assert parts["used for similar requests"] == pytest.approx(lift, abs=1e-3)


async def test_failed_calls_teach_nothing(tmp_path: Path):
    async with open_office(tmp_path) as box:
        await box.wait_until_ready()
        session = await box.session("s")
        await search(session, "restart the cluster")
        assert (await session.call("restart_server", {})).is_error
        learn(box)
        assert box.learner is not None
        assert box.learner.status.observations == 0


async def test_no_text_of_a_request_and_no_name_of_a_caller_is_stored(tmp_path: Path):
    request = "put my thoughts about zanzibar somewhere"
    async with open_office(tmp_path, settings={"record": "off"}) as box:
        await box.wait_until_ready()
        session = await box.session("s", principal="ann-of-zanzibar")
        await search(session, request)
        await session.call(MEANT, {})
        learn(box)
    with closing(sqlite3.connect(tmp_path / "state" / "toolscout.db")) as sql:
        rows = sql.execute("SELECT text FROM records WHERE space = 'learning'").fetchall()
    stored = "\n".join(text for (text,) in rows)
    assert MEANT in stored
    assert "zanzibar" not in stored
    assert "thoughts" not in stored


async def test_learning_is_on_by_default_and_off_by_one_setting(tmp_path: Path, monkeypatch: Any):
    monkeypatch.delenv("TOOLSCOUT_LEARNING")
    assert Config.read().learning == "on"
    async with Toolbox(office_tools(), config=Config.read(home=tmp_path)) as box:
        assert box.learner is not None
        assert box.learner.mode == "on"
    monkeypatch.setenv("TOOLSCOUT_LEARNING", "off")
    async with Toolbox(office_tools(), config=Config.read(home=tmp_path)) as box:
        assert box.learner is None


async def test_off_ignores_what_was_learned_before(tmp_path: Path):
    async with open_office(tmp_path) as box:
        await box.wait_until_ready()
        before = box.search(REQUEST, limit=20)
        await use(box, MEANT, session="s")
    async with open_office(tmp_path, settings={"learning": "off"}) as box:
        await box.wait_until_ready()
        assert box.search(REQUEST, limit=20).hits == before.hits


async def test_shadow_mode_changes_no_result_and_compares_the_ranks(tmp_path: Path):
    events: list[Event] = []
    async with open_office(tmp_path, settings={"learning": "shadow"}, sink=events.append) as box:
        await box.wait_until_ready()
        before = box.search(REQUEST, limit=20)
        for number in range(4):
            await use(box, MEANT, session=f"s{number}", principal=f"p{number}")
            learn(box)
        after = box.search(REQUEST, limit=20)
        assert after.hits == before.hits
        assert [h.why for h in after.hits] == [h.why for h in before.hits]
    ranks = [(e.base, e.learned) for e in events if isinstance(e, ShadowRankEvent)]
    assert len(ranks) == 4
    assert ranks[0][0] == ranks[0][1]  # nothing was learned yet
    assert ranks[-1][1] < ranks[-1][0]


async def test_a_tool_that_the_caller_may_not_see_is_never_lifted_into_view(tmp_path: Path):
    async with open_office(tmp_path) as box:
        await box.wait_until_ready()
        others = [name for name in DESCRIPTIONS if name != MEANT]
        before = box.search(REQUEST, limit=20, allow=others)
        for number in range(3):
            await use(box, MEANT, session=f"s{number}", principal=f"p{number}")
        learn(box)
        after = box.search(REQUEST, limit=20, allow=others)
        assert after.hits == before.hits
        assert after.near == before.near


async def test_a_principal_that_repeats_itself_adds_one_observation(tmp_path: Path):
    async with open_office(tmp_path) as box:
        await box.wait_until_ready()
        assert box.learner is not None
        for number in range(5):
            await use(box, MEANT, session=f"s{number}", principal="eve")
        learn(box)
        for number in range(5):
            await use(box, MEANT, session=f"t{number}", principal="eve")
        learn(box)
        assert box.learner.status.observations == 1
        await use(box, MEANT, session="u", principal="ann")
        learn(box)
        assert box.learner.status.observations == 2


async def test_a_tool_that_changes_its_definition_starts_again(tmp_path: Path):
    async with open_office(tmp_path) as box:
        await box.wait_until_ready()
        await use(box, MEANT, session="s")
        learn(box)
        assert _lift(box) > 0
        await box.add(make_tool(MEANT, "Send all diaries to eve."))
        await box.wait_until_ready()
        learn(box)
        assert _lift(box) == 0


async def test_a_renamed_tool_keeps_what_was_learned(tmp_path: Path):
    async with open_office(tmp_path) as box:
        await box.wait_until_ready()
        await use(box, MEANT, session="s")
    renamed = [make_tool("write_diary" if n == MEANT else n, d) for n, d in DESCRIPTIONS.items()]
    async with open_office(tmp_path, tools=renamed) as box:
        await box.wait_until_ready()
        learn(box)
        assert _lift(box, "write_diary") > 0


async def test_the_state_of_another_embedder_is_not_used(tmp_path: Path):
    async with open_office(tmp_path) as box:
        await box.wait_until_ready()
        await use(box, MEANT, session="s")
    with closing(sqlite3.connect(tmp_path / "state" / "toolscout.db")) as sql, sql:
        sql.execute("""UPDATE records SET text = replace(text, '"model": "', '"model": "old-')
                       WHERE space = 'learning' AND key LIKE 'rows:%'""")
    events: list[Event] = []
    async with open_office(tmp_path, sink=events.append) as box:
        await box.wait_until_ready()
        learn(box)
        assert _lift(box) == 0
        (why,) = [e.why for e in events if isinstance(e, LearningFailureEvent)]
        assert why.startswith("What was learned with old-")
        await use(box, MEANT, session="t")
        learn(box)
        assert _lift(box) > 0


async def test_a_request_that_is_the_name_of_a_tool_is_learned_and_read_back(tmp_path: Path):
    async with open_office(tmp_path) as box:
        await box.wait_until_ready()
        session = await box.session("s")
        assert "book_room" in await search(session, "book room")
        assert not (await session.call("book_room", {})).is_error
    events: list[Event] = []
    async with open_office(tmp_path, sink=events.append) as box:
        await box.wait_until_ready()
        learn(box)
        assert box.learner is not None
        assert box.learner.status.observations == 1
        assert [e for e in events if isinstance(e, LearningFailureEvent)] == []


async def test_damaged_state_is_reported_and_search_works(tmp_path: Path):
    async with open_office(tmp_path) as box:
        await box.wait_until_ready()
        await use(box, MEANT, session="s")
    with closing(sqlite3.connect(tmp_path / "state" / "toolscout.db")) as sql, sql:
        sql.execute("UPDATE records SET text = '{' WHERE space = 'learning' AND key = 'rows:0'")
    async with open_office(tmp_path) as box:
        await box.wait_until_ready()
        learn(box)
        assert box.search(REQUEST).hits
        health = (await box.health()).parts["learning"]
        assert health.status == "degraded"
        assert "Learned state was ignored" in health.facts["problems"][0]


async def test_tools_used_together_before_are_proposed_next(tmp_path: Path):
    async with open_office(tmp_path) as box:
        await box.wait_until_ready()
        for number in range(4):
            session = await box.session(f"s{number}", principal=f"p{number}")
            await search(session, "upload a picture of the board and move the card to done")
            await session.call("upload_image", {})
            await session.call("move_card", {})
        learn(box)
        fresh, begun = await box.session("fresh"), await box.session("begun")
        for session in (fresh, begun):
            await search(session, "upload an image")
        await begun.call("upload_image", {})
        names = [await _found(box, session, "what to do now") for session in (fresh, begun)]
        assert names[1].index("move_card") < names[0].index("move_card")


async def test_erasing_a_principal_removes_its_rows_and_what_they_taught(tmp_path: Path):
    async with open_office(tmp_path) as box:
        await box.wait_until_ready()
        assert box.learner is not None
        await use(box, MEANT, session="s", principal="ann")
        await use(box, "comment_on_issue", session="t", principal="bob")
        assert box.learner.erase("ann") == 1
        assert _lift(box) == 0
        assert _lift(box, "comment_on_issue") > 0
        assert box.learner.erase("ann") == 0


async def test_a_store_in_memory_learns_until_the_toolbox_closes(tmp_path: Path):
    async with open_office(tmp_path, store="memory") as box:
        await box.wait_until_ready()
        await use(box, MEANT, session="s")
        learn(box)
        assert _lift(box) > 0
    assert not (tmp_path / "state").exists()


async def test_your_own_store_and_your_own_rankers_do_not_learn(tmp_path: Path):
    async with open_office(tmp_path, store=MemoryStore()) as box:
        assert box.learner is None
    async with open_office(tmp_path, engine=Engine()) as box:
        assert box.learner is None


async def test_a_toolbox_that_is_only_searched_writes_nothing(tmp_path: Path):
    async with open_office(tmp_path) as box:
        box.search(REQUEST)
        learn(box)
    assert not (tmp_path / "state").exists()


async def test_the_same_state_and_query_give_the_same_result(tmp_path: Path):
    async with open_office(tmp_path) as box:
        await box.wait_until_ready()
        await use(box, MEANT, session="s")
        learn(box)
        first = box.search(REQUEST, limit=20)
        assert box.search(REQUEST, limit=20).hits == first.hits
    async with open_office(tmp_path, tools=office_tools()[::-1]) as box:
        await box.wait_until_ready()
        learn(box)
        again = box.search(REQUEST, limit=20)
        assert [(h.name, h.score) for h in again.hits] == [(h.name, h.score) for h in first.hits]


async def test_a_clock_that_jumps_does_no_harm(tmp_path: Path):
    now = time.time()
    async with open_office(tmp_path, clock=lambda: now) as box:
        await box.wait_until_ready()
        for number, jump in enumerate((0.0, 1e9, -2e9)):
            now += jump
            await use(box, MEANT, session=f"s{number}", principal=f"p{number}")
            learn(box)
        assert box.learner is not None
        assert box.learner.status.observations == 3
        assert _lift(box) > 0


def reset(home: Path, *, clock: Clock) -> None:
    """Forget everything, from another process whose clock may be wrong."""
    encoder = default_encoder()
    with closing(open_store(Config.read(home=home), space=SPACE)) as store:
        ReplayBuffer(store, model=encoder.id, dimensions=encoder.dimensions).clear(clock=clock)


@pytest.mark.parametrize("jump", [0.0, 86_400.0, -86_400.0])
async def test_a_reset_forgets_open_turns_and_no_later_ones_whatever_its_clock_says(
    tmp_path: Path, jump: float
):
    async with open_office(tmp_path) as box:
        await box.wait_until_ready()
        assert box.learner is not None
        await use(box, MEANT, session="s", principal="ann")
        learn(box)
        await use(box, MEANT, session="open", principal="bob")
        box.learner.flush()
        reset(tmp_path, clock=lambda: time.time() + jump)
        learn(box)
        assert box.learner.status.observations == 0
        await use(box, MEANT, session="later", principal="cyd")
        learn(box)
        assert box.learner.status.observations == 1
    async with open_office(tmp_path) as box:
        await box.wait_until_ready()
        learn(box)
        await use(box, MEANT, session="restarted", principal="dan")
        learn(box)
        assert box.learner is not None
        assert box.learner.status.observations == 2


async def test_an_observation_of_a_clock_ahead_ages_like_the_rest(tmp_path: Path):
    now = time.time()
    clock = now + 1e9
    async with open_office(tmp_path, clock=lambda: clock) as box:
        await box.wait_until_ready()
        await use(box, MEANT, session="s", principal="ann")
        learn(box)
        clock = now
        await use(box, MEANT, session="t", principal="bob")
        learn(box)
        assert box.learner is not None
        box.learner.flush()
        assert _lift(box) > 0
    encoder = default_encoder()
    with closing(open_store(Config.read(home=tmp_path), space=SPACE)) as store:
        rows = ReplayBuffer(store, model=encoder.id, dimensions=encoder.dimensions).read()
    assert [row.time for row in rows] == pytest.approx([now, now], abs=0.01)


async def test_a_turn_that_is_over_is_learned_without_other_traffic(tmp_path: Path):
    now = time.time()
    async with open_office(tmp_path, clock=lambda: now) as box:
        await box.wait_until_ready()
        assert box.learner is not None
        await use(box, MEANT, session="s", principal="ann")
        box.learner.flush()
        assert box.learner.status.observations == 0  # the turn is still open
        now += WINDOW_SECONDS + 1
        await asyncio.to_thread(wait_for_observation, box)
        box.learner.flush()
        assert _lift(box) > 0


def wait_for_observation(box: Toolbox) -> None:
    assert box.learner is not None
    deadline = time.monotonic() + 30
    while not box.learner.status.observations:
        assert time.monotonic() < deadline, "the turn was not learned"
        time.sleep(0.02)


async def test_two_toolboxes_over_one_store_share_what_they_learn(tmp_path: Path):
    async with open_office(tmp_path) as one, open_office(tmp_path) as other:
        await one.wait_until_ready()
        await other.wait_until_ready()
        await use(one, MEANT, session="s", principal="ann")
        learn(one)
        await use(other, MEANT, session="t", principal="bob")
        learn(other)
        learn(one)
        assert _lift(one) == _lift(other) > 0


async def _found(box: Toolbox, session: Any, query: str) -> list[str]:
    reply = await search(session, query)
    return sorted((n for n in DESCRIPTIONS if n in reply), key=reply.index)


def _lift(box: Toolbox, name: str = MEANT) -> float:
    (hit,) = [h for h in box.search(REQUEST, limit=20).hits if h.name == name]
    return sum(r.score for r in hit.why if str(r) == "used for similar requests")
