"""The readings of a definition: each string as it stands, and whatever is encoded in it."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from .arguments import name_words
from .decoding import DecodedText, decode_parts, read_backwards, read_digits
from .fields import DefinitionField
from .findings import PLAIN, Span
from .folding import FoldedText, fold, fold_lookalikes
from .patterns import TextPattern

# What a model is not shown need not be scanned: descriptions are cut at 20,000 characters.
MAX_CHARS = 60_000
_MAX_DEPTH = 3
_MIN_CHARS = 16
# Words of which text read the wrong way has none, so that most text is read once.
_TRIGGER_WORDS = """
ignore instruction instructions password credentials system secret before always must file files
send conversation user users the tool tools previous execute include contents pass read every
message messages silently secretly copy tell call arguments key keys not all you
"""


@dataclass(frozen=True, slots=True)
class Reading:
    """A text to apply rules to. Decoded text has the place of what it was decoded from."""

    field: DefinitionField
    folded: FoldedText
    layer: str = PLAIN
    place: Span | None = None

    def locate(self, span: Span) -> Span:
        """Where in the string of the definition a place of the text is."""
        return self.place if self.place is not None else self.folded.locate(span)


def iter_readings(field: DefinitionField) -> Iterator[Reading]:
    """The readings of one string."""
    text = field.text[:MAX_CHARS]
    folded = fold(text)
    yield Reading(field, FoldedText(text, folded))
    if field.is_key or field.kind == "name":
        words = name_words(text)
        if words != folded:
            yield Reading(field, FoldedText(words, words), place=Span(0, len(text)))
    if len(text) >= _MIN_CHARS:
        yield from _iter_decoded(field, text, PLAIN, None, 0)
        yield from _iter_other_readings(field, text, folded)


def _iter_decoded(
    field: DefinitionField, text: str, outer: str, place: Span | None, depth: int
) -> Iterator[Reading]:
    if depth >= _MAX_DEPTH:
        return
    for part in decode_parts(text):
        layer = f"{outer}, {part.layer}" if outer else part.layer
        where = place or part.span
        yield Reading(field, FoldedText(part.text, fold(part.text)), layer, where)
        yield from _iter_decoded(field, part.text, layer, where, depth + 1)


@lru_cache(maxsize=2)
def _words(read: Callable[[str], str] = str) -> TextPattern:
    return TextPattern(rf"\b(?:{'|'.join(read(word) for word in _TRIGGER_WORDS.split())})\b")


def _spell_wrongly(word: str) -> str:
    return f"{word[::-1]}|{codecs.encode(word, 'rot13')}"


def _count_triggers(text: str) -> int:
    return sum(1 for _ in _words().find(text))


def _iter_other_readings(field: DefinitionField, text: str, folded: str) -> Iterator[Reading]:
    others: list[DecodedText] = []
    if _words(_spell_wrongly).is_in(folded):
        others += read_backwards(text)
    others += read_digits(text)
    if not text.isascii():
        others.append(DecodedText("look-alikes", fold_lookalikes(text), Span(0, len(text))))
    for other in others:
        read = fold(other.text)
        if read != folded and _count_triggers(read) > max(_count_triggers(folded), 1):
            yield Reading(field, FoldedText(read, read), other.layer, other.span)
