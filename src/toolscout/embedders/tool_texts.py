"""The texts of a tool that are encoded, and the share of each in the tool's vector."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from ..catalog.identifiers import split_identifiers
from ..catalog.schema import Parameter
from ..catalog.tool import Tool
from .languages import ENGLISH, is_probably_in, language_of

_MAX_DESCRIPTION_CHARS = 2_000
_FIRST_SENTENCE = re.compile(r"(?<=[.!?。！？])\s")

TextRecipe = Callable[[Tool], Sequence[tuple[str, float]]]
"""Which texts of a tool are encoded, each with its share in the tool's single vector."""

RECIPE_VERSION = "texts 3"
"""Part of the cache keys: change it whenever `embedding_texts` produces other texts."""


def embedding_input(tool: Tool) -> str:
    """Everything that `embedding_texts` depends on: equal inputs give equal texts."""
    parts = (RECIPE_VERSION, tool.name, tool.description, tool.parameters.text, *tool.phrases)
    return "\2".join(parts)


# Each text stresses another part of a tool, and the cuts keep a long description from hiding the
# name. docs/decisions/ranking.md has the effect of leaving out each of the three.
def embedding_texts(tool: Tool) -> tuple[tuple[str, float], ...]:
    """The texts that are encoded for a tool, with the share of each in its single vector."""
    name = split_identifiers(tool.name) or tool.name
    description = tool.description.strip()
    first = _FIRST_SENTENCE.split(description, maxsplit=1)[0][:300]
    return (
        (f"{name}: {description[:1500]}", 0.3),
        (name, 0.3),
        (f"{name}: {first} {_describe_parameters(tool.parameters.top_level())}", 0.4),
        *_phrase_texts(tool.phrases),
    )


def _describe_parameters(parameters: Sequence[Parameter]) -> str:
    """The required parameters in words."""
    # Optional ones (tenant, retries, authentication) are often the same for every tool of a catalog
    # and would make all vectors alike.
    required = [p for p in parameters if p.required] or parameters[:3]
    return "; ".join(f"{split_identifiers(p.name)}: {p.description[:80]}" for p in required[:8])


def _phrase_texts(phrases: Sequence[str]) -> Iterator[tuple[str, float]]:
    # All phrases together have a third of the vector: 0.5 beside the 1.0 of the other texts.
    for phrase in phrases[:20]:
        yield phrase[:600], 0.5 / min(len(phrases), 20)


def language_texts(tool: Tool) -> Iterator[tuple[str, str]]:
    """The texts of a tool, name and description apart, each with its language."""
    text = " ".join((tool.description[:_MAX_DESCRIPTION_CHARS], *tool.phrases))
    language = language_of(text)
    yield text, language
    name = f"{tool.name} {tool.title}"
    # Many tools have English names and descriptions in another language.
    yield name, language if is_probably_in(split_identifiers(name), language) else ENGLISH
