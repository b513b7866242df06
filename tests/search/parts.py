"""Parts that the tests of search share: tools in few words, and embedders made for a purpose."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from threading import Lock
from typing import Any

import numpy as np

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.schema import Schema
from toolscout.catalog.tool import Tool
from toolscout.embedders import load_embedders
from toolscout.embedders.arrays import Floats
from toolscout.embedders.embedder import Embedder
from toolscout.errors import EmbedderError
from toolscout.search.analyzer import words
from toolscout.search.engine import Engine
from toolscout.search.hit import Results


def tool(name: str, description: str = "", /, **rest: Any) -> Tool:
    """A tool; `parameters` may be given as names with descriptions."""
    parameters = rest.pop("parameters", None)
    if isinstance(parameters, dict):
        properties = {n: {"type": "string", "description": d} for n, d in parameters.items()}
        rest["parameters"] = Schema.of({"type": "object", "properties": properties})
    return Tool(name=name, **{"description": description, **rest})


def filled(tools: Iterable[Tool], **rest: Any) -> Engine:
    """An engine over some tools, with all its vectors in place."""
    engine = Engine(Catalog(tools), **rest)
    engine.fill()
    return engine


def seen(results: Results) -> str:
    """Every text that a caller gets to see of an answer, except for the query given back."""
    parts = [*results.near, *results.notes]
    for hit in results.hits:
        parts += [hit.name, hit.tool.description, *map(str, hit.why)]
    return "\n".join(parts)


@cache
def use() -> Embedder:
    """The bundled encoder, its weights read once for all tests."""
    (encoder,) = load_embedders("use")
    return encoder


@cache
def _direction(word: str, dimensions: int) -> Floats:
    seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest())
    return np.random.default_rng(seed).normal(size=dimensions).astype(np.float32)


class Bag:
    """An embedder that counts: words are random directions, a text is the sum of its words.

    Words of one line of `meanings` point in one direction, so that it knows a language of its own.
    """

    def __init__(
        self,
        *,
        name: str = "bag",
        dimensions: int = 48,
        meanings: Sequence[str] = (),
        is_latin_only: bool = False,
    ) -> None:
        self.id = name
        self.dimensions = dimensions
        self.is_latin_only = is_latin_only
        self.encoded: list[str] = []
        self._lock = Lock()
        self._same = {w: line.split()[0] for line in meanings for w in line.split()}

    def encode(self, texts: Sequence[str]) -> Floats:
        with self._lock:
            self.encoded += texts
        rows = np.stack([self._sum(t) for t in texts])
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.where(lengths > 0, lengths, 1)

    def _sum(self, text: str) -> Floats:
        found = (_direction(self._same.get(w, w), self.dimensions) for w in words(text) or ("",))
        return sum(found, np.zeros(self.dimensions, np.float32))


class Fragile(Bag):
    """A bag that raises while `failure` is set, on every text or only on texts with `word`."""

    def __init__(self, failure: Exception | None = None, *, word: str = "") -> None:
        super().__init__(name="fragile")
        self.failure = failure
        self.word = word

    def encode(self, texts: Sequence[str]) -> Floats:
        if self.failure is not None and any(self.word in t for t in texts):
            raise self.failure
        return super().encode(texts)


def unplugged() -> EmbedderError:
    return EmbedderError("The encoder is unplugged.", hint="Plug it in.")
