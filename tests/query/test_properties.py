"""What holds for every text, however odd."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from toolscout.errors import QueryError
from toolscout.search.pattern import MAX_PATTERN_CHARS
from toolscout.search.query import Query, parse, parse_all

ANY = st.text(st.characters(exclude_categories=()), max_size=60)
"""Any text there is: control characters, lone surrogates and unassigned ones included."""

PIECES = st.sampled_from(
    ["+slack", "-teams", "server:git", 'category:"a b"', '"', '"two words"', "-", "+", "select:",
     "re:", "/a/", "get_.*", "a,b", "\n", " ", "server:", "-x", "+5", "mail", "ünï", "邮件", "'",
     ",", ".", "-邮", "(", "a|b", '-"x y"', '+"x y"', "-select:a", "&", "\\", ":"]
)  # fmt: skip
WOVEN = st.lists(st.tuples(PIECES, st.sampled_from([" ", "", "\n", "  "])), max_size=12).map(
    lambda pairs: "".join(piece + gap for piece, gap in pairs)
)
TEXTS = ANY | WOVEN


def means(query: Query) -> Query:
    return query._replace(text="")


@given(ANY | WOVEN)
@example("\ud800/\udfff(/")
@example("(" * 1_000_000)
@example('"' * 1_000_000)
@example("+" + "a." * 500_000 + "(")
@example("server:" + "a," * 500_000 + "!")
@example("\\" * 1_000_000)
@example("-ab\x00c " * 100_000)
def test_parsing_raises_on_nothing_but_a_bad_pattern(text: str) -> None:
    try:
        query = parse(text)
    except QueryError as error:
        query, failure = None, error
    else:
        failure = None

    if query is not None:
        assert query.text == text
        query.words.encode()
    if failure is not None:
        assert "/" in text or "re:" in text
        assert 0 <= failure.position < len(text)
        assert failure.hint


@given(TEXTS)
def test_text_without_signs_is_read_as_words_only(text: str) -> None:
    plain = "".join(c if c.isalnum() else " " for c in text)

    assert means(parse(plain)) == means(parse(plain, mode="words"))


@given(ANY)
def test_regex_mode_gives_a_pattern_or_says_why_not(text: str) -> None:
    try:
        query = parse(text, mode="regex")
    except QueryError:
        return

    assert query.pattern is None or 0 < len(query.pattern) <= MAX_PATTERN_CHARS
    assert query.words == ""


@given(TEXTS)
@settings(max_examples=400)
def test_a_rendered_query_reads_the_same_again(text: str) -> None:
    try:
        query = parse(text)
    except QueryError:
        return

    assert means(parse(query.render())) == means(query)


@given(TEXTS)
def test_words_are_what_was_written_in_the_order_it_was_written(text: str) -> None:
    try:
        query = parse(text)
    except QueryError:
        return

    written = iter(text)
    assert all(character in written for character in query.words if not character.isspace())


@given(st.lists(TEXTS, max_size=5))
def test_several_queries_mean_what_each_means_alone(texts: list[str]) -> None:
    try:
        alone = [parse(text) for text in dict.fromkeys(texts)]
    except QueryError:
        return

    assert list(parse_all(texts)) == [query for query in alone if not query.is_empty]


NAMES = st.from_regex(r"[a-z]{3,8}(_[a-z]{1,5})?", fullmatch=True)


@given(
    servers=st.lists(NAMES, max_size=2, unique=True),
    required=st.lists(NAMES, max_size=3, unique=True),
    excluded=st.lists(NAMES, max_size=3, unique=True),
    words=st.lists(NAMES, max_size=6),
)
def test_parts_put_together_come_apart_again(
    servers: list[str], required: list[str], excluded: list[str], words: list[str]
) -> None:
    front = [*(f"server:{s}" for s in servers), *(f"+{r}" for r in required)]
    text = " ".join([*front, *words, *(f"-{e}" for e in excluded)])

    query = parse(text)

    if servers or required or words:
        assert query.servers == tuple(servers)
        assert query.required == tuple(required)
        assert query.excluded == tuple(excluded)
        assert query.words.split() == [*required, *words]
    else:
        assert query.words == text
