"""Counting tokens: exactly where a vocabulary is installed, else an estimate that says so."""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any, Protocol

from .errors import ConfigError, MissingExtra, require

ENCODING = "o200k_base"
COUNTERS = ("auto", ENCODING, "cl100k_base", "estimate")


class TokenCounter(Protocol):
    """Says how many tokens a text costs; `is_exact` tells a count from an estimate."""

    @property
    def name(self) -> str:
        """The vocabulary counted with."""
        ...

    @property
    def is_exact(self) -> bool:
        """Whether this is that vocabulary's true count."""
        ...

    def count(self, text: str) -> int:
        """How many tokens this text is."""
        ...


class BPECounter:
    """A true byte-pair count with the vocabulary that the `tokens` extra carries."""

    is_exact = True

    def __init__(self, encoding: str = ENCODING) -> None:
        self.name = encoding
        self._tokenizer = _load_bindings().tokenizer_for_encoding(encoding)

    def count(self, text: str) -> int:
        """How many tokens this text is."""
        return self._tokenizer.count(text.encode("utf-8", "replace").decode())


def _load_bindings() -> Any:
    """The compiled part of the package, without the rest of it.

    Its public class refuses long texts and builds every token to count them, and its import reads
    all vocabularies once more in Python: half a second and 60 MB that nobody needs.
    """
    name = "bpe_openai._bindings"
    package = find_spec("bpe_openai")
    spec = PathFinder.find_spec(name, package.submodule_search_locations) if package else None
    if name in sys.modules or spec is None or spec.loader is None:
        return require(name, extra="tokens")
    sys.modules[name] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# One class of pieces a line, as byte-pair vocabularies cut text: unbroken scripts by the
# character, Latin words at their humps, digits in threes, marks and gaps by the run. A space
# before a word belongs to the word.
_PIECES = re.compile(
    r"""
      (?P<cjk>[\u2e80-\u30ff\u31f0-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]+)
    | (?P<hangul>[\u1100-\u11ff\u3130-\u318f\uac00-\ud7af]+)
    | (?P<accented>[A-Z]?[a-z]*[\u00c0-\u024f][a-z\u00c0-\u024f]*)
    | (?P<latin>[A-Z]+(?![a-z])|[A-Z]?[a-z]+)
    | (?P<number>[0-9]{1,3})
    | (?P<other>[^\x00-\x7f]+)
    | (?P<space>[ ](?![\s0-9]))
    | (?P<gap>\s+)
    | (?P<mark>[^\w\s]+|_+)
    """,
    re.VERBOSE,
)
# Tokens a character, and the least a piece costs.
_RATES = {
    "cjk": (0.76, 0.0),
    "hangul": (0.75, 1.0),
    "accented": (0.48, 1.0),
    "latin": (0.125, 1.0),
    "number": (0.33, 1.0),
    "other": (0.32, 1.0),
    "space": (0.0, 0.0),
    "gap": (0.1, 1.0),
    "mark": (0.33, 0.9),
}


class EstimatingCounter:
    """A guess by kinds of characters, fitted to o200k_base: near 5 % on JSON, prose and CJK."""

    name = "estimate"
    is_exact = False

    def count(self, text: str) -> int:
        """About how many tokens this text is."""
        total = 0.0
        for piece in _PIECES.finditer(text):
            rate, least = _RATES[piece.lastgroup or "space"]
            total += max(least, rate * (piece.end() - piece.start()))
        return round(total) or int(bool(text))


@cache
def get_counter(name: str = "auto") -> TokenCounter:
    """A counter by name; `auto` is the true one where it is installed, else the estimate."""
    match name:
        case "estimate":
            return EstimatingCounter()
        case "auto":
            try:
                return BPECounter()
            except MissingExtra:
                return EstimatingCounter()
        case "o200k_base" | "cl100k_base":
            return BPECounter(name)
        case _:
            raise ConfigError(
                f"There is no token counter {name!r}.", hint=f"Choose from: {', '.join(COUNTERS)}."
            )


def default_counter() -> TokenCounter:
    """The counter used when none is named."""
    return get_counter("auto")


def count_json(value: object, *, by: TokenCounter) -> int:
    """What a JSON value costs as it goes over the wire, without needless spaces."""
    return by.count(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))


def truncate_to_tokens(text: str, *, budget_tokens: int, by: TokenCounter) -> str:
    """A beginning of a text that fits a budget, about as long as it can be."""
    if budget_tokens <= 0:
        return ""
    # Readable text has fewer characters than this to a token, so a huge one is not counted whole.
    low, high = 0, min(len(text), budget_tokens * 16)
    if high == len(text) and by.count(text) <= budget_tokens:
        return text
    while high - low > max(1, low // 10):
        middle = (low + high) // 2
        if by.count(text[:middle]) <= budget_tokens:
            low = middle
        else:
            high = middle
    return text[:low]
