"""A tool as the index sees it: fields of terms for the words, texts for the vectors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from ..catalog.schema import Parameter
from ..catalog.tool import Tool
from .postings import Entry
from .text import split_identifiers, terms

# One field a bit; the weights and reference lengths that BM25F works with. Lengths are fixed
# rather than averaged over the catalog: a tool's weights then depend on the tool alone, so an index
# that grew is the same as one built at once (docs/decisions/ranking.md has the ablation).
FIELDS = ("name", "description", "phrases", "parameters", "parameter descriptions", "category")
WEIGHTS = (2.0, 1.0, 1.0, 0.5, 0.3, 0.5)
LENGTHS = (3.0, 15.0, 15.0, 5.0, 30.0, 3.0)
K1 = 1.2
B = 0.5
LONGEST = 4.0
MOST_REPEATS = 3

_TEXT_CAP = 6_000
_FIRST_SENTENCE = re.compile(r"(?<=[.!?。！？])\s")


def weigh(tool: Tool) -> dict[str, Entry]:
    """Every term of a tool with its BM25F weight; repeats and long fields saturate."""
    found: dict[str, tuple[float, int]] = {}
    for number, field in enumerate(_fields(tool)):
        if not field:
            continue
        longer = min(len(field) / LENGTHS[number], LONGEST)
        unit = WEIGHTS[number] / (1 - B + B * longer)
        bit = 1 << number
        for term, count in Counter(field).items():
            weight, bits = found.get(term, (0.0, 0))
            found[term] = (weight + unit * min(count, MOST_REPEATS), bits | bit)
    return {t: (w * (K1 + 1) / (K1 + w), bits) for t, (w, bits) in found.items()}


def _fields(tool: Tool) -> Iterator[list[str]]:
    parameters = tool.parameters.parameters()
    name = terms(tool.name)
    yield name + [t for t in terms(tool.title) if t not in name] if tool.title else name
    yield terms(tool.description[:_TEXT_CAP])
    yield [t for phrase in tool.phrases for t in terms(phrase[:_TEXT_CAP])]
    yield terms(" ".join([p.name for p in parameters]))
    yield terms(" ".join([p.description[:400] for p in parameters])[:_TEXT_CAP])
    server = [t for t in terms(tool.server) if t not in name]
    yield server + terms(" ".join((tool.category, *tool.tags)))


Texts = Callable[[Tool], Sequence[tuple[str, float]]]
"""What is encoded for a tool: texts, each with its share in the one vector."""


def texts(tool: Tool) -> tuple[tuple[str, float], ...]:
    """What is encoded for a tool, with the share of each text in its one vector."""
    name = split_identifiers(tool.name) or tool.name
    description = tool.description.strip()
    outer = [p for p in tool.parameters.parameters() if p.depth == 0]
    names = ", ".join(split_identifiers(p.name) for p in outer[:30])
    first = _FIRST_SENTENCE.split(description, maxsplit=1)[0][:300]
    return (
        (f"{name}: {description[:1500]}", 0.3),
        (f"{name}: {description[:600]}, {names}", 0.4),
        (name, 0.3),
        (f"{name}: {first} {_described(outer)}", 0.4),
        *_phrases(tool.phrases),
    )


def _described(parameters: Sequence[Parameter]) -> str:
    """The arguments a call cannot do without, in words; optional ones are often boilerplate."""
    needed = [p for p in parameters if p.required] or parameters[:3]
    return "; ".join(f"{split_identifiers(p.name)}: {p.description[:80]}" for p in needed[:8])


def _phrases(phrases: Sequence[str]) -> Iterator[tuple[str, float]]:
    for phrase in phrases[:20]:
        yield phrase[:600], 0.7 / min(len(phrases), 20)
