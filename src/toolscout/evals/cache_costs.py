"""The cost of a conversation with a provider that caches prompt prefixes.

A request is read in one order: tools, system, messages. The part that equals the start of the
previous request is billed as cached, if it is long enough; the rest is billed as written, or as
plain below the minimum. Expiry is ignored: requests of one conversation follow each other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile

from ..disclosure.target import Target
from ..tokens import TokenCounter


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePrices:
    """Token prices relative to a plain input token; `minimum` is the shortest cached prefix."""

    minimum: int
    cached: float
    written: float
    output: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """One request in pieces, in the order it is read, and the output of the model."""

    tools: tuple[str, ...]
    system: str
    messages: tuple[str, ...]
    output: str = ""

    @property
    def pieces(self) -> tuple[str, ...]:
        """All pieces in order."""
        return (*self.tools, self.system, *self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """The tokens of a conversation by price; `total` is in plain input tokens."""

    requests: int
    cached: int
    written: int
    plain: int
    output: int
    total: float


# From the price lists of the providers in November 2026; docs/prompt-caching.md has the same table.
# The first row that matches counts: a provider's name by prefix, then a model's by pattern.
_PRICE_TABLE: tuple[tuple[str, str, CachePrices], ...] = (
    (
        "anthropic",
        r"claude-(opus|fable|mythos)-5",
        CachePrices(minimum=512, cached=0.1, written=1.25, output=5),
    ),
    (
        "anthropic",
        r"claude-opus-4-7",
        CachePrices(minimum=2048, cached=0.1, written=1.25, output=5),
    ),
    (
        "anthropic",
        r"claude-(opus-4-[56]|haiku)",
        CachePrices(minimum=4096, cached=0.1, written=1.25, output=5),
    ),
    ("anthropic", r"", CachePrices(minimum=1024, cached=0.1, written=1.25, output=5)),
    (
        "openai-",
        r"gpt-(5\.[6-9]|[6-9])",
        CachePrices(minimum=1024, cached=0.1, written=1.25, output=6),
    ),
    ("openai-", r"gpt-4o", CachePrices(minimum=1024, cached=0.5, written=1, output=4)),
    ("openai-", r"gpt-4\.1|o[34]", CachePrices(minimum=1024, cached=0.25, written=1, output=4)),
    ("openai-", r"", CachePrices(minimum=1024, cached=0.1, written=1, output=6)),
    ("gemini", r"gemini-2", CachePrices(minimum=1024, cached=0.1, written=1, output=8)),
    ("gemini", r"", CachePrices(minimum=4096, cached=0.1, written=1, output=6)),
    ("", r"", CachePrices(minimum=0, cached=0, written=1, output=1)),
)
"""Prices by provider and model; the last row is a local model, where only new tokens cost work."""


def prices_for(target: Target) -> CachePrices:
    """The prices of a model."""
    return next(
        prices
        for provider, model, prices in _PRICE_TABLE
        if target.provider.name.startswith(provider) and re.match(model, target.model)
    )


def compute_bill(
    requests: Sequence[ReplayRequest], prices: CachePrices, *, counter: TokenCounter
) -> Bill:
    """The cost of these requests, sent one after the other."""
    cached = written = plain = output = 0
    before: tuple[str, ...] = ()
    # Most pieces repeat in every request of a conversation.
    size = cache(counter.count)
    for request in requests:
        sizes = [size(piece) for piece in request.pieces]
        pairs = zip(before, request.pieces, strict=False)
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        prefix = sum(sizes[:shared])
        hit = prefix if prefix >= prices.minimum else 0
        new = sum(sizes) - hit
        cached += hit
        output += counter.count(request.output)
        if sum(sizes) >= prices.minimum:
            written += new
        else:
            plain += new
        before = request.pieces
    total = cached * prices.cached + written * prices.written + plain + output * prices.output
    return Bill(
        requests=len(requests),
        cached=cached,
        written=written,
        plain=plain,
        output=output,
        total=total,
    )
