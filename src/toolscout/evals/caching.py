"""What a conversation costs where a provider caches prefixes: a small model, and its facts.

A request is read in one order: tools, system, messages. As far as it begins like the request
before it, and if that beginning is long enough, its tokens are billed as cached; the rest is
billed as written where the provider charges for writing, else as plain. Expiry is left out:
requests of one conversation follow each other.
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
    """What a token costs, against a plain input token; `minimum` is the shortest cached prefix."""

    minimum: int
    cached: float
    written: float
    output: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """One request in the order it is read, piece by piece, and what the model answered."""

    tools: tuple[str, ...]
    system: str
    messages: tuple[str, ...]
    output: str = ""

    @property
    def pieces(self) -> tuple[str, ...]:
        """All of it, in order."""
        return (*self.tools, self.system, *self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Tokens of a whole conversation by how they were billed; `total` is in plain input tokens."""

    requests: int
    cached: int
    written: int
    plain: int
    output: int
    total: float


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
"""By provider and model, as published; the last is one's own machine, where work is the price."""


def prices_for(target: Target) -> CachePrices:
    """What is known of a model's prices."""
    return next(
        facts
        for maker, model, facts in _PRICE_TABLE
        if target.provider.name.startswith(maker) and re.match(model, target.model)
    )


def compute_bill(
    requests: Sequence[ReplayRequest], rates: CachePrices, *, by: TokenCounter
) -> Bill:
    """What these requests cost, sent one after the other."""
    cached = written = plain = output = 0
    before: tuple[str, ...] = ()
    size = cache(by.count)
    for request in requests:
        sizes = [size(piece) for piece in request.pieces]
        pairs = zip(before, request.pieces, strict=False)
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        kept = sum(sizes[:shared])
        kept = kept if kept >= rates.minimum else 0
        new = sum(sizes) - kept
        cached += kept
        output += by.count(request.output)
        if sum(sizes) >= rates.minimum:
            written += new
        else:
            plain += new
        before = request.pieces
    total = cached * rates.cached + written * rates.written + plain + output * rates.output
    return Bill(
        requests=len(requests),
        cached=cached,
        written=written,
        plain=plain,
        output=output,
        total=total,
    )
