"""How large is too large, what a text costs in tokens, and what one answer may cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..tokens import TokenCounter

MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadLimits:
    """Every number of the feature in one place; sizes on disk are bytes.

    `thresholds` overrides `threshold_tokens` by tool name, and None there means *never keep
    aside*; `cap_tokens` holds even then. Once a result is `stale_turns` old, the general
    threshold holds for it whatever its tool was allowed.
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
        """The most tokens a result of this tool may have; None means any number."""
        if age_turns >= self.stale_turns:
            return self.threshold_tokens
        return self.thresholds.get(tool, self.threshold_tokens)

    @property
    def preview_characters(self) -> int:
        """How much of a result stays in view: half the threshold, counted in characters."""
        return max(0, self.threshold_tokens // 2)


# No readable text has more characters to a token than this; a longer one is judged by its head.
_CHARACTERS_PER_TOKEN = 16
_BYTES_PER_CHARACTER = 4
_BASE64_PER_TOKEN = 3


@dataclass(frozen=True, slots=True)
class TokenEstimate:
    """A number of tokens, and whether it was counted or worked out from a part."""

    tokens: int
    is_exact: bool = True

    def __str__(self) -> str:
        return f"{'' if self.is_exact else 'about '}{self.tokens:,} tokens"


def estimate_tokens(text: str, *, threshold: int, by: TokenCounter) -> TokenEstimate:
    """Count a text; exactly wherever it could decide on which side of the threshold it falls."""
    if len(text) * _BYTES_PER_CHARACTER <= threshold:
        return TokenEstimate(len(text) // _BYTES_PER_CHARACTER, is_exact=False)
    sample = max(1, threshold) * _CHARACTERS_PER_TOKEN
    if len(text) > sample:
        counted = by.count(text[:sample])
        if counted > threshold:
            return TokenEstimate(round(counted * len(text) / sample), is_exact=False)
    return TokenEstimate(by.count(text), is_exact=by.is_exact)


def estimate_data_tokens(data: str) -> TokenEstimate:
    """About what base64 would cost if it went into the context as it is."""
    return TokenEstimate(len(data) // _BASE64_PER_TOKEN, is_exact=False)
