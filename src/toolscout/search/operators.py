"""The signs in a query of plain words: which of them are surely meant, and what they say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

TokenKind = Literal["word", "phrase", "required", "excluded", "server", "category"]

_FILTER_KINDS: tuple[TokenKind, ...] = ("server", "category", "excluded")
_MAX_SHORT_QUERY_WORDS = 6
_MAX_LEADING_OPERATORS = 100
_END = r"(?=[,;.!?]*(?:\s|$))"
_PHRASE = r'"(?=[^"\s,;.!?])[^"\n]*"'
_VALUE = r"(?=[\w.\-/&@+]*[^\W\d])\w(?:[\w.\-/&@+]*[\w+])?"
_TERM = r"[^\W\d](?:[\w.\-/']*\w)?"
_FILTER = rf"(?P<key>server|category):(?P<value>{_PHRASE}|{_VALUE}(?:,{_VALUE})*){_END}[,;.!?]*"
_TOKEN = re.compile(
    rf"(?<!\S)(?:{_FILTER}|(?P<sign>[+-])(?P<term>{_PHRASE}|{_TERM}){_END}[,;.!?]*"
    rf"|(?P<phrase>{_PHRASE}){_END}|\S+)"
)
_PHRASES = re.compile(rf"(?<!\S)(?:({_PHRASE}){_END}|\S+)")
_BARE = re.compile(rf"{_TERM}{_END}")


@dataclass(frozen=True, slots=True)
class QueryToken:
    """One token of a query: what it is, what it names, and where it stands."""

    kind: TokenKind
    values: tuple[str, ...]
    start: int
    end: int


def split_leading_operators(text: str) -> tuple[tuple[QueryToken, ...], str]:
    """The filters and exclusions in front of a query, and what follows them."""
    found: list[QueryToken] = []
    allowed = _FILTER_KINDS if "\n" not in text else _FILTER_KINDS[:2]
    position = 0
    while len(found) < _MAX_LEADING_OPERATORS and (match := _TOKEN.match(text, position)):
        part = _make_token(match)
        if part.kind not in allowed:
            break
        found.append(part)
        position = _skip_spaces(text, match.end())
    return tuple(found), text[position:]


def tokenize_query(text: str) -> tuple[QueryToken, ...]:
    """Every token of a text, with the signs that only look like operators read as words."""
    tokens = [_make_token(match) for match in _TOKEN.finditer(text)]
    minus = set(_exclusions(text, tokens))
    return tuple(
        replace(token, kind="word") if token.kind == "excluded" and i not in minus else token
        for i, token in enumerate(tokens)
    )


def find_phrases(text: str) -> tuple[str, ...]:
    """The different phrases of a text that has no other operators."""
    if '"' not in text:
        return ()
    found = [phrase[1:-1].strip() for phrase in _PHRASES.findall(text) if phrase]
    return tuple(dict.fromkeys(filter(None, found)))


def strip_operators(text: str, tokens: Iterable[QueryToken]) -> str:
    """The text for ranking: filters and exclusions gone, the terms of `+` without their sign."""
    kept: list[str] = []
    position = 0
    for token in tokens:
        if token.kind == "required":
            kept.append(text[position : token.start])
            position = token.start + 1
        elif token.kind in _FILTER_KINDS:
            kept.append(text[position : token.start].rstrip() + " ")
            position = _skip_spaces(text, token.end)
    return "".join((*kept, text[position:])).strip()


def restore_plus_signs(words: str, required: Iterable[str]) -> str:
    """Words with a plus put back before the terms that are required, in their order."""
    tokens = iter(tokenize_query(words))
    marks = [
        next((token.start for token in tokens if _term_of(words, token) == term), -1)
        for term in required
    ]
    for mark in sorted(set(marks) - {-1}, reverse=True):
        words = f"{words[:mark]}+{words[mark:]}"
    return words


def quote(value: str) -> str:
    """A name or term as the grammar reads it back."""
    plain = len(value) > 2 and re.fullmatch(_VALUE, value) and re.fullmatch(_TERM, value)
    return value if plain else f'"{value}"'


def _skip_spaces(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _term_of(words: str, token: QueryToken) -> str:
    if token.kind == "phrase":
        return token.values[0]
    match = _BARE.match(words, token.start) if token.kind == "word" else None
    return match.group() if match and _is_long_enough(match.group(), "required") else ""


def _make_token(match: re.Match[str]) -> QueryToken:
    start, end = match.span()
    if match.lastgroup is None:
        return QueryToken("word", (match.group(),), start, end)
    found = match.groupdict()
    if key := found["key"]:
        return QueryToken(
            "server" if key == "server" else "category", _split_names(found["value"]), start, end
        )
    if sign := found["sign"]:
        kind: TokenKind = "required" if sign == "+" else "excluded"
        return _make_term_token(kind, found["term"], start, end)
    return QueryToken("phrase", (found["phrase"][1:-1].strip(),), start, end)


def _make_term_token(kind: TokenKind, term: str, start: int, end: int) -> QueryToken:
    """A signed term; too short a one is a flag (`-v`), a grade (`+b`) or a sum, hence a word."""
    if term.startswith('"'):
        return QueryToken(kind, (term[1:-1].strip(),), start, end)
    return QueryToken(kind if _is_long_enough(term, kind) else "word", (term,), start, end)


def _is_long_enough(term: str, kind: TokenKind) -> bool:
    return len(term) >= (2 if kind == "required" else 3) or not term.isascii()


def _split_names(value: str) -> tuple[str, ...]:
    return (value[1:-1].strip(),) if value.startswith('"') else tuple(value.split(","))


def _exclusions(text: str, tokens: list[QueryToken]) -> Iterator[int]:
    """The minus signs that surely exclude: at either end of a query, or anywhere in a short one.

    In the middle of a sentence a minus is a dash, in a text of several lines perhaps a bullet, and
    with nothing else beside it there would be nothing to search for.
    """
    plain = [i for i, t in enumerate(tokens) if t.kind in ("word", "phrase")]
    if "\n" in text or all(t.kind == "excluded" for t in tokens):
        return
    first, last = (plain[0], plain[-1]) if plain else (0, 0)
    for i, token in enumerate(tokens):
        if token.kind == "excluded" and (
            len(plain) <= _MAX_SHORT_QUERY_WORDS or not first < i < last
        ):
            yield i
