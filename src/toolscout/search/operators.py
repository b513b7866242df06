"""The signs in a query of plain words: which of them are surely meant, and what they say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["word", "phrase", "required", "excluded", "server", "category"]

_APART: tuple[Kind, ...] = ("server", "category", "excluded")
_SHORT = 6
_MOST = 100
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
class Part:
    """One token of a query: what it is, what it names, and where it stands."""

    kind: Kind
    values: tuple[str, ...]
    start: int
    end: int


def leading(text: str) -> tuple[tuple[Part, ...], str]:
    """The filters and exclusions in front of a query, and what follows them."""
    found: list[Part] = []
    allowed = _APART if "\n" not in text else _APART[:2]
    position = 0
    while len(found) < _MOST and (match := _TOKEN.match(text, position)):
        part = _part(match)
        if part.kind not in allowed:
            break
        found.append(part)
        position = _next(text, match.end())
    return tuple(found), text[position:]


def parts(text: str) -> tuple[Part, ...]:
    """Every token of a text, with the signs that only look like operators read as words."""
    tokens = [_part(match) for match in _TOKEN.finditer(text)]
    minus = set(_exclusions(text, tokens))
    return tuple(
        replace(token, kind="word") if token.kind == "excluded" and i not in minus else token
        for i, token in enumerate(tokens)
    )


def phrases(text: str) -> tuple[str, ...]:
    """The different phrases of a text that has no other operators."""
    if '"' not in text:
        return ()
    found = [phrase[1:-1].strip() for phrase in _PHRASES.findall(text) if phrase]
    return tuple(dict.fromkeys(filter(None, found)))


def remaining(text: str, tokens: Iterable[Part]) -> str:
    """The text for ranking: filters and exclusions gone, the terms of `+` without their sign."""
    kept: list[str] = []
    position = 0
    for token in tokens:
        if token.kind == "required":
            kept.append(text[position : token.start])
            position = token.start + 1
        elif token.kind in _APART:
            kept.append(text[position : token.start].rstrip() + " ")
            position = _next(text, token.end)
    return "".join((*kept, text[position:])).strip()


def signed(words: str, required: Iterable[str]) -> str:
    """Words with a plus put back before the terms that are required, in their order."""
    tokens = iter(parts(words))
    marks = [
        next((token.start for token in tokens if _bare(words, token) == term), -1)
        for term in required
    ]
    for mark in sorted(set(marks) - {-1}, reverse=True):
        words = f"{words[:mark]}+{words[mark:]}"
    return words


def quoted(value: str) -> str:
    """A name or term as the grammar reads it back."""
    plain = len(value) > 2 and re.fullmatch(_VALUE, value) and re.fullmatch(_TERM, value)
    return value if plain else f'"{value}"'


def _next(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _bare(words: str, token: Part) -> str:
    if token.kind == "phrase":
        return token.values[0]
    match = _BARE.match(words, token.start) if token.kind == "word" else None
    return match.group() if match and _is_long(match.group(), "required") else ""


def _part(match: re.Match[str]) -> Part:
    start, end = match.span()
    if match.lastgroup is None:
        return Part("word", (match.group(),), start, end)
    found = match.groupdict()
    if key := found["key"]:
        return Part("server" if key == "server" else "category", _names(found["value"]), start, end)
    if sign := found["sign"]:
        kind: Kind = "required" if sign == "+" else "excluded"
        return _term(kind, found["term"], start, end)
    return Part("phrase", (found["phrase"][1:-1].strip(),), start, end)


def _term(kind: Kind, term: str, start: int, end: int) -> Part:
    """A signed term; too short a one is a flag (`-v`), a grade (`+b`) or a sum, hence a word."""
    if term.startswith('"'):
        return Part(kind, (term[1:-1].strip(),), start, end)
    return Part(kind if _is_long(term, kind) else "word", (term,), start, end)


def _is_long(term: str, kind: Kind) -> bool:
    return len(term) >= (2 if kind == "required" else 3) or not term.isascii()


def _names(value: str) -> tuple[str, ...]:
    return (value[1:-1].strip(),) if value.startswith('"') else tuple(value.split(","))


def _exclusions(text: str, tokens: list[Part]) -> Iterator[int]:
    """The minus signs that surely exclude: at either end of a query, or anywhere in a short one.

    In the middle of a sentence a minus is a dash, in a text of several lines perhaps a bullet, and
    with nothing else beside it there would be nothing to search for.
    """
    plain = [i for i, t in enumerate(tokens) if t.kind in ("word", "phrase")]
    if "\n" in text or all(t.kind == "excluded" for t in tokens):
        return
    first, last = (plain[0], plain[-1]) if plain else (0, 0)
    for i, token in enumerate(tokens):
        if token.kind == "excluded" and (len(plain) <= _SHORT or not first < i < last):
            yield i
