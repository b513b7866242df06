"""Change single values in the text of a JSON file, so that its comments and layout stay."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...sources.mcp.config import strip_json_comments

_DECODER = json.JSONDecoder(strict=False)
_SPACE = re.compile(r"\s*")
_DEFAULT_INDENT = "  "


@dataclass(frozen=True, slots=True)
class _Member:
    """One `"key": value` of an object, as positions in the text."""

    key: str
    start: int
    value_start: int
    end: int


def set_json_value(text: str, keys: Sequence[str], value: object) -> str:
    """The text with a value set; objects on the way that are missing are added."""
    plain = strip_json_comments(text)
    start = _skip_space(plain, 0)
    for depth, key in enumerate(keys):
        members = list(_members(plain, start))
        member = next((m for m in members if m.key == key), None)
        if member is None:
            for missing in reversed(keys[depth + 1 :]):
                value = {missing: value}
            return _insert(text, plain, start, members, key, value)
        start = member.value_start
        if depth == len(keys) - 1:
            body = _render(value, _line_indent(text, member.start), _indent_unit(text))
            return text[: member.value_start] + body + text[member.end :]
    return _render(value, "", _indent_unit(text))


def remove_json_value(text: str, keys: Sequence[str]) -> str:
    """The text without a value; unchanged if it is not there."""
    plain = strip_json_comments(text)
    start = _skip_space(plain, 0)
    for key in keys[:-1]:
        member = next((m for m in _members(plain, start) if m.key == key), None)
        if member is None:
            return text
        start = member.value_start
    members = list(_members(plain, start))
    found = next((m for m in members if m.key == keys[-1]), None)
    return text if found is None else _cut(text, members, found)


def _cut(text: str, members: Sequence[_Member], member: _Member) -> str:
    # A comment above the value stays: it may be about more than this value.
    commas = _blank_strings_and_comments(text)
    number = members.index(member)
    if number + 1 < len(members):
        comma = commas.index(",", member.end)
        return _join(text[: member.start], text[member.end : comma] + text[comma + 1 :])
    if number:  # the last one: remove the comma before it
        comma = commas.rindex(",", members[number - 1].end, member.start)
        return _join(text[:comma] + text[comma + 1 : member.start], text[member.end :])
    trailing = re.match(r"\s*,", commas[member.end :])
    end = member.end + (trailing.end() if trailing else 0)
    return _join(text[: member.start], text[end:])


def _join(before: str, after: str) -> str:
    """Both parts without the space between them, but never on the line of a comment."""
    kept = before.rstrip()
    is_on_new_line = "\n" in before[len(kept) :] and not re.match(r"[ \t]*\n", after)
    return (before if is_on_new_line else kept) + after


def _insert(
    text: str, plain: str, start: int, members: Sequence[_Member], key: str, value: object
) -> str:
    unit = _indent_unit(text)
    outer = _line_indent(text, start)
    inner = _line_indent(text, members[-1].start) if members else outer
    inner = inner if len(inner) > len(outer) else outer + unit
    member = f"{inner}{_dump(key)}: {_render(value, inner, unit)}"
    _, object_end = _DECODER.raw_decode(plain, start)
    close = object_end - 1
    if not members:
        return f"{text[:close].rstrip()}\n{member}\n{outer}{text[close:]}"
    last = members[-1].end
    has_comma = "," in _blank_strings_and_comments(text)[last:close]
    before = text[:last] + ("" if has_comma else ",") + text[last:close].rstrip()
    return f"{before}\n{member}\n{outer}{text[close:]}"


def _members(plain: str, start: int) -> Iterator[_Member]:
    """The members of the object that begins at a position."""
    if plain[start : start + 1] != "{":
        raise ValueError("not an object")
    position = _skip_space(plain, start + 1)
    while plain[position] != "}":
        key, end = _DECODER.raw_decode(plain, position)
        value_start = _skip_space(plain, plain.index(":", end) + 1)
        _, value_end = _DECODER.raw_decode(plain, value_start)
        yield _Member(str(key), position, value_start, value_end)
        position = _skip_space(plain, value_end)
        if plain[position] == ",":
            position = _skip_space(plain, position + 1)


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


_STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def _blank_strings_and_comments(text: str) -> str:
    """The text with only its punctuation left, at the same positions."""
    return _STRING_OR_COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def _line_indent(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip())]


def _indent_unit(text: str) -> str:
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else _DEFAULT_INDENT


def _render(value: object, indent: str, unit: str) -> str:
    rendered = json.dumps(value, ensure_ascii=False, indent=unit)
    return rendered.replace("\n", f"\n{indent}")


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
