"""The inner loops of search: compiled where there was a compiler to install with, else NumPy."""

from __future__ import annotations

from .word import SMALL, Leaning, Word

try:
    from .compiled import Letters, gather, held, ordered, parted, turns
except OSError:
    from .plain import Letters, gather, held, ordered, parted, turns

__all__ = [
    "SMALL",
    "Leaning",
    "Letters",
    "Word",
    "gather",
    "held",
    "ordered",
    "parted",
    "turns",
]
