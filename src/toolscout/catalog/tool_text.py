"""Text that a model reads about a tool: signature, outline and description, deterministic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .sanitization import clean_line, first_sentence
from .schema import Parameter, Schema
from .tool import Tool

NOTE_CAP = 240
_MAX_VALUES = 8
_MAX_LINES = 60


def signature(tool: Tool) -> str:
    """One line: `name(arg: type, optional?: type) — First sentence.`"""
    arguments = ", ".join(f"{_label(p)}: {_type_label(p)}" for p in tool.parameters.top_level())
    summary = first_sentence(tool.description)
    return f"{tool.name}({arguments})" + (f" — {summary}" if summary else "")


def outline(schema: Schema, *, note_cap: int = NOTE_CAP) -> str:
    """A schema in few tokens: one indented line per argument."""
    by_parent: dict[str, list[Parameter]] = {}
    for parameter in schema.parameters():
        by_parent.setdefault(parameter.parent, []).append(parameter)
    lines = list(_outline_lines(by_parent, "", note_cap))
    if len(lines) > _MAX_LINES:
        lines = [*lines[:_MAX_LINES], f"… and {len(lines) - _MAX_LINES} more"]
    return "\n".join(lines)


def describe_arguments(tool: Tool) -> str:
    """The arguments as prose: the author's own, else generated from the schema."""
    # The substring test avoids decoding the metadata of every tool.
    written = tool.meta.get("arguments") if "arguments" in tool.metadata else None
    if isinstance(written, str) and written:
        return written
    return "; ".join(_describe_parameter(p) for p in tool.parameters.top_level()) or "none"


def describe_tool(tool: Tool) -> str:
    """Everything a caller needs to know about a tool, as plain text."""
    return "\n".join(_sections(tool))


def _sections(tool: Tool) -> Iterator[str]:
    yield f"{tool.name} — {tool.title}" if tool.title else tool.name
    if tool.description:
        yield tool.description
    arguments = outline(tool.parameters)
    yield f"Arguments:\n{arguments}" if arguments else "Arguments: none"
    if tool.usage:
        yield f"Usage: {tool.usage}"
    if tool.skill:
        yield f"Skill: {tool.skill}"
    if tool.related:
        yield f"Related: {', '.join(tool.related)}"
    notes = _notes(tool)
    if notes:
        yield f"Note: {', '.join(notes)}"


def _notes(tool: Tool) -> list[str]:
    notes: list[str] = []
    if tool.risk and tool.risk != "safe":
        notes.append(tool.risk)
    if tool.requires_confirmation:
        notes.append("needs the user's confirmation")
    return notes


def _outline_lines(
    by_parent: dict[str, list[Parameter]], parent: str, note_cap: int
) -> Iterator[str]:
    for parameter in by_parent.get(parent, ()):
        text = f"{'  ' * parameter.depth}{_label(parameter)}: {_type_label(parameter)}"
        if parameter.default:
            text += f" = {clean_line(parameter.default, cap=60)}"
        if parameter.description:
            text += f" — {clean_line(parameter.description, cap=note_cap)}"
        yield text
        path = f"{parent}.{parameter.name}" if parent else parameter.name
        yield from _outline_lines(by_parent, path, note_cap)


def _label(parameter: Parameter) -> str:
    return parameter.name if parameter.required else f"{parameter.name}?"


def _type_label(parameter: Parameter) -> str:
    if not parameter.values:
        return parameter.type
    values = _join_values((f'"{v}"' for v in parameter.values), "|")
    return f"({values})[]" if parameter.type.endswith("[]") else values


def _join_values(values: Iterable[str], separator: str) -> str:
    texts = [clean_line(v, cap=60) for v in values]
    shown = texts[:_MAX_VALUES]
    return separator.join([*shown, "…"] if len(texts) > len(shown) else shown)


def _describe_parameter(parameter: Parameter) -> str:
    kind = _join_values(parameter.values, "|") or parameter.type
    facts = [kind, "required" if parameter.required else "optional"]
    if parameter.default:
        facts.append(f"default {clean_line(parameter.default, cap=60)}")
    summary = f": {first_sentence(parameter.description)}" if parameter.description else ""
    return f"{parameter.name} ({', '.join(facts)}){summary}"
