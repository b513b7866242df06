"""A tool as the index sees it: fields of terms for the words, texts for the vectors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ..catalog.schema import Parameter
from ..catalog.tool import Tool
from .analyzer import split_identifiers, tokenize
from .postings import DocumentTerms, Vocabulary

# One field a bit; the weights and reference lengths that BM25F works with. Lengths are fixed
# rather than averaged over the catalog: a tool's weights then depend on the tool alone, so an index
# that grew is the same as one built at once (docs/decisions/ranking.md has the ablation).
FIELDS = (
    "name",
    "description",
    "phrases",
    "parameters",
    "parameter descriptions",
    "category",
    "server",
)
WEIGHTS = (2.0, 1.0, 1.0, 0.5, 0.3, 0.5, 2.0)
LENGTHS = (3.0, 15.0, 15.0, 5.0, 30.0, 3.0, 3.0)
K1 = 1.2
B = 0.5
MAX_LENGTH_RATIO = 4.0
MAX_REPEATS = 3

_SERVER_NOISE = re.compile(r"(?<![^\W_])(?:mcp|server)(?![^\W_])", re.IGNORECASE)
_TEXT_CAP = 6_000
_FIRST_SENTENCE = re.compile(r"(?<=[.!?。！？])\s")


def weigh_terms(tools: Sequence[Tool], vocabulary: Vocabulary) -> DocumentTerms:
    """Every term of some tools with its BM25F weight; repeats and long fields saturate."""
    flat: list[int] = []
    lengths: list[int] = []

    def add_terms(text: str) -> list[int]:
        return vocabulary.add_words(tokenize(text))

    for tool in tools:
        for field in _field_terms(tool, add_terms):
            lengths.append(len(field))
            flat += field
    numbers = np.array(flat, np.int64)
    sizes = np.array(lengths, np.int64)
    places = np.repeat(np.arange(len(sizes)), sizes)  # a tool's fields stand one after another
    document, field = np.divmod(places, len(FIELDS))
    keys = (document * len(vocabulary) + numbers) * len(FIELDS) + field
    keys, counts = np.unique(keys, return_counts=True)
    longer = np.minimum(sizes / np.tile(LENGTHS, len(tools)), MAX_LENGTH_RATIO)
    units = np.tile(WEIGHTS, len(tools)) / (1 - B + B * longer)
    pairs, field = np.divmod(keys, len(FIELDS))
    document, number = np.divmod(pairs, len(vocabulary) or 1)
    gains = units[document * len(FIELDS) + field] * np.minimum(counts, MAX_REPEATS)
    firsts = np.flatnonzero(np.diff(pairs, prepend=-1))
    weights = np.add.reduceat(gains, firsts) if len(firsts) else gains
    bits = np.left_shift(1, field).astype(np.uint8)
    return DocumentTerms(
        documents=document[firsts].astype(np.int32),
        terms=number[firsts].astype(np.int32),
        weights=(weights * (K1 + 1) / (K1 + weights)).astype(np.float32),
        fields=np.bitwise_or.reduceat(bits, firsts) if len(firsts) else bits,
    )


def _field_terms(tool: Tool, read: Callable[[str], list[int]]) -> Iterator[list[int]]:
    described = tool.parameters.descriptions()
    name = read(tool.local_name)
    yield name + [t for t in read(tool.title) if t not in name] if tool.title else name
    yield read(tool.description[:_TEXT_CAP])
    yield [t for phrase in tool.phrases for t in read(phrase[:_TEXT_CAP])]
    yield read(" ".join([p for p, _ in described]))
    yield read(" ".join([text[:400] for _, text in described])[:_TEXT_CAP])
    yield read(" ".join((tool.category, *tool.tags)))
    yield [t for t in read(_SERVER_NOISE.sub(" ", tool.server)) if t not in name]


TextRecipe = Callable[[Tool], Sequence[tuple[str, float]]]
"""What is encoded for a tool: texts, each with its share in the one vector."""


RECIPE_VERSION = "texts 2"
"""Which way of making texts vectors were made by; another way needs another name."""


def embedding_input(tool: Tool) -> str:
    """All that the texts of a tool are made of, and how: the same origin gives the same texts."""
    parts = (RECIPE_VERSION, tool.name, tool.description, tool.parameters.text, *tool.phrases)
    return "\2".join(parts)


def embedding_texts(tool: Tool) -> tuple[tuple[str, float], ...]:
    """What is encoded for a tool, with the share of each text in its one vector."""
    name = split_identifiers(tool.name) or tool.name
    description = tool.description.strip()
    outer = tool.parameters.top_level()
    names = ", ".join(split_identifiers(p.name) for p in outer[:30])
    first = _FIRST_SENTENCE.split(description, maxsplit=1)[0][:300]
    return (
        (f"{name}: {description[:1500]}", 0.3),
        (f"{name}: {description[:600]}, {names}", 0.4),
        (name, 0.3),
        (f"{name}: {first} {_describe_parameters(outer)}", 0.4),
        *_phrase_texts(tool.phrases),
    )


def _describe_parameters(parameters: Sequence[Parameter]) -> str:
    """The arguments a call cannot do without, in words; optional ones are often boilerplate."""
    needed = [p for p in parameters if p.required] or parameters[:3]
    return "; ".join(f"{split_identifiers(p.name)}: {p.description[:80]}" for p in needed[:8])


def _phrase_texts(phrases: Sequence[str]) -> Iterator[tuple[str, float]]:
    for phrase in phrases[:20]:
        yield phrase[:600], 0.7 / min(len(phrases), 20)
