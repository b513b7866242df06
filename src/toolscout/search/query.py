"""What a query means: the one grammar every way of asking shares (see docs/query-language.md).

    query   = (filter | "-" term)* (select | regex | words)
    filter  = ("server:" | "category:") name ("," name)*
    select  = "select:" name ("," name)*
    regex   = "/" pattern "/" flags | "re:" pattern | a lone word that looks like a pattern
    words   = (filter | "+" term | "-" term | '"' phrase '"' | word)*

Whatever is not surely an operator is a word, so no sentence is misread for the signs in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, assert_never

from ..catalog.sanitization import clean
from ..errors import QueryError
from .operators import (
    QueryToken,
    TokenKind,
    find_phrases,
    quote,
    restore_plus_signs,
    split_leading_operators,
    strip_operators,
    tokenize_query,
)
from .pattern import MAX_PATTERN_CHARS as LONGEST_PATTERN
from .pattern import Pattern, looks_like_pattern

Mode = Literal["auto", "words", "regex"]

MAX_QUERY_CHARS = 8_000
"""How many characters of plain text are read; what is beyond them is left out."""

MAX_NAMES = 10_000
"""How many names of a selection are read."""

MAX_TERMS = 64
"""How many different terms or names are read of each kind of operator."""

MAX_QUERIES = 64
"""How many different queries are read of a list."""

# Texts of any length meet these patterns, so each looks at a stretch of text only once.
_SLASHED = re.compile(r"/((?![\s*])(?:\\.|[^/\\])++)/[gims]{0,4}", re.DOTALL)
_NAMES = re.compile(r'[^\S\n]*+"([^"\n]*+)"[^\S\n]*+(?=[,\n]|$)|([^,\n]++)')
# Every operator has one of these at the beginning of a word, and every pattern that is a lone word
# one of the others; most queries have none, or only phrases, and are read at once.
_OPERATORS = re.compile(
    r"""[+/(scr-](?<!\S.)(?:(?<=[+/-])|(?<=\()\?|(?:(?<=s)e(?:rver|lect)|(?<=c)ategory|(?<=r)e):)"""
)
_PATTERN = re.compile(rf"(?=\S{{1,{LONGEST_PATTERN}}}+\Z)\S*?[|\\()\[\]^*]")
_ODD = re.compile(r"""["+/\-(:|\\)\[\]^*]""")
_AROUND = " \t\n`'\"()[]{}<>*.,;:!?…"


class Query(NamedTuple):
    """A query, read. `words` is what ranking gets once filters and exclusions are taken out.

    Required terms stay among the words, since they count there as well; so do phrases, which are
    taken as they stand. A pattern that `is_guess` only looks like one:
    when no tool matches it, the words stand. `is_cut` says that there was more than is read.
    """

    text: str
    words: str = ""
    select: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    pattern: str | None = None
    phrases: tuple[str, ...] = ()
    is_guess: bool = False
    is_cut: bool = False

    @property
    def is_empty(self) -> bool:
        """Nothing asked at all."""
        return (
            not (self.words or self.select or self.required or self.servers or self.categories)
            and self.pattern is None
        )

    @property
    def name(self) -> str:
        """The single word asked for, bare of signs around it: perhaps a name or its beginning."""
        bare = self.words.strip(_AROUND)
        return bare if " " not in bare and len(bare.split()) == 1 else ""

    def render(self) -> str:
        """A text that reads as this query again, operators in one fixed order."""
        front = [f"server:{quote(s)}" for s in self.servers]
        front += [f"category:{quote(c)}" for c in self.categories]
        front += [f"-{quote(e)}" for e in self.excluded]
        rest = self._render_form() or restore_plus_signs(self.words, self.required)
        text = " ".join(part for part in (*front, rest) if part)
        if not self.excluded and any(part.kind == "excluded" for part in tokenize_query(text)):
            return "\n".join((*front, rest))  # a minus is a word in a text of several lines
        return text

    def _render_form(self) -> str:
        if self.select:
            return "select:" + ",".join(f'"{n}"' if " " in n else n for n in self.select)
        if self.pattern is None or self.is_guess:
            return ""
        bare = self.pattern == self.pattern.strip()
        return f"re:{self.pattern}" if bare else f"/{self.pattern}/"


def parse(text: str, *, mode: Mode = "auto") -> Query:
    """Read a query; raise QueryError only for a pattern that is not one."""
    seen = clean(text, cap=len(text) + 1)
    if mode == "auto" and (_ODD.search(seen) is None or not _may_have_operators(seen)):
        words = _truncate(seen)
        return Query(
            text, words=words, phrases=find_phrases(words), is_cut=len(seen) > MAX_QUERY_CHARS
        )
    try:
        query = _parse_by_mode(seen, mode)
    except QueryError as error:
        position = _original_position(text, seen, error.position)
        raise QueryError(error.message, position=position, hint=error.hint) from error
    return query._replace(text=text)


def parse_all(queries: str | Sequence[str], *, mode: Mode = "auto") -> tuple[Query, ...]:
    """Read one query or several: a text is one, however many lines it has; a list is many."""
    if isinstance(queries, str):
        return (parse(queries, mode=mode),)
    read: list[Query] = []
    seen: set[str] = set()
    for number, text in enumerate(queries, start=1):
        if text in seen:
            continue
        if len(read) == MAX_QUERIES:
            break
        seen.add(text)
        try:
            query = parse(text, mode=mode)
        except QueryError as error:
            message = f"In query {number}: {error.message}"
            raise QueryError(message, position=error.position, hint=error.hint) from error
        if not query.is_empty:
            read.append(query)
    return tuple(read)


def _may_have_operators(seen: str) -> bool:
    return _OPERATORS.search(seen) is not None or _PATTERN.match(seen) is not None


def _parse_by_mode(seen: str, mode: Mode) -> Query:
    match mode:
        case "regex":
            return Query("", pattern=_check_pattern(seen)) if seen else Query("")
        case "words":
            return Query("", words=_truncate(seen), is_cut=len(seen) > MAX_QUERY_CHARS)
        case "auto":
            return _parse_auto(seen)
        case _:
            assert_never(mode)


def _parse_auto(seen: str) -> Query:
    """The form of what follows the leading operators, else of what is left without any."""
    front, rest = split_leading_operators(seen)
    if form := _parse_form(rest, offset=len(seen) - len(rest)):
        return form if form.is_empty else _add_filters(form, front)  # perhaps it selects nothing
    text = _truncate(seen)
    tokens = tokenize_query(text)
    rest = strip_operators(text, (t for t in tokens if t.kind != "required"))
    if form := _parse_form(rest, offset=max(0, seen.find(rest))):
        return form if form.is_empty else _add_filters(form, tokens)
    return _parse_words(text, tokens, is_cut=len(seen) > MAX_QUERY_CHARS)


def _add_filters(query: Query, operators: Sequence[QueryToken]) -> Query:
    """The query with its filters and exclusions, as many of each kind as are read."""
    servers = _token_values(operators, "server")
    categories = _token_values(operators, "category")
    excluded = _token_values(operators, "excluded")
    return query._replace(
        servers=servers[:MAX_TERMS],
        categories=categories[:MAX_TERMS],
        excluded=excluded[:MAX_TERMS],
        is_cut=query.is_cut or max(map(len, (servers, categories, excluded))) > MAX_TERMS,
    )


def _parse_form(text: str, *, offset: int) -> Query | None:
    """The query, if all of it is a selection or a pattern."""
    if text.startswith("select:"):
        return _parse_selection(text.removeprefix("select:"))
    if text.startswith("re:") and len(text) > 3 and not text[3].isspace():
        return Query("", pattern=_check_pattern(text[3:], offset=offset + 3))
    if text.startswith("/") and (match := _SLASHED.fullmatch(text)):
        return Query("", pattern=_check_pattern(match[1], offset=offset + 1))
    if looks_like_pattern(text):
        return Query("", words=text, pattern=text, is_guess=True)
    return None


def _parse_selection(listed: str) -> Query | None:
    """Names between commas; after a space they are single words, since `select: …` may be prose."""
    found: list[tuple[str, str]] = _NAMES.findall(listed)
    pairs = [(inner.strip(), bare.replace('"', "").strip()) for inner, bare in found]
    if listed[:1].isspace() and any(len(bare.split()) > 1 for _, bare in pairs):
        return None
    names = _unique(inner or bare for inner, bare in pairs)
    return Query("", select=names[:MAX_NAMES], is_cut=len(names) > MAX_NAMES)


def _check_pattern(pattern: str, *, offset: int = 0) -> str:
    try:
        return Pattern.of(pattern).source
    except QueryError as error:
        position = error.position + offset
        raise QueryError(error.message, position=position, hint=error.hint) from error


def _parse_words(text: str, tokens: Sequence[QueryToken], *, is_cut: bool) -> Query:
    words = strip_operators(text, tokens)
    required = _token_values(tokens, "required")
    query = Query(
        "",
        words=words,
        required=required[:MAX_TERMS],
        phrases=_token_values(tokens if words == text else tokenize_query(words), "phrase"),
        is_cut=is_cut or len(required) > MAX_TERMS,
    )
    return _add_filters(query, tokens)


def _truncate(text: str) -> str:
    """The text, or as many whole words of it as are read."""
    if len(text) <= MAX_QUERY_CHARS:
        return text
    head = text[:MAX_QUERY_CHARS]
    whole = head.rsplit(maxsplit=1)[0]
    return whole if len(whole) > MAX_QUERY_CHARS // 2 else head


def _token_values(tokens: Iterable[QueryToken], kind: TokenKind) -> tuple[str, ...]:
    return _unique(value for token in tokens if token.kind == kind for value in token.values)


def _unique(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if value))


def _original_position(text: str, seen: str, place: int) -> int:
    """Where a character of the cleaned text stands in the text as it was written."""
    position = -1
    for character in seen[: place + 1]:
        if not character.isspace():  # line breaks and tabs may have been made one kind
            position = text.index(character, position + 1)
    return max(0, position)
