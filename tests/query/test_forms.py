"""Every form of the query language, read through the public `parse`."""

from __future__ import annotations

import pytest

from toolscout.errors import QueryError
from toolscout.search.query import Query, parse, parse_all


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("select:read_file,write_file", ("read_file", "write_file")),
        ("  select: read_file ,  write_file  ", ("read_file", "write_file")),
        ("select:read_file,,read_file,", ("read_file",)),
        ("select:Read File,x", ("Read File", "x")),
        ('select:"Read, then write",x', ("Read, then write", "x")),
        ("select:a\nb", ("a", "b")),
    ],
)
def test_select_keeps_every_name_in_order_and_once(text: str, names: tuple[str, ...]) -> None:
    query = parse(text)

    assert query.select == names
    assert query.words == ""


@pytest.mark.parametrize("text", ["select:", "select: , ", "  select:,,, "])
def test_a_selection_of_nothing_is_an_empty_query(text: str) -> None:
    assert parse(text).is_empty


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "\u200b\ufeff", "\x00\x07", "\ud800"])
def test_blank_and_invisible_text_is_an_empty_query(text: str) -> None:
    query = parse(text)

    assert query.is_empty
    assert query.text == text


def test_select_after_a_space_with_prose_behind_it_is_prose() -> None:
    text = "select: the best flight from Rome, and a hotel"

    assert parse(text) == Query(text, words=text)


def test_required_terms_lose_their_sign_and_stay_words() -> None:
    query = parse("+slack send, +message")

    assert query.required == ("slack", "message")
    assert query.words == "slack send, message"


def test_a_query_of_required_terms_alone_is_not_empty() -> None:
    query = parse("+slack")

    assert query.required == ("slack",)
    assert not query.is_empty


def test_a_lone_plus_is_a_word() -> None:
    assert parse("a + b") == Query("a + b", words="a + b")


@pytest.mark.parametrize(
    "text",
    [
        "send message -slack",
        "-slack send message",
        "send -slack message",
        "please send one message to all my friends and colleagues -slack",
        "-slack please send one message to all my friends and colleagues",
    ],
)
def test_excluded_terms_leave_the_words(text: str) -> None:
    query = parse(text)

    assert query.excluded == ("slack",)
    assert "slack" not in query.words
    assert query.words == " ".join(text.replace("-slack", "").split())


@pytest.mark.parametrize(
    ("text", "servers", "categories", "words"),
    [
        ("server:github list issues", ("github",), (), "list issues"),
        ("list issues server:github", ("github",), (), "list issues"),
        ("list server:github, issues", ("github",), (), "list issues"),
        ("server:github,gitlab issues", ("github", "gitlab"), (), "issues"),
        ("server:github server:gitlab issues", ("github", "gitlab"), (), "issues"),
        ('category:"Web Content" read', (), ("Web Content",), "read"),
        ("server:google-sheets category:tables", ("google-sheets",), ("tables",), ""),
        ("server:почта отправить письмо", ("почта",), (), "отправить письмо"),
    ],
)
def test_filters_name_servers_and_categories(
    text: str, servers: tuple[str, ...], categories: tuple[str, ...], words: str
) -> None:
    query = parse(text)

    assert (query.servers, query.categories, query.words) == (servers, categories, words)


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("/^get_.*/", "^get_.*"),
        ("/get/i", "get"),
        (r"/and\/or/gi", r"and\/or"),
        ("/send (mail|message)/", "send (mail|message)"),
        ("re:^get_", "^get_"),
        ("re:a b", "a b"),
    ],
)
def test_slashes_and_re_make_a_pattern_of_everything(text: str, pattern: str) -> None:
    query = parse(text)

    assert query.pattern == pattern
    assert query.words == ""
    assert not query.is_guess


@pytest.mark.parametrize("text", ["database.*query", "(?i)slack", "get_.*", "file|folder", "^get_"])
def test_a_word_that_looks_like_a_pattern_is_one_and_stays_a_word(text: str) -> None:
    query = parse(text)

    assert query.pattern == text
    assert query.is_guess
    assert query.words == text


def test_filters_may_stand_before_every_form() -> None:
    assert parse("server:github /^get/").pattern == "^get"
    assert parse("server:github select:a,b").select == ("a", "b")
    assert parse("server:github get_.*").is_guess
    assert parse("server:github get_.*").servers == ("github",)


def test_regex_mode_takes_the_text_as_the_pattern_and_nothing_else() -> None:
    query = parse(" select:a|b ", mode="regex")

    assert query.pattern == "select:a|b"
    assert query.select == ()
    assert parse("  ", mode="regex").is_empty


def test_words_mode_reads_no_operators() -> None:
    text = 'select:a +b -ccc server:d /e/ "f g"'

    assert parse(text, mode="words") == Query(text, words=text)


def test_quoted_phrases_are_noted_and_stay_words() -> None:
    query = parse('post "good morning" to +"team chat" but not -"direct message"')

    assert query.phrases == ("good morning", "team chat")
    assert query.required == ("team chat",)
    assert query.excluded == ("direct message",)
    assert query.words == 'post "good morning" to "team chat" but not'


NATURAL = [
    "what's +5 degrees -2 in server: mode",
    "a - b",
    "e-mail",
    "C++",
    "-5",
    "+49 170 1234567",
    "http://x",
    "server://x",
    "10:30",
    "and/or",
    'say "hello',
    'the 3.5" disk',
    "ls -la",
    "tar -xv",
    "--verbose",
    "category: food and drink",
    "the server:8080 port",
    "host server:a:b",
    "re: your invoice of May",
    "Re:Zero",
    "/usr/local/bin",
    "/etc/hosts",
    "*.pdf",
    "is this a question?",
    "what (if anything) is +/- 3?",
    "US$ to A$",
    "C:\\data\\build",
    "f(x) = x^2",
    "¿cuánto es 5-3?",
    "- milk\n- eggs\n-bread and -butter",
    "I would like to go to the market -but only if it is open- and buy some milk",
    "selection: a, b",
    "Select:a,b",
]


@pytest.mark.parametrize("text", NATURAL)
def test_natural_text_never_trips_over_operators(text: str) -> None:
    assert parse(text) == Query(text, words=text, phrases=parse(text).phrases)
    assert parse(text).phrases == ()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("read_file", "read_file"),
        ("`read_file`", "read_file"),
        ('"read_file"', "read_file"),
        ("read_file().", "read_file"),
        ("github__create-issue", "github__create-issue"),
        ("read file", ""),
        ("!!!", ""),
        ("", ""),
    ],
)
def test_a_single_word_may_be_a_name_whatever_stands_around_it(text: str, name: str) -> None:
    assert parse(text).name == name


def test_a_text_of_several_lines_is_one_query_and_a_list_is_several() -> None:
    lines = "find the invoice\nmail it to Ann"

    assert [q.words for q in parse_all(lines)] == [lines]
    assert [q.words for q in parse_all(lines.split("\n"))] == ["find the invoice", "mail it to Ann"]


def test_blank_and_repeated_queries_of_a_list_are_left_out() -> None:
    assert [q.words for q in parse_all(["mail", " ", "select:", "mail", "file"])] == [
        "mail",
        "file",
    ]


def test_an_error_in_a_list_says_which_query_it_is_in() -> None:
    with pytest.raises(QueryError, match="In query 2: Invalid regex pattern"):
        parse_all(["mail", "/(/", "file"])


def test_plain_text_is_read_up_to_a_limit_at_a_whole_word() -> None:
    query = parse("word " * 200_000)

    assert query.is_cut
    assert len(query.words) <= 8_000
    assert query.words.endswith("word")
    assert not parse("word " * 1_000).is_cut


def test_a_long_text_without_spaces_is_cut_as_well() -> None:
    query = parse("a" * 1_000_000)

    assert query.is_cut
    assert query.words == "a" * 8_000


def test_a_selection_is_read_to_its_end_however_long() -> None:
    names = tuple(f"tool_{n}" for n in range(5_000))

    assert parse("select:" + ", ".join(names)).select == names


def test_hidden_characters_do_not_reach_the_words() -> None:
    assert parse("sl\u200back\x00 mes\u202esage\ud800").words == "slack message"
