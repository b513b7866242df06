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

from ..catalog.clean import clean
from ..errors import QueryError
from .operators import Kind, Part, leading, parts, phrases, quoted, remaining, signed
from .pattern import LONGEST as LONGEST_PATTERN
from .pattern import Pattern, looks_like

Mode = Literal["auto", "words", "regex"]

LONGEST = 8_000
"""How many characters of plain text are read; what is beyond them is left out."""

MOST_NAMES = 10_000
"""How many names of a selection are read."""

MOST_TERMS = 64
"""How many different terms or names are read of each kind of operator."""

MOST_QUERIES = 64
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
        front = [f"server:{quoted(s)}" for s in self.servers]
        front += [f"category:{quoted(c)}" for c in self.categories]
        front += [f"-{quoted(e)}" for e in self.excluded]
        rest = self._form() or signed(self.words, self.required)
        text = " ".join(part for part in (*front, rest) if part)
        if not self.excluded and any(part.kind == "excluded" for part in parts(text)):
            return "\n".join((*front, rest))  # a minus is a word in a text of several lines
        return text

    def _form(self) -> str:
        if self.select:
            return "select:" + ",".join(f'"{n}"' if " " in n else n for n in self.select)
        if self.pattern is None or self.is_guess:
            return ""
        bare = self.pattern == self.pattern.strip()
        return f"re:{self.pattern}" if bare else f"/{self.pattern}/"


def parse(text: str, *, mode: Mode = "auto") -> Query:
    """Read a query; raise QueryError only for a pattern that is not one."""
    seen = clean(text, cap=len(text) + 1)
    if mode == "auto" and (_ODD.search(seen) is None or not _has_signs(seen)):
        words = _cut(seen)
        return Query(text, words=words, phrases=phrases(words), is_cut=len(seen) > LONGEST)
    try:
        query = _by_mode(seen, mode)
    except QueryError as error:
        position = _origin(text, seen, error.position)
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
        if len(read) == MOST_QUERIES:
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


def _has_signs(seen: str) -> bool:
    return _OPERATORS.search(seen) is not None or _PATTERN.match(seen) is not None


def _by_mode(seen: str, mode: Mode) -> Query:
    match mode:
        case "regex":
            return Query("", pattern=_checked(seen)) if seen else Query("")
        case "words":
            return Query("", words=_cut(seen), is_cut=len(seen) > LONGEST)
        case "auto":
            return _auto(seen)
        case _:
            assert_never(mode)


def _auto(seen: str) -> Query:
    """The form of what follows the leading operators, else of what is left without any."""
    front, rest = leading(seen)
    if form := _form(rest, offset=len(seen) - len(rest)):
        return form if form.is_empty else _narrowed(form, front)  # perhaps it selects nothing
    text = _cut(seen)
    tokens = parts(text)
    rest = remaining(text, (t for t in tokens if t.kind != "required"))
    if form := _form(rest, offset=max(0, seen.find(rest))):
        return form if form.is_empty else _narrowed(form, tokens)
    return _plain(text, tokens, is_cut=len(seen) > LONGEST)


def _narrowed(query: Query, operators: Sequence[Part]) -> Query:
    """The query with its filters and exclusions, as many of each kind as are read."""
    servers = _values(operators, "server")
    categories = _values(operators, "category")
    excluded = _values(operators, "excluded")
    return query._replace(
        servers=servers[:MOST_TERMS],
        categories=categories[:MOST_TERMS],
        excluded=excluded[:MOST_TERMS],
        is_cut=query.is_cut or max(map(len, (servers, categories, excluded))) > MOST_TERMS,
    )


def _form(text: str, *, offset: int) -> Query | None:
    """The query, if all of it is a selection or a pattern."""
    if text.startswith("select:"):
        return _selection(text.removeprefix("select:"))
    if text.startswith("re:") and len(text) > 3 and not text[3].isspace():
        return Query("", pattern=_checked(text[3:], offset=offset + 3))
    if text.startswith("/") and (match := _SLASHED.fullmatch(text)):
        return Query("", pattern=_checked(match[1], offset=offset + 1))
    if looks_like(text):
        return Query("", words=text, pattern=text, is_guess=True)
    return None


def _selection(listed: str) -> Query | None:
    """Names between commas; after a space they are single words, since `select: …` may be prose."""
    found: list[tuple[str, str]] = _NAMES.findall(listed)
    pairs = [(inner.strip(), bare.replace('"', "").strip()) for inner, bare in found]
    if listed[:1].isspace() and any(len(bare.split()) > 1 for _, bare in pairs):
        return None
    names = _unique(inner or bare for inner, bare in pairs)
    return Query("", select=names[:MOST_NAMES], is_cut=len(names) > MOST_NAMES)


def _checked(pattern: str, *, offset: int = 0) -> str:
    try:
        return Pattern.of(pattern).source
    except QueryError as error:
        position = error.position + offset
        raise QueryError(error.message, position=position, hint=error.hint) from error


def _plain(text: str, tokens: Sequence[Part], *, is_cut: bool) -> Query:
    words = remaining(text, tokens)
    required = _values(tokens, "required")
    query = Query(
        "",
        words=words,
        required=required[:MOST_TERMS],
        phrases=_values(tokens if words == text else parts(words), "phrase"),
        is_cut=is_cut or len(required) > MOST_TERMS,
    )
    return _narrowed(query, tokens)


def _cut(text: str) -> str:
    """The text, or as many whole words of it as are read."""
    if len(text) <= LONGEST:
        return text
    head = text[:LONGEST]
    whole = head.rsplit(maxsplit=1)[0]
    return whole if len(whole) > LONGEST // 2 else head


def _values(tokens: Iterable[Part], kind: Kind) -> tuple[str, ...]:
    return _unique(value for token in tokens if token.kind == kind for value in token.values)


def _unique(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if value))


def _origin(text: str, seen: str, place: int) -> int:
    """Where a character of the cleaned text stands in the text as it was written."""
    position = -1
    for character in seen[: place + 1]:
        if not character.isspace():  # line breaks and tabs may have been made one kind
            position = text.index(character, position + 1)
    return max(0, position)
