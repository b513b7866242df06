"""Count tokens: exactly if a vocabulary is installed, otherwise by an estimate."""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any, Protocol

from .errors import ConfigError, MissingExtraError, require

ENCODING = "o200k_base"
COUNTERS = ("auto", ENCODING, "cl100k_base", "estimate")


class TokenCounter(Protocol):
    """Counts the tokens of a text; `is_exact` distinguishes a count from an estimate."""

    @property
    def name(self) -> str:
        """The name of the vocabulary."""
        ...

    @property
    def is_exact(self) -> bool:
        """Whether this is a true count with that vocabulary."""
        ...

    def count(self, text: str) -> int:
        """The number of tokens of a text."""
        ...


class BPECounter:
    """An exact byte-pair count with a vocabulary of the `tokens` extra."""

    is_exact = True

    def __init__(self, encoding: str = ENCODING) -> None:
        self.name = encoding
        self._tokenizer = _load_bindings().tokenizer_for_encoding(encoding)

    def count(self, text: str) -> int:
        """The number of tokens of a text."""
        # The binding takes UTF-8 only; a text may contain half a surrogate pair.
        return self._tokenizer.count(text.encode("utf-8", "replace").decode())


def _load_bindings() -> Any:
    """Import the compiled part of bpe-openai without running the package itself."""
    # Its public class refuses long texts, and builds every token only to count them. Importing the
    # package reads all vocabularies once more in Python, which costs half a second and 60 MB.
    name = "bpe_openai._bindings"
    package = find_spec("bpe_openai")
    spec = PathFinder.find_spec(name, package.submodule_search_locations) if package else None
    if name in sys.modules or spec is None or spec.loader is None:
        return require(name, extra="tokens")
    sys.modules[name] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# One kind of piece per line, cut as byte-pair vocabularies do: scripts without spaces by the
# character, Latin words at case changes, digits in threes, punctuation and whitespace by the run.
# A space before a word belongs to the word.
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
# Tokens per character, and the minimum per piece. Fitted to o200k_base on tool definitions, queries
# and other scripts; docs/decisions/counting.md has the errors, bench/counting.py measures them.
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
    """An estimate by kinds of characters, within about 5 % of o200k_base on JSON and prose."""

    name = "estimate"
    is_exact = False

    def count(self, text: str) -> int:
        """The approximate number of tokens of a text."""
        total = 0.0
        for piece in _PIECES.finditer(text):
            rate, minimum = _RATES[piece.lastgroup or "space"]
            total += max(minimum, rate * (piece.end() - piece.start()))
        return round(total) or int(bool(text))


@cache
def get_counter(name: str = "auto") -> TokenCounter:
    """A counter by name; `auto` is the exact one if it is installed, otherwise the estimate."""
    match name:
        case "estimate":
            return EstimatingCounter()
        case "auto":
            try:
                return BPECounter()
            except MissingExtraError:
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


def count_json(value: object, *, counter: TokenCounter) -> int:
    """The tokens of a value as compact JSON, as it is sent."""
    return counter.count(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))


def truncate_to_tokens(text: str, *, budget_tokens: int, counter: TokenCounter) -> str:
    """The start of a text that fits a budget, within a tenth of the longest possible."""
    if budget_tokens <= 0:
        return ""
    # Readable text has fewer than 16 characters per token, so a huge text is not counted whole.
    low, high = 0, min(len(text), budget_tokens * 16)
    if high == len(text) and counter.count(text) <= budget_tokens:
        return text
    # A binary search that stops early: each step counts half a text, and a tenth is close enough.
    while high - low > max(1, low // 10):
        middle = (low + high) // 2
        if counter.count(text[:middle]) <= budget_tokens:
            low = middle
        else:
            high = middle
    return text[:low]
