"""Parse queries by the one grammar that every interface shares (docs/query-language.md).

    query   = (filter | "-" term)* (select | regex | words)
    filter  = ("server:" | "category:") name ("," name)*
    select  = "select:" name ("," name)*
    regex   = "/" pattern "/" flags | "re:" pattern | a lone word that looks like a pattern
    words   = (filter | "+" term | "-" term | '"' phrase '"' | word)*

Everything that is not certainly an operator is a word, so that no sentence is misread because of a
sign in it.
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
    quote,
    restore_plus_signs,
    split_leading_operators,
    strip_operators,
    tokenize_query,
)
from .pattern import MAX_PATTERN_CHARS, Pattern, looks_like_pattern

Mode = Literal["auto", "words", "regex"]

# Limits on what a client can make the server do with one request. Anything beyond them is ignored,
# and the results say so.
MAX_QUERY_CHARS = 8_000
"""The longest text of a query in characters."""

MAX_NAMES = 10_000
"""The most names in a selection."""

MAX_TERMS = 64
"""The most different terms or names for each kind of operator."""

MAX_QUERIES = 64
"""The most different queries in a list."""

# These patterns run on texts of any length; possessive quantifiers and bounds keep them linear.
_SLASHED = re.compile(r"/((?![\s*])(?:\\.|[^/\\])++)/[gims]{0,4}", re.DOTALL)
_NAMES = re.compile(r'[^\S\n]*+"([^"\n]*+)"[^\S\n]*+(?=[,\n]|$)|([^,\n]++)')
# A quick test: every operator matches the first pattern at the start of a word, and every query
# that is a bare regular expression matches the second. Most queries match neither and need no
# parsing.
_OPERATORS = re.compile(
    r"""[+/(scr-](?<!\S.)(?:(?<=[+/-])|(?<=\()\?|(?:(?<=s)e(?:rver|lect)|(?<=c)ategory|(?<=r)e):)"""
)
_PATTERN = re.compile(rf"(?=\S{{1,{MAX_PATTERN_CHARS}}}+\Z)\S*?[|\\()\[\]^*]")
_SIGN = re.compile(r"""["+/\-(:|\\)\[\]^*]""")
_PUNCTUATION = " \t\n`'\"()[]{}<>*.,;:!?…"


class Query(NamedTuple):
    """A parsed query; `words` is the text for ranking, without filters and exclusions.

    Required terms and phrases stay in `words`, since they count for ranking too. If `is_guess`, the
    text only looks like a pattern: if no tool matches it, `words` is searched. `is_cut` says that
    the query was longer than what is read.
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
        """Whether the query is empty."""
        return (
            not (self.words or self.select or self.required or self.servers or self.categories)
            and self.pattern is None
        )

    @property
    def name(self) -> str:
        """The only word of the query, without punctuation around it; empty if there are several.

        It may be a tool's name or the beginning of one.
        """
        bare = self.words.strip(_PUNCTUATION)
        return bare if " " not in bare and len(bare.split()) == 1 else ""

    def render(self) -> str:
        """A text that parses to this query again, with operators in a fixed order."""
        operators = [f"server:{quote(s)}" for s in self.servers]
        operators += [f"category:{quote(c)}" for c in self.categories]
        operators += [f"-{quote(e)}" for e in self.excluded]
        rest = self._render_form() or restore_plus_signs(self.words, self.required)
        text = " ".join(part for part in (*operators, rest) if part)
        # A word that begins with a minus would now be read as an exclusion. In a text of several
        # lines a minus is always a word, so a line break protects it.
        if not self.excluded and any(part.kind == "excluded" for part in tokenize_query(text)):
            return "\n".join((*operators, rest))
        return text

    def _render_form(self) -> str:
        if self.select:
            return "select:" + ",".join(f'"{n}"' if " " in n else n for n in self.select)
        if self.pattern is None or self.is_guess:
            return ""
        is_stripped = self.pattern == self.pattern.strip()
        return f"re:{self.pattern}" if is_stripped else f"/{self.pattern}/"


def parse(text: str, *, mode: Mode = "auto") -> Query:
    """Parse a query; raises QueryError only for an invalid pattern."""
    cleaned = clean(text, cap=len(text) + 1)
    if mode == "auto" and (_SIGN.search(cleaned) is None or not _may_have_operators(cleaned)):
        words = _truncate(cleaned)
        phrases = _token_values(tokenize_query(words), "phrase") if '"' in words else ()
        return Query(text, words=words, phrases=phrases, is_cut=len(cleaned) > MAX_QUERY_CHARS)
    try:
        query = _parse_by_mode(cleaned, mode)
    except QueryError as error:
        position = _original_position(text, cleaned, error.position)
        raise QueryError(error.message, position=position, hint=error.hint) from error
    return query._replace(text=text)


def parse_all(queries: str | Sequence[str], *, mode: Mode = "auto") -> tuple[Query, ...]:
    """Parse one query or a list of queries; a text of several lines is one query."""
    if isinstance(queries, str):
        return (parse(queries, mode=mode),)
    parsed: list[Query] = []
    seen: set[str] = set()
    for number, text in enumerate(queries, start=1):
        if text in seen:
            continue
        if len(parsed) == MAX_QUERIES:
            break
        seen.add(text)
        try:
            query = parse(text, mode=mode)
        except QueryError as error:
            raise name_query(error, number) from error
        if not query.is_empty:
            parsed.append(query)
    return tuple(parsed)


def name_query(error: QueryError, number: int) -> QueryError:
    """The error with the position of its query in a list of several."""
    message = f"In query {number}: {error.message}"
    return QueryError(message, position=error.position, hint=error.hint)


def _may_have_operators(text: str) -> bool:
    return _OPERATORS.search(text) is not None or _PATTERN.match(text) is not None


def _parse_by_mode(text: str, mode: Mode) -> Query:
    match mode:
        case "regex":
            return Query("", pattern=_check_pattern(text)) if text else Query("")
        case "words":
            return Query("", words=_truncate(text), is_cut=len(text) > MAX_QUERY_CHARS)
        case "auto":
            return _parse_auto(text)
        case _:
            assert_never(mode)


def _parse_auto(text: str) -> Query:
    """Parse a selection or a pattern with filters around it, else words."""
    # First with the filters in front: a selection may be long, and only the rest of the text is
    # cut.
    leading, rest = split_leading_operators(text)
    if form := _parse_form(rest, offset=len(text) - len(rest)):
        # An empty selection selects nothing; with filters it would list all they leave.
        return form if form.is_empty else _add_filters(form, leading)
    # Then with filters anywhere.
    cut = _truncate(text)
    tokens = tokenize_query(cut)
    rest = strip_operators(cut, (t for t in tokens if t.kind != "required"))
    if form := _parse_form(rest, offset=max(0, text.find(rest))):
        return form if form.is_empty else _add_filters(form, tokens)
    return _parse_words(cut, tokens, is_cut=len(text) > MAX_QUERY_CHARS)


def _add_filters(query: Query, operators: Sequence[QueryToken]) -> Query:
    """Add filters and exclusions to a query, up to the limit of each kind."""
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
    """Parse a text that is a selection or a pattern as a whole; None for anything else."""
    if text.startswith("select:"):
        return _parse_selection(text.removeprefix("select:"))
    if text.startswith("re:") and len(text) > 3 and not text[3].isspace():
        return Query("", pattern=_check_pattern(text[3:], offset=offset + 3))
    if text.startswith("/") and (match := _SLASHED.fullmatch(text)):
        return Query("", pattern=_check_pattern(match[1], offset=offset + 1))
    if looks_like_pattern(text):
        return Query("", words=text, pattern=text, is_guess=True)
    return None


def _parse_selection(text: str) -> Query | None:
    """Parse comma-separated names, quoted or not."""
    found: list[tuple[str, str]] = _NAMES.findall(text)
    pairs = [(quoted.strip(), bare.replace('"', "").strip()) for quoted, bare in found]
    # `select: the best tool for me` is prose: after a space only single words are names.
    if text[:1].isspace() and any(len(bare.split()) > 1 for _, bare in pairs):
        return None
    names = _unique(quoted or bare for quoted, bare in pairs)
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
    """Cut a text to the limit, at a word boundary if there is one in the second half."""
    if len(text) <= MAX_QUERY_CHARS:
        return text
    head = text[:MAX_QUERY_CHARS]
    whole = head.rsplit(maxsplit=1)[0]
    return whole if len(whole) > MAX_QUERY_CHARS // 2 else head


def _token_values(tokens: Iterable[QueryToken], kind: TokenKind) -> tuple[str, ...]:
    return _unique(value for token in tokens if token.kind == kind for value in token.values)


def _unique(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if value))


def _original_position(text: str, cleaned: str, place: int) -> int:
    """The position in the original text of a character in the cleaned text."""
    position = -1
    for character in cleaned[: place + 1]:
        if not character.isspace():  # cleaning may replace line breaks and tabs
            position = text.index(character, position + 1)
    return max(0, position)
