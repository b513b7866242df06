"""How large is too large, how long it is kept, and what one answer may cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
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
