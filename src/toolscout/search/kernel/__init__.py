"""The inner loops of search: compiled C if a compiler was there at install time, else NumPy."""

from __future__ import annotations

from .plain import MIN_VARIANCE, ServerBoost

try:
    from .compiled import (
        LetterSignatures,
        clause_scores,
        diverse_order,
        idf_mass,
        order_slots,
        score_slots,
    )
except OSError:  # no library, or one compiled from another version of loops.c
    from .plain import (
        LetterSignatures,
        clause_scores,
        diverse_order,
        idf_mass,
        order_slots,
        score_slots,
    )

__all__ = [
    "MIN_VARIANCE",
    "LetterSignatures",
    "ServerBoost",
    "clause_scores",
    "diverse_order",
    "idf_mass",
    "order_slots",
    "score_slots",
]
