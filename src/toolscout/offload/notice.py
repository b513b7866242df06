"""What stands in the place of a result that was kept aside, or was too large to keep."""

from __future__ import annotations

from dataclasses import dataclass

from .shape import Shape, render
from .tools import UNIFIED
from .weight import Weight

_END_CHARACTERS = 1_500


@dataclass(frozen=True, slots=True)
class Place:
    """Where a result was put: its bare name, and its path below the folder."""

    filename: str
    shown: str


def kept_text(
    tool: str, text: str, place: Place, *, weight: Weight, shape: Shape | None, preview: int
) -> str:
    """The notice for text: where it is, what it looks like, how it begins, how to read on."""
    size = f"{weight}, {len(text):,} characters"
    parts = [f"The result of {tool} is large ({size}); it was kept aside as {place.filename}."]
    if shape is not None:
        parts.append(f"Its shape:\n{render(shape)}")
    if end := min(preview, len(text)):
        parts.append(f"It begins (characters 1 to {end:,} of {len(text):,}):\n{text[:end]}")
    parts.append(_how(place, is_json=shape is not None))
    return "\n\n".join(parts)


def kept_data(tool: str, place: Place, *, mime: str, size: int) -> str:
    """The notice for an image or another blob: its type and size, and how to see it."""
    return (
        f"{tool} returned {mime or 'binary data'} of {size:,} bytes; it was kept aside as "
        f"{place.filename}. To see it, call {UNIFIED} with this filename and operation 'read', "
        "start 1, end 1."
    )


def too_large(tool: str, text: str, *, weight: Weight, cap: int, is_error: bool, why: str) -> str:
    """The notice for a result over the cap that could not be kept: both its ends, and advice."""
    outcome = "failed" if is_error else "was carried out"
    head, tail = text[:_END_CHARACTERS], text[_END_CHARACTERS:][-_END_CHARACTERS:]
    parts = [
        f"The result of {tool} is too large to show: {weight}; the limit is {cap:,}{why}.",
        f"The call itself {outcome}. Ask for less: filter, name fields, or page with a limit.",
        f"It begins:\n{head}",
        *([f"It ends:\n{tail}"] if tail else []),
    ]
    return "\n\n".join(parts)


def _how(place: Place, *, is_json: bool) -> str:
    names = f"{place.filename!r} (or {place.shown!r})"
    lines = [
        f"To read on, call {UNIFIED} with filename {names} and an operation:",
        "- read, with start and end: characters counted from 1, both included",
        "- search, with pattern: a regular expression; gives line numbers and the lines around",
    ]
    if is_json:
        lines.append("- query, with query: a jq program over the paths above")
    return "\n".join(lines)
