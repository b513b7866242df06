"""Upstream text is data: hidden characters go, and nothing is longer than its cap."""

from __future__ import annotations

import re

NAME_CAP = 512
LINE_CAP = 2_000
TEXT_CAP = 20_000

# Controls but tab and newline; soft hyphen; zero-width and joiner marks; bidi marks, embeddings,
# overrides and isolates; invisible operators; variation selectors; the byte-order mark;
# interlinear marks; tag characters; lone surrogates.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)
_JOINERS = re.compile("(?<=[\u0600-\u0dff])[\u200c\u200d](?=[\u0600-\u0dff])")


def clean(text: str, *, cap: int = TEXT_CAP) -> str:
    """Drop what a reader cannot see, keep what a script needs, and cut at the cap."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.isascii() or not text.isprintable():
        kept = {m.start() for m in _JOINERS.finditer(text)} if not text.isascii() else set[int]()
        text = _HIDDEN.sub(lambda m: m.group() if m.start() in kept else "", text)
    text = text.strip()
    return text if len(text) <= cap else text[: cap - 1].rstrip() + "…"


def clean_line(text: str, *, cap: int = LINE_CAP) -> str:
    """The same, on one line."""
    return clean(" ".join(text.split()), cap=cap)
