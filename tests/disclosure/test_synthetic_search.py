"""After a compaction Claude is referred again to its loaded tools, and its list stays as it was.

The conversations here are led by hand in Anthropic's form, as a caller without the agent loop
leads them; each request is one that the service takes, or the checks of its rules complain.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
from anthropic.types import MessageParam
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from tests.disclosure.test_stability import (
    CLAUDE,
    ENABLING,
    EVENT,
    GPT,
    HOSTED,
    LOADING,
    NATIVE,
    SERVERS,
    begins,
    connected,
    name_of,
    sent,
    tools_of,
)
from tests.wire import anthropic as wire

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.disclosure.discovery import DiscoveryOutcome, discover
from toolscout.disclosure.profile import Profile
from toolscout.disclosure.rebuild import rebuild_session
from toolscout.disclosure.resolution import resolve_call
from toolscout.disclosure.session_state import SessionState
from toolscout.disclosure.snapshot import carry_loaded_tools
from toolscout.disclosure.view import View, view
from toolscout.search.engine import Engine

SUMMARY = {"role": "user", "content": "What was said before, in short."}
CUT = st.tuples(st.just("cut"), st.floats(0, 1))
SAY = st.tuples(st.just("say"), st.none())


def block(message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    return {"type": "text"} if isinstance(content, str) else content[0]


def references(messages: list[dict[str, Any]]) -> list[str]:
    contents = [block(m).get("content", []) for m in messages]
    return [b["tool_name"] for c in contents if isinstance(c, list) for b in c if "tool_name" in b]


def doubled(messages: list[dict[str, Any]]) -> int:
    """How often a side speaks twice in a row."""
    return sum(a["role"] == b["role"] for a, b in pairwise(messages))


@dataclass
class Talk:
    """A conversation with Claude in its own form, over servers that come and go."""

    catalog: Catalog = field(default_factory=lambda: connected(*SERVERS))
    session: SessionState = field(default_factory=lambda: SessionState("s"))
    messages: list[dict[str, Any]] = field(
        default_factory=lambda: [{"role": "user", "content": "Hello."}]
    )
    profile: Profile = NATIVE
    number: int = 0

    def __post_init__(self) -> None:
        self.engine = Engine(self.catalog)
        self.seen = self.look()

    def look(self) -> View:
        seen = view(self.profile, self.catalog, self.session, target=CLAUDE)
        self.session, self.seen = seen.session, seen
        return seen

    def exchange(self, name: str, arguments: dict[str, Any], answer: Any) -> None:
        self.number += 1
        key = f"toolu_{self.number}"
        use = {"type": "tool_use", "id": key, "name": name, "input": arguments}
        back = {"type": "tool_result", "tool_use_id": key, "content": answer}
        self.messages.append({"role": "assistant", "content": [use]})
        self.messages.append({"role": "user", "content": [back]})

    def search(self, query: str) -> DiscoveryOutcome:
        outcome = discover(
            self.profile,
            "tool_search",
            {"query": query},
            session=self.session,
            engine=self.engine,
            catalog=self.catalog,
        )
        self.session = outcome.session
        found = self.seen.native_answer([self.catalog[n] for n in outcome.loaded])
        answer = json.loads(found) if found else outcome.result.text
        self.exchange("tool_search", {"query": query}, answer)
        return outcome

    def call(self, name: str) -> None:
        called = resolve_call(
            self.profile, name, session=self.session, engine=self.engine, catalog=self.catalog
        )
        self.session = called.session
        self.exchange(name, {}, "done")

    def say(self) -> None:
        self.messages.append({"role": "assistant", "content": "Done."})
        self.messages.append({"role": "user", "content": "And now?"})

    def cut(self, share: float) -> None:
        """Keep the newest messages behind a summary, no answer without its call."""
        start = round(share * len(self.messages))
        while start < len(self.messages) and block(self.messages[start])["type"] == "tool_result":
            start += 1
        self.left = [SUMMARY, *self.messages[start:]]
        self.session = carry_loaded_tools(self.session)
        self.messages = self.look().restore_references(self.left)

    def turn(self, servers: Catalog) -> None:
        self.catalog = servers
        self.engine.update(servers)

    def live(self, kind: str, value: Any) -> None:
        match kind:
            case "search":
                self.search(value)
            case "load":
                self.search(f"select:{','.join(value)}")
            case "enable":
                self.session = self.session.load(*value)
            case "call":
                self.call(value)
            case "come":
                self.turn(self.catalog.with_source(value, tools_of(value)))
            case "change":
                changed = tools_of(value, revision=len(self.messages) + 1)
                self.turn(self.catalog.with_source(value, changed))
            case "lose":
                self.turn(self.catalog.without_source(value))
            case "resume":
                self.session = SessionState.from_json(self.session.to_json())
            case "say":
                self.say()
            case _:
                self.cut(value if isinstance(value, float) else 1.0)
        self.look()

    @property
    def complaint(self) -> str | None:
        """What the service would refuse of the next request."""
        return wire.check({"max_tokens": 1, "tools": self.seen.tools, "messages": [*self.messages]})


@settings(max_examples=150)
@given(st.lists(EVENT | ENABLING | CUT | SAY, max_size=14))
def test_through_compactions_the_list_only_grows_and_loaded_tools_stay_in_view(events) -> None:
    talk = Talk()
    views = [talk.seen]
    for kind, value in events:
        before = [*talk.messages]
        talk.live(kind, value)
        views.append(talk.seen)
        assert talk.complaint is None
        if kind in ("cut", "compact"):
            waiting = [t["name"] for t in talk.seen.tools if t.get("defer_loading")]
            assert set(waiting) == set(references(talk.messages))
            assert doubled(talk.messages) <= doubled(talk.left)
        else:
            assert talk.messages[: len(before)] == before
    for before, after in pairwise(views):
        assert begins(sent(after), sent(before))
        assert after.instructions == before.instructions
    assert views[-1].prefix.startswith(views[0].prefix.split("\n")[0])
    again = rebuild_session("s", talk.messages, profile=NATIVE, catalog=talk.catalog)
    loaded = {n for n in references(talk.messages) if n in talk.catalog}
    assert loaded <= {*again.loaded}


@settings(max_examples=60)
@given(st.lists(st.tuples(st.just("search"), st.text(max_size=8)) | EVENT | CUT | SAY, max_size=10))
def test_a_compaction_reported_twice_says_nothing_twice(events) -> None:
    talk = Talk()
    for kind, value in events:
        talk.live(kind, value)
    talk.cut(0.5)
    once = [*talk.messages]
    assert talk.seen.restore_references(once) == once
    talk.cut(0.0)
    assert sorted(references(talk.messages)) == sorted(set(references(talk.messages)))
    assert talk.complaint is None


def test_the_restatement_is_a_search_and_its_answer_behind_the_summary() -> None:
    talk = Talk()
    talk.live("load", ["list_mail", "send_crm"])
    talk.say()
    question = talk.messages[-1]
    talk.cut((len(talk.messages) - 1) / len(talk.messages))
    summary, asked, answered, closing, last = talk.messages
    assert (summary, last) == (SUMMARY, question)
    (use,) = asked["content"]
    assert (use["name"], use["input"]) == ("tool_search", {"query": "select:list_mail,send_crm"})
    (result,) = answered["content"]
    assert result["tool_use_id"] == use["id"]
    assert [b["tool_name"] for b in result["content"]] == ["list_mail", "send_crm"]
    assert closing["role"] == "assistant"
    TypeAdapter(list[MessageParam]).validate_python(talk.messages)
    outcome = talk.search(use["input"]["query"])
    assert "Already in your tool list: list_mail, send_crm" in outcome.result.text


def test_the_same_tools_are_restated_in_the_same_bytes_and_others_under_another_id() -> None:
    first, second, other = Talk(), Talk(), Talk()
    for talk, names in ((first, ["list_mail"]), (second, ["list_mail"]), (other, ["send_crm"])):
        talk.live("load", names)
        talk.cut(1.0)
    assert first.messages == second.messages
    assert block(first.messages[1])["id"] != block(other.messages[1])["id"]


def test_nothing_loaded_is_nothing_said() -> None:
    talk = Talk()
    talk.live("search", "zebra")
    talk.cut(1.0)
    assert talk.messages == [SUMMARY]


def test_tools_that_messages_still_refer_to_are_not_restored() -> None:
    talk = Talk()
    talk.live("load", ["list_mail"])
    talk.live("say", None)
    talk.live("load", ["send_crm"])
    kept = talk.messages[-2:]
    talk.cut((len(talk.messages) - 2) / len(talk.messages))
    assert talk.messages[0] == SUMMARY
    assert talk.messages[-2:] == kept
    assert references(talk.messages) == ["list_mail", "send_crm"]


def test_a_lost_servers_tool_is_in_the_list_still_and_one_that_was_unloaded_is_not() -> None:
    talk = Talk()
    talk.live("load", ["list_mail", "send_crm"])
    talk.live("lose", "mail")
    talk.session = talk.session.unload("send_crm")
    talk.cut(1.0)
    assert references(talk.messages) == ["list_mail"]
    assert talk.complaint is None


def test_names_are_those_of_the_list() -> None:
    odd = "shop.eu/find customer"
    talk = Talk(catalog=connected(*SERVERS).add(Tool(name=odd, description="Find a customer.")))
    talk.live("search", "find a customer")
    assert odd in talk.session.loaded
    talk.cut(1.0)
    assert talk.complaint is None
    assert [talk.seen.real_name(n) for n in references(talk.messages)] == [*talk.session.loaded]


@pytest.mark.parametrize(
    ("profile", "target"),
    [
        *(pair for pair in (*LOADING, *HOSTED)),
        (NATIVE, GPT),
        (replace(NATIVE, surface="dispatch"), CLAUDE),
    ],
    ids=name_of,
)
def test_where_the_list_itself_has_the_tools_messages_stay_as_they_are(profile, target) -> None:
    catalog = connected(*SERVERS)
    first = view(profile, catalog, SessionState("s"), target=target)
    loaded = view(profile, catalog, first.session.load("list_mail"), target=target)
    after = view(profile, catalog, carry_loaded_tools(loaded.session), target=target)
    assert after.restore_references([SUMMARY]) == [SUMMARY]


def test_a_session_rebuilt_from_compacted_messages_sends_the_same_list() -> None:
    talk = Talk()
    talk.live("load", ["list_mail", "send_crm"])
    talk.live("call", "list_mail")
    talk.cut(1.0)
    again = rebuild_session("s", talk.messages, profile=NATIVE, catalog=talk.catalog)
    assert again.loaded == ("list_mail", "send_crm")
    seen = view(NATIVE, talk.catalog, again, target=CLAUDE)
    assert seen.text == talk.seen.text
    assert seen.restore_references(talk.messages) == talk.messages
    further = view(NATIVE, talk.catalog, carry_loaded_tools(seen.session), target=CLAUDE)
    assert further.text == seen.text
    assert references(further.restore_references([SUMMARY])) == ["list_mail", "send_crm"]


@pytest.mark.parametrize("text", ["{", "7", '[{"a": 1}]', "null"])
def test_a_section_that_is_not_ours_only_means_that_nothing_is_referred_to(text) -> None:
    catalog = connected(*SERVERS)
    session = SessionState("s").load("list_mail").with_section("referred", text)
    seen = view(NATIVE, catalog, session, target=CLAUDE)
    assert "defer_loading" not in seen.tools[-1]
