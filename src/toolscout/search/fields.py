"""A tool as the index sees it: fields with their BM25F weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ..catalog.tool import Tool
from .analyzer import tokenize
from .lexicon import Vocabulary
from .postings import DocumentTerms

# The fields of BM25F: a weight, and a reference length in terms, for each. A field's number is also
# its bit in a posting, so there can be at most eight. The lengths are fixed and not averages over
# the catalog: a tool's weights then depend on the tool alone, so an index that grew is the same as
# one built at once (docs/decisions/ranking.md).
FIELDS = (
    "name",
    "description",
    "phrases",
    "parameters",
    "parameter descriptions",
    "category",
    "server",
)
WEIGHTS = (2.0, 1.0, 1.0, 0.65, 0.4, 0.5, 2.0)
LENGTHS = (3.0, 15.0, 15.0, 5.0, 30.0, 3.0, 3.0)
# The usual parameters of BM25: K1 sets how soon repeats saturate, B how much a long field is
# discounted (0: not at all, 1: in proportion to its length).
K1 = 1.0
B = 0.5
# A very long description counts as four times the reference length, and a term counts three times
# at most in a field: stuffing a description with keywords gains little.
MAX_LENGTH_RATIO = 4.0
MAX_REPEATS = 3

# "acme-mcp-server" is about acme; the other words stand in the names of most servers.
_SERVER_NOISE = re.compile(r"(?<![^\W_])(?:mcp|server)(?![^\W_])", re.IGNORECASE)
_MAX_FIELD_CHARS = 6_000
_MAX_PARAMETER_CHARS = 400


def weigh_terms(tools: Sequence[Tool], vocabulary: Vocabulary) -> DocumentTerms:
    """Every term of some tools with its BM25F weight.

    For a term t in a tool d, summed over the fields f with weight w_f and length l_f:

        x(t, d)      = sum of w_f * min(tf, MAX_REPEATS) / (1 - B + B * l_f / reference_f)
        weight(t, d) = x * (K1 + 1) / (K1 + x)

    The inverse document frequency is multiplied in later, since it depends on the whole catalog.
    """
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
    # `sizes` has the fields of the first tool, then those of the second, and so on. Each occurrence
    # becomes one integer key (tool, term, field), so that np.unique counts them all in one pass.
    places = np.repeat(np.arange(len(sizes)), sizes)
    document, field = np.divmod(places, len(FIELDS))
    keys = (document * len(vocabulary) + numbers) * len(FIELDS) + field
    keys, counts = np.unique(keys, return_counts=True)
    ratios = np.minimum(sizes / np.tile(LENGTHS, len(tools)), MAX_LENGTH_RATIO)
    units = np.tile(WEIGHTS, len(tools)) / (1 - B + B * ratios)
    pairs, field = np.divmod(keys, len(FIELDS))
    document, number = np.divmod(pairs, len(vocabulary) or 1)
    gains = units[document * len(FIELDS) + field] * np.minimum(counts, MAX_REPEATS)
    # The keys are sorted, so the fields of one (tool, term) pair are neighbours: sum each group.
    firsts = np.flatnonzero(np.diff(pairs, prepend=-1))
    weights = np.add.reduceat(gains, firsts) if len(firsts) else gains
    bits = np.left_shift(1, field).astype(np.uint8)
    return DocumentTerms(
        documents=document[firsts].astype(np.int32),
        terms=number[firsts].astype(np.int32),
        weights=(weights * (K1 + 1) / (K1 + weights)).astype(np.float32),
        fields=np.bitwise_or.reduceat(bits, firsts) if len(firsts) else bits,
    )


def _field_terms(tool: Tool, analyze: Callable[[str], list[int]]) -> Iterator[list[int]]:
    """The term numbers of each field, in the order of FIELDS."""
    parameters = tool.parameters.descriptions()
    name = analyze(tool.local_name)
    # A title usually repeats the name. Counted twice, its words would make the name look long.
    yield name + [t for t in analyze(tool.title) if t not in name] if tool.title else name
    yield analyze(tool.description[:_MAX_FIELD_CHARS])
    yield [t for phrase in tool.phrases for t in analyze(phrase[:_MAX_FIELD_CHARS])]
    yield analyze(" ".join([p for p, _ in parameters]))
    texts = [text[:_MAX_PARAMETER_CHARS] for _, text in parameters]
    yield analyze(" ".join(texts)[:_MAX_FIELD_CHARS])
    yield analyze(" ".join((tool.category, *tool.tags)))
    yield [t for t in analyze(_SERVER_NOISE.sub(" ", tool.server)) if t not in name]


def searched_texts(tool: Tool) -> Iterator[str]:
    """The texts whose words a keyword search looks at, the most important first."""
    yield from (tool.local_name, tool.title, tool.description, *tool.phrases)
    yield from (text for parameter in tool.parameters.descriptions() for text in parameter)
    yield from (tool.category, *tool.tags, tool.server)
