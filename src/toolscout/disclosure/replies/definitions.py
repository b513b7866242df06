"""Definitions of tools, written out for a model to call them by."""

from __future__ import annotations

from collections.abc import Sequence

from ...catalog.card import first_sentence, outline
from ...catalog.tool import Tool

_LINE_CAP = 90
_NOTE_CAP = 60


def plainly(tools: Sequence[Tool]) -> str:
    """Name, description and the whole schema as JSON, one tool after another."""
    return "\n\n".join(f"{t.name}: {t.description}\n{t.parameters.text}" for t in tools)


def compactly(tools: Sequence[Tool]) -> str:
    """The same with a line a parameter instead of JSON."""
    return "\n\n".join(f"{t.name}: {t.description}\n{_outline(t)}" for t in tools)


def in_a_line(tool: Tool, *, name: str = "") -> str:
    """A tool in one line: what it must be given, how much it may be given, and what it does."""
    parameters = tool.parameters.top()
    needed = [p.name for p in parameters if p.required]
    left = len(parameters) - len(needed)
    taken = ", ".join([*needed, *([f"+{left} optional"] if left else [])])
    said = first_sentence(tool.description, cap=_LINE_CAP)
    return f"{name or tool.name}({taken}): {said}"


def _outline(tool: Tool) -> str:
    return outline(tool.parameters, note_cap=_NOTE_CAP) or "(no arguments)"
