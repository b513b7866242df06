"""The price of a conversation, and what it says about surfaces."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscout.disclosure.profiles import DEFAULT, EVERRUNS, EVERYTHING
from toolscout.disclosure.session_state import SessionState
from toolscout.disclosure.target import Target
from toolscout.disclosure.view import view
from toolscout.errors import ConfigError
from toolscout.evals.cache_costs import CachePrices, ReplayRequest, compute_bill, prices_for
from toolscout.evals.conversation import read_conversation
from toolscout.evals.replay import compare_surfaces, replay
from toolscout.tokens import default_counter


class Words:
    """A counter that counts words, so that sums can be done by heart."""

    name = "words"
    is_exact = True

    def count(self, text: str) -> int:
        return len(text.split())


RATES = CachePrices(minimum=4, cached=0.1, written=1.25, output=5)


def request(tools: str, system: str, *messages: str, output: str = "") -> ReplayRequest:
    return ReplayRequest(
        tools=tuple(tools.split(",")), system=system, messages=messages, output=output
    )


def test_a_repeated_beginning_is_cached_and_the_rest_is_written() -> None:
    first = request("a b,c", "s t", "u", output="x y")
    second = replace(first, messages=("u", "x y", "r"), output="z")
    bill = compute_bill([first, second], RATES, counter=Words())
    assert (bill.written, bill.cached, bill.plain, bill.output) == (6 + 3, 6, 0, 3)
    assert bill.total == pytest.approx(9 * 1.25 + 6 * 0.1 + 3 * 5)


def test_a_changed_tool_costs_all_that_follows_it() -> None:
    first = request("a b,c d", "s t", "u v w")
    appended = compute_bill([first, request("a b,c d,e", "s t", "u v w")], RATES, counter=Words())
    assert appended.cached == 4
    early = compute_bill([first, request("x b,c d", "s t", "u v w")], RATES, counter=Words())
    assert early.cached == 0


def test_a_prefix_below_the_minimum_is_neither_cached_nor_written() -> None:
    short = request("a", "b", "c")
    bill = compute_bill([short, short], RATES, counter=Words())
    assert (bill.plain, bill.cached, bill.written) == (6, 0, 0)
    assert bill.total == 6


@given(st.lists(st.lists(st.sampled_from(["a", "b b", "c c c"]), max_size=6), max_size=6))
def test_every_token_is_billed_exactly_once(rounds: list[list[str]]) -> None:
    requests = [ReplayRequest(tools=(), system="s", messages=tuple(r)) for r in rounds]
    bill = compute_bill(requests, RATES, counter=Words())
    sent = sum(Words().count(" ".join(r.pieces)) for r in requests)
    assert bill.cached + bill.written + bill.plain == sent


@pytest.mark.parametrize(
    ("target", "minimum", "written"),
    [
        ("anthropic:claude-opus-4-5", 4096, 1.25),
        ("anthropic:claude-opus-5", 512, 1.25),
        ("anthropic:claude-sonnet-4-5", 1024, 1.25),
        ("openai-chat:gpt-5.4", 1024, 1),
        ("openai-responses:gpt-6-sol", 1024, 1.25),
        ("gemini:gemini-3-pro", 4096, 1),
        ("plain", 0, 1),
    ],
)
def test_prices_are_facts_of_a_model(target: str, minimum: int, written: float) -> None:
    known = prices_for(Target.of(target))
    assert (known.minimum, known.written) == (minimum, written)
    assert known.cached < 1


TARGETS = [
    "anthropic:claude-sonnet-4-5",
    "anthropic:claude-opus-4-5",
    "anthropic:claude-haiku-4-5",
    "openai-chat:gpt-5.4",
    "openai-responses:gpt-5.4",
    "openai-responses:gpt-6-sol",
    "gemini:gemini-3-pro",
    "plain",
]


@pytest.mark.parametrize("target", TARGETS)
def test_auto_is_the_surface_that_costs_least_over_the_recorded_conversations(
    target, catalog, engine, conversations
) -> None:
    totals: dict[str, float] = {}
    for steps in conversations.values():
        for surface, bill in compare_surfaces(steps, target=target, engine=engine).items():
            totals[surface] = totals.get(surface, 0) + bill.total
    chosen = view(DEFAULT, catalog, SessionState("s"), target=target).surface
    assert chosen == min(totals, key=lambda surface: totals[surface])
    assert totals[chosen] < totals["everything"] / 1.5


def test_on_dispatch_all_but_the_last_message_was_seen_before(engine, conversations) -> None:
    chosen = replace(DEFAULT, surface="dispatch")
    steps = conversations["long_session"]
    requests = replay(steps, chosen, Target.of("openai-chat:gpt-5.4"), engine)
    for before, after in pairwise(requests):
        assert after.tools == before.tools
        assert after.system == before.system
        assert after.messages[: len(before.messages)] == before.messages


@pytest.mark.behaviour("B87", "S18")
def test_searching_costs_less_than_everything_in_view(engine, conversations) -> None:
    target = Target.of("openai-chat:gpt-5.4")
    count = default_counter().count
    for steps in conversations.values():
        all_of_it = replay(steps, EVERYTHING, target, engine)
        searched = replay(steps, replace(DEFAULT, surface="load"), target, engine)
        sizes = [sum(map(count, r.tools)) for r in (all_of_it[-1], searched[0], searched[-1])]
        assert sizes[1] < sizes[2] < sizes[0]


def test_stubs_that_become_schemas_cost_more_than_what_the_provider_defers(
    engine, conversations
) -> None:
    bill = compare_surfaces(
        conversations["three_needs"],
        target="anthropic:claude-sonnet-4-5",
        engine=engine,
        profile=EVERRUNS,
    )
    assert bill["native"].total < bill["load"].total


@pytest.mark.parametrize(
    "line",
    ['{"user": "a", "call": "b"}', "{}", "[]", "nonsense", '{"other": 1}', '{"search": 5}'],
)
def test_a_line_that_is_not_a_step_is_an_error_that_names_it(line: str) -> None:
    with pytest.raises(ConfigError, match=r"Line 2 of the conversation.*\"search\""):
        read_conversation('{"user": "hello"}\n' + line)


def test_the_error_of_a_line_says_what_is_wrong_with_it() -> None:
    with pytest.raises(ConfigError, match=r"Line 1 of the conversation: user: .*string"):
        read_conversation('{"user": 5}')
    with pytest.raises(ConfigError, match=r"Line 1 .*exactly one of user"):
        read_conversation('{"user": "a", "call": "b"}')
