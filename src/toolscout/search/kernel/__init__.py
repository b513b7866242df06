"""The inner loops of search: compiled where there was a compiler to install with, else NumPy."""

from __future__ import annotations

from .word import SMALL, Leaning, Word

try:
    from .compiled import gather, held, ordered, parted, turns
except OSError:
    from .plain import gather, held, ordered, parted, turns

__all__ = [
    "SMALL",
    "Leaning",
    "Word",
    "gather",
    "held",
    "ordered",
    "parted",
    "turns",
]
