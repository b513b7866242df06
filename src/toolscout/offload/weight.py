"""What a text costs in tokens, without counting fifty megabytes to learn that it is too much."""

from __future__ import annotations

from dataclasses import dataclass

from ..tokens import Counter

# No readable text has more characters to a token than this; a longer one is judged by its head.
_CHARACTERS_A_TOKEN = 16
_BYTES_A_CHARACTER = 4
_BASE64_A_TOKEN = 3


@dataclass(frozen=True, slots=True)
class Weight:
    """A number of tokens, and whether it was counted or worked out from a part."""

    tokens: int
    is_exact: bool = True

    def __str__(self) -> str:
        return f"{'' if self.is_exact else 'about '}{self.tokens:,} tokens"


def weigh(text: str, *, threshold: int, by: Counter) -> Weight:
    """Count a text; exactly wherever it could decide on which side of the threshold it falls."""
    if len(text) * _BYTES_A_CHARACTER <= threshold:
        return Weight(len(text) // _BYTES_A_CHARACTER, is_exact=False)
    sample = max(1, threshold) * _CHARACTERS_A_TOKEN
    if len(text) > sample:
        counted = by.count(text[:sample])
        if counted > threshold:
            return Weight(round(counted * len(text) / sample), is_exact=False)
    return Weight(by.count(text), is_exact=by.is_exact)


def weigh_data(data: str) -> Weight:
    """About what base64 would cost if it went into the context as it is."""
    return Weight(len(data) // _BASE64_A_TOKEN, is_exact=False)
