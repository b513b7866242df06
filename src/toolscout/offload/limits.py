"""Limits of offloading, and estimates of what a text or binary data costs in tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..catalog.result import Result
from ..tokens import TokenCounter

MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadLimits:
    """Every number of the feature in one place; sizes on disk are bytes.

    `thresholds` overrides `threshold_tokens` by tool name, and None there means *never store*;
    `cap_tokens` applies even then. Once a result is `stale_turns` old, the general threshold
    applies to it whatever its tool's own threshold is.
    """

    threshold_tokens: int = 10_000
    thresholds: Mapping[str, int | None] = field(default_factory=dict[str, int | None])
    cap_tokens: int = 100_000
    turn_tokens: int = 150_000
    stale_turns: int = 10
    answer_tokens: int = 10_000
    answer_media_bytes: int = 5 * MEGABYTE
    max_age_seconds: float = 7 * 86_400.0
    sweep_seconds: float = 3_600.0
    max_session_bytes: int = 512 * MEGABYTE
    max_total_bytes: int = 4_096 * MEGABYTE
    search_seconds: float = 5.0
    query_seconds: float = 10.0
    query_bytes: int = 16 * MEGABYTE
    query_memory_bytes: int = 1_024 * MEGABYTE

    def threshold(self, tool: str, *, age_turns: int = 0) -> int | None:
        """The maximum tokens of a result of this tool; None means no threshold."""
        if age_turns >= self.stale_turns:
            return self.threshold_tokens
        return self.thresholds.get(tool, self.threshold_tokens)

    @property
    def preview_characters(self) -> int:
        """How many characters of a stored result a notice shows: half the threshold."""
        return max(0, self.threshold_tokens // 2)


# Readable text has fewer characters per token than this. So the first threshold * 16 characters
# of a longer text decide whether it is above the threshold.
MAX_CHARACTERS_PER_TOKEN = 16
# A character has at most 4 bytes in UTF-8, and a token at least 1 byte: 4 * characters is an upper
# bound of the tokens that needs no counting.
MAX_BYTES_PER_CHARACTER = 4
# Base64 has no words, so tokenizers split it into short pieces.
_BASE64_CHARACTERS_PER_TOKEN = 3


@dataclass(frozen=True, slots=True)
class TokenEstimate:
    """A number of tokens, and whether it was counted or extrapolated."""

    tokens: int
    is_exact: bool = True

    def __str__(self) -> str:
        return f"{'' if self.is_exact else 'about '}{self.tokens:,} tokens"


def estimate_tokens(text: str, *, threshold: int, counter: TokenCounter) -> TokenEstimate:
    """Count a text; only far below or above the threshold is the number an estimate."""
    if len(text) * MAX_BYTES_PER_CHARACTER <= threshold:
        return TokenEstimate(len(text) // MAX_BYTES_PER_CHARACTER, is_exact=False)
    sample = max(1, threshold) * MAX_CHARACTERS_PER_TOKEN
    if len(text) > sample:
        counted = counter.count(text[:sample])
        if counted > threshold:
            return TokenEstimate(round(counted * len(text) / sample), is_exact=False)
    return TokenEstimate(counter.count(text), is_exact=counter.is_exact)


def estimate_data_tokens(data: str) -> TokenEstimate:
    """Roughly what base64 data would cost in the context."""
    return TokenEstimate(len(data) // _BASE64_CHARACTERS_PER_TOKEN, is_exact=False)


def may_be_large(result: Result, threshold: int) -> bool:
    """Whether a result could be above the threshold, without counting its tokens."""
    # This runs on every call, and small results need nothing else of this package.
    size = sum(MAX_BYTES_PER_CHARACTER * len(c.text) + len(c.data) for c in result.content)
    return size + MAX_BYTES_PER_CHARACTER * len(result.structured or "") > threshold
