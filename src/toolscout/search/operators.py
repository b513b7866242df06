"""Operators in a query: filters, required and excluded terms, phrases."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

TokenKind = Literal["word", "phrase", "required", "excluded", "server", "category"]

_FILTER_KINDS: tuple[TokenKind, ...] = ("server", "category", "excluded")
# In a query of so few words a minus is meant as an operator wherever it stands.
_MAX_SHORT_QUERY_WORDS = 6
_MAX_LEADING_OPERATORS = 100

# Parts of the grammar. A token ends at a space or the end of the text; punctuation before that is
# not part of it. A filter value and a term need a letter: `-5` and `server:80` are words.
_END = r"(?=[,;.!?]*(?:\s|$))"
_PHRASE = r'"(?=[^"\s,;.!?])[^"\n]*"'
_VALUE = r"(?=[\w.\-/&@+]*[^\W\d])\w(?:[\w.\-/&@+]*[\w+])?"
_TERM = r"[^\W\d](?:[\w.\-/']*\w)?"
_FILTER = rf"(?P<key>server|category):(?P<value>{_PHRASE}|{_VALUE}(?:,{_VALUE})*){_END}[,;.!?]*"
_TOKEN = re.compile(
    rf"(?<!\S)(?:{_FILTER}|(?P<sign>[+-])(?P<term>{_PHRASE}|{_TERM}){_END}[,;.!?]*"
    rf"|(?P<phrase>{_PHRASE}){_END}|\S+)"
)
_BARE = re.compile(rf"{_TERM}{_END}")


@dataclass(frozen=True, slots=True)
class QueryToken:
    """A token of a query: its kind, its values, and its position."""

    kind: TokenKind
    values: tuple[str, ...]
    start: int
    end: int


def split_leading_operators(text: str) -> tuple[tuple[QueryToken, ...], str]:
    """The filters and exclusions at the beginning of a query, and the rest."""
    found: list[QueryToken] = []
    # In a text of several lines a minus may be a bullet.
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
    """All tokens of a text; a minus that is probably a dash or a bullet makes a word."""
    tokens = [_make_token(match) for match in _TOKEN.finditer(text)]
    exclusions = set(_exclusions(text, tokens))
    return tuple(
        replace(token, kind="word") if token.kind == "excluded" and i not in exclusions else token
        for i, token in enumerate(tokens)
    )


def strip_operators(text: str, tokens: Iterable[QueryToken]) -> str:
    """The text for ranking: without filters and exclusions, required terms without the plus."""
    pieces: list[str] = []
    position = 0
    for token in tokens:
        if token.kind == "required":
            pieces.append(text[position : token.start])
            position = token.start + 1
        elif token.kind in _FILTER_KINDS:
            pieces.append(text[position : token.start].rstrip() + " ")
            position = _skip_spaces(text, token.end)
    return "".join((*pieces, text[position:])).strip()


def restore_plus_signs(words: str, required: Iterable[str]) -> str:
    """Put a plus before the required terms of a text, in their order."""
    # One iterator for all terms: each search continues where the last one stopped.
    tokens = iter(tokenize_query(words))
    positions = [
        next((token.start for token in tokens if _term_of(words, token) == term), -1)
        for term in required
    ]
    for position in sorted(set(positions) - {-1}, reverse=True):
        words = f"{words[:position]}+{words[position:]}"
    return words


def quote(value: str) -> str:
    """A name or term with quotes if the grammar needs them."""
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
    """A term with a sign; one that is too short is a flag (`-v`) or a grade (`+b`), so a word."""
    if term.startswith('"'):
        return QueryToken(kind, (term[1:-1].strip(),), start, end)
    return QueryToken(kind if _is_long_enough(term, kind) else "word", (term,), start, end)


def _is_long_enough(term: str, kind: TokenKind) -> bool:
    return len(term) >= (2 if kind == "required" else 3) or not term.isascii()


def _split_names(value: str) -> tuple[str, ...]:
    return (value[1:-1].strip(),) if value.startswith('"') else tuple(value.split(","))


def _exclusions(text: str, tokens: list[QueryToken]) -> Iterator[int]:
    """The places of exclusions: at either end of a query, or anywhere in a short one."""
    # In the middle of a sentence a minus is a dash, and in a text of several lines it may be a
    # bullet. A query of nothing but exclusions has nothing to search for, so its words are meant.
    plain = [i for i, t in enumerate(tokens) if t.kind in ("word", "phrase")]
    if "\n" in text or all(t.kind == "excluded" for t in tokens):
        return
    first, last = (plain[0], plain[-1]) if plain else (0, 0)
    for i, token in enumerate(tokens):
        if token.kind == "excluded" and (
            len(plain) <= _MAX_SHORT_QUERY_WORDS or not first < i < last
        ):
            yield i
