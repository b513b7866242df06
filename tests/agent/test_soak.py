"""Two hundred runs at once, on one toolbox and one SQLite file."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import pairwise
from pathlib import Path

from tests.agent.office import Agent, Office, calls, open_office, search

from toolscout.models.messages import CONVERSATION_SECTION, Message, load_history
from toolscout.models.scripted import ScriptedModel

SESSIONS = 40
EACH = 5


def script(number: int) -> ScriptedModel:
    """Search, look somebody up twice at once, send a letter, answer."""
    return ScriptedModel(
        [
            calls(search("look up an address")),
            calls(
                ("find_contact", {"name": f"a{number}"}), ("find_contact", {"name": f"b{number}"})
            ),
            calls(search("send an email")),
            calls(("send_email", {"to": f"a{number}", "subject": f"Letter {number}"})),
            f"Letter {number} is sent.",
        ]
    )


def mentions(messages: tuple[Message, ...], number: int) -> int:
    """How many messages of one run a conversation holds."""
    asked = sum(m.text == f"Send letter {number}" for m in messages)
    answered = sum(m.text == f"Letter {number} is sent." for m in messages)
    called = sum(
        f'Letter {number}"' in call.arguments or f'b{number}"' in call.arguments
        for m in messages
        for call in m.calls
    )
    return asked + answered + called


async def test_two_hundred_runs_at_once_lose_nothing(tmp_path: Path) -> None:
    """Five runs share each conversation, so every one of its writes has rivals."""
    office = Office()
    runs = SESSIONS * EACH
    async with open_office(office, store=tmp_path / "soak.db") as box:
        results = await asyncio.gather(
            *(
                Agent(box, model=script(number)).run(
                    f"Send letter {number}", session=f"s{number % SESSIONS}"
                )
                for number in range(runs)
            )
        )
    assert {run.stopped_by for run in results} == {"answer"}
    assert Counter(office.done) == Counter(
        line
        for n in range(runs)
        for line in (f"looked up a{n}", f"looked up b{n}", f"mail to a{n}: Letter {n}")
    )
    async with open_office(office, store=tmp_path / "soak.db") as box:
        assert len(await box.sessions(limit=1_000)) == SESSIONS
        for place in range(SESSIONS):
            state = (await box.session(f"s{place}")).state
            messages = load_history(state.sections[CONVERSATION_SECTION])
            mine = range(place, runs, SESSIONS)
            assert [mentions(messages, number) for number in mine] == [4] * EACH
            assert {"find_contact", "send_email"} <= set(state.loaded)
            assert set(state.uses) == {"find_contact", "send_email"}
            assert len(state.searches) == 2 * EACH
            for message, after in pairwise(messages):
                assert [c.id for c in message.calls] == [r.id for r in after.results]
