"""One index for callers who may see different things: what is hidden leaves no trace."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.search.parts import Bag, filled, seen, tool

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.search.engine import Engine
from toolscout.search.rankers.bm25f import BM25F, WordRanking
from toolscout.search.ranking import RankingRequest

# Each tool has a word that no other has; common words make every query touch many of them.
SECRETS = ("falcon", "ledger", "magnet", "pepper", "violin", "walnut", "anchor", "bishop")
SLIPS = ("falcn", "leger", "magnte", "peper", "violim", "wallnut", "ancor", "bishpo")


def guarded(number: int) -> Tool:
    secret = SECRETS[number]
    server = ("git", "slack", "cms")[number % 3]
    return tool(
        f"{server}__send_{secret}",
        f"Sends a {secret} by mail.",
        server=server,
        category=("post", "files")[number % 2],
        related=(f"{('git', 'slack', 'cms')[(number + 1) % 3]}__send_{SECRETS[(number + 1) % 8]}",),
        phrases=(f"mail my {secret}",),
        parameters={f"{secret}_id": f"which {secret} to mail"},
    )


TOOLS = [guarded(number) for number in range(8)]
NAMES = [t.name for t in TOOLS]
WORDS = filled(TOOLS)
DENSE = filled(TOOLS, embedders=[Bag()])

forms: list[Callable[[str, str], str]] = [
    lambda secret, slip: f"send a {secret}",
    lambda secret, slip: f"please mail the {slip}",
    lambda secret, slip: f"send_{secret}",
    lambda secret, slip: f"sendS{secret[1:]}",
    lambda secret, slip: f"select:git__send_{secret},cms__send_{secret},slack__send_{secret}",
    lambda secret, slip: f"select:{secret}",
    lambda secret, slip: f"/{secret[:4]}/",
    lambda secret, slip: f"/{secret}|mail/",
    lambda secret, slip: f"send_{secret[:3]}",
    lambda secret, slip: "git__",
    lambda secret, slip: "server:git",
    lambda secret, slip: f"category:post {secret}",
    lambda secret, slip: f"+{secret} mail",
    lambda secret, slip: f"mail -{secret}",
    lambda secret, slip: secret,
    lambda secret, slip: slip,
    lambda secret, slip: f"mail a {secret} and then send the {slip} to the office",
]
asked = st.builds(
    lambda form, number: form(SECRETS[number], SLIPS[number]),
    st.sampled_from(forms),
    st.integers(0, 7),
)


def rule(kind: str, allowed: frozenset[str]) -> object:
    match kind:
        case "callable":
            return lambda each: each.name in allowed
        case "list":
            return sorted(allowed)
        case _:
            return allowed


@given(
    query=asked,
    allowed=st.frozensets(st.sampled_from(NAMES)),
    limit=st.sampled_from([1, 3, 50]),
    kind=st.sampled_from(["callable", "list", "frozenset"]),
    engine=st.sampled_from([WORDS, DENSE]),
)
@settings(max_examples=400)
def test_no_name_word_or_count_of_what_is_hidden_shows(
    query: str, allowed: frozenset[str], limit: int, kind: str, engine: Engine
) -> None:
    found = engine.search(query, limit=limit, allow=rule(kind, allowed))  # type: ignore[arg-type]

    assert set(found.names) <= allowed
    assert set(found.near) <= allowed
    shown = seen(found)
    hidden = {s for s, n in zip(SECRETS, NAMES, strict=True) if n not in allowed}
    for secret in hidden - set(re.findall(r"\w+", query.replace("_", " "))):
        assert secret not in shown.replace(query, "")


@given(query=asked, allowed=st.frozensets(st.sampled_from(NAMES)))
@settings(max_examples=300)
def test_the_answer_is_made_of_what_an_index_without_the_hidden_would_give(
    query: str, allowed: frozenset[str]
) -> None:
    without = Engine(Catalog(t for t in TOOLS if t.name in allowed))

    ours = WORDS.search(query, limit=50, allow=allowed)
    theirs = without.search(query, limit=50)

    assert set(ours.names) == set(theirs.names)
    assert ours.notes == theirs.notes
    assert {h.name: [str(r) for r in h.why if r.arm != "related"] for h in ours.hits} == {
        h.name: [str(r) for r in h.why if r.arm != "related"] for h in theirs.hits
    }


def test_everything_and_nothing_may_be_allowed() -> None:
    assert WORDS.search("mail", limit=50, allow=None).names == WORDS.search("mail", limit=50).names
    assert WORDS.search("mail", limit=50, allow=NAMES).names == WORDS.search("mail", limit=50).names
    for query in ("mail", "select:falcon", "/./", "server:git", "git__send_falcon"):
        nothing = WORDS.search(query, allow=[])
        assert (nothing.names, nothing.near, nothing.confidence) == ((), (), 0), query


def test_names_that_do_not_exist_allow_nothing() -> None:
    assert WORDS.search("mail", allow=["git__send_falcon", "no_such_tool"]).names == (
        "git__send_falcon",
    )


def test_a_hidden_tool_does_not_stand_before_one_that_may_be_seen() -> None:
    """Both are called alike; the one that may be seen is found as if the other were not there."""
    engine = Engine(
        Catalog(
            [tool("Read", "Reads a page."), tool("read", "Reads a file."), tool("a__read", "X")]
        )
    )

    for query in ("select:Read", "Read"):
        assert engine.search(query).names[0] == "Read"
        assert engine.search(query, allow=["read"]).names == ("read",)


def test_many_hidden_names_do_not_crowd_out_the_beginning_of_one() -> None:
    hidden = [tool(f"git_a{i:04}", "Is hidden.") for i in range(1_000)]
    engine = Engine(Catalog([*hidden, tool("git_zip", "Packs files.")]))

    assert engine.search("git_", allow=["git_zip"]).names == ("git_zip",)


def test_rules_may_be_objects_of_any_kind_that_can_be_called() -> None:
    class Rule:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, each: Tool) -> bool:
            return each.server == "git"

    found = WORDS.search("mail", limit=50, allow=Rule())

    assert {h.tool.server for h in found.hits} == {"git"}


def test_a_rule_sees_each_tool_of_each_snapshot_once() -> None:
    looked: list[str] = []

    def rule(each: Tool) -> bool:
        looked.append(each.name)
        return True

    engine = Engine(Catalog(TOOLS))
    for _ in range(3):
        engine.search("mail", allow=rule)
    assert sorted(looked) == sorted(NAMES)

    engine.update(engine.catalog.add(tool("clock", "Tells the time.")))
    assert engine.search("time", allow=rule).names == ("clock",)


@pytest.mark.parametrize("kind", ["callable", "list", "frozenset"])
def test_allowed_tools_follow_the_catalog(kind: str) -> None:
    engine = Engine(Catalog(TOOLS))
    allow = rule(kind, frozenset([NAMES[0], "clock"]))
    assert engine.search("mail", allow=allow).names == (NAMES[0],)  # type: ignore[arg-type]

    engine.update(engine.catalog.remove(NAMES[0]).add(tool("clock", "Tells time by mail.")))

    assert engine.search("mail", allow=allow).names == ("clock",)  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", [WORDS, DENSE], ids=["words", "vectors"])
@pytest.mark.parametrize("query", ["{}", "mail a {}", "send {} {} {}"])
def test_the_evidence_of_a_search_does_not_reveal_hidden_words(engine: Engine, query: str) -> None:
    hidden, nonsense = SECRETS[:3], ("qwrtzplk", "xkvbrrt", "zzprqw")
    visible = frozenset(t.name for t in TOOLS if not any(word in t.name for word in hidden))

    found = engine.search(query.format(*hidden), allow=visible).evidence
    unknown = engine.search(query.format(*nonsense), allow=visible).evidence

    assert (found and found[-3:]) == (unknown and unknown[-3:]), "matched, missing and named"


class Noted(BM25F):
    """Notes how far each search trusts words."""

    def __init__(self) -> None:
        super().__init__()
        self.trusts: list[float] = []

    def rank(self, request: RankingRequest) -> WordRanking | None:
        ranking = super().rank(request)
        self.trusts.append(ranking.trust if ranking else 0.0)
        return ranking


def test_an_unknown_word_says_less_to_a_caller_who_sees_few_tools() -> None:
    noted = Noted()
    others = [tool(f"other_{number}", "Does something else.") for number in range(300)]
    engine = Engine(Catalog([tool("send_mail", "Sends mail."), *others]), rankers=[noted])
    for query in ("send mail to grandmother tomorrow", "send mail"):
        engine.search(query)
        engine.search(query, allow=["send_mail"])
    everything, few, known, known_by_few = noted.trusts
    assert everything < few < noted.weight
    assert known == known_by_few == noted.weight
