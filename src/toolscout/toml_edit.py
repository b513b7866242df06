"""Change one table in the text of a TOML file, so that its comments and layout stay."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, cast

_HEADER = re.compile(r"^\s*\[+\s*(?P<name>[^\]]+?)\s*\]+\s*(?:#.*)?$")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class TOMLEditError(ValueError):
    """The text cannot be changed line by line; it has to be edited by hand."""


def set_toml_table(text: str, keys: Sequence[str], table: Mapping[str, Any]) -> str:
    """The text with one table replaced, or added at its end."""
    block = render_toml_table(keys, table)
    kept, place = _without_table(text, keys)
    before, after = ("\n".join(kept[:place]), "\n".join(kept[place:]))
    parts = [part.strip("\n") for part in (before, block, after)]
    result = "\n\n".join(part for part in parts if part) + "\n"
    return _verified(text, result, keys, table)


def remove_toml_table(text: str, keys: Sequence[str]) -> str:
    """The text without one table and the tables inside it."""
    kept, _ = _without_table(text, keys)
    return _verified(text, "\n".join(kept).strip("\n") + "\n", keys, None)


def set_toml_flag(text: str, keys: Sequence[str], flag: str, *, value: bool | None) -> str:
    """The text with `flag = value` in one table; None removes the flag."""
    lines = text.splitlines()
    place = next((n for n, line in enumerate(lines) if header_keys(line) == tuple(keys)), None)
    table = _find(tomllib.loads(text), keys)
    if place is None or not isinstance(table, dict):
        raise TOMLEditError
    end = next((n for n in range(place + 1, len(lines)) if header_keys(lines[n])), len(lines))
    pattern = re.compile(rf"^\s*{re.escape(flag)}\s*=")
    body = [line for line in lines[place + 1 : end] if not pattern.match(line)]
    added = [] if value is None else [f"{flag} = {json.dumps(value)}"]
    expected = {k: v for k, v in cast("dict[str, Any]", table).items() if k != flag}
    if value is not None:
        expected[flag] = value
    result = "\n".join([*lines[: place + 1], *added, *body, *lines[end:]]) + "\n"
    return _verified(text, result, keys, expected)


def set_toml_list(text: str, keys: Sequence[str], name: str, items: Sequence[str]) -> str:
    """The text with one list in one table; an empty list is removed, with its table if empty.

    Lines of items that stay, and comments, are not changed.
    """
    table = dict(_find(tomllib.loads(text), keys) or {})
    lines = text.splitlines()
    place = next((n for n, line in enumerate(lines) if header_keys(line) == tuple(keys)), None)
    after = {**{k: v for k, v in table.items() if k != name}, **({name: [*items]} if items else {})}
    if not after:
        return remove_toml_table(text, keys)
    if place is None:
        block = [f"[{_join_keys(keys)}]", *_list_lines(name, items)]
        return _verified(text, "\n".join([*_separated(lines), *block]) + "\n", keys, after)
    first, end = _assignment(lines, place, name)
    changed = _edit_list(lines[first:end], name, items) if items else []
    try:
        return _verified(text, _join_lines(lines[:first], changed, lines[end:]), keys, after)
    except TOMLEditError:  # several items on a line, for example: write the list again
        changed = _list_lines(name, items) if items else []
        return _verified(text, _join_lines(lines[:first], changed, lines[end:]), keys, after)


def _assignment(lines: Sequence[str], place: int, name: str) -> tuple[int, int]:
    """Where the lines of a value begin and end; an empty place after the table if it has none."""
    end = next((n for n in range(place + 1, len(lines)) if header_keys(lines[n])), len(lines))
    pattern = re.compile(rf"^\s*(?:{re.escape(name)}|[\"']{re.escape(name)}[\"'])\s*=")
    first = next((n for n in range(place + 1, end) if pattern.match(lines[n])), None)
    if first is None:
        while end > place + 1 and not lines[end - 1].strip():
            end -= 1
        return end, end
    for last in range(first + 1, len(lines) + 1):
        if _parses("\n".join(lines[first:last])):
            return first, last
    raise TOMLEditError


def _edit_list(lines: Sequence[str], name: str, items: Sequence[str]) -> list[str]:
    """The lines of a list with one item on each, without those that leave, with those that come."""
    if len(lines) < 2:
        return _list_lines(name, items)
    kept: list[str] = []
    present: list[str] = []
    for line in lines[1:-1]:
        found = _items_of(line)
        if found and found[0] not in items:
            continue
        present += found
        kept.append(_with_comma(line) if found else line)
    new = [f"  {_value(item)}," for item in items if item not in present]
    return [lines[0], *kept, *new, lines[-1]]


def _items_of(line: str) -> list[str]:
    """The items on one line of a list."""
    try:
        return tomllib.loads(f"items = [\n{line}\n]")["items"]
    except tomllib.TOMLDecodeError:
        return []


def _with_comma(line: str) -> str:
    """The line of an item, with a comma before its comment if it has none."""
    if not _parses(f"items = [\n{line}\n'more'\n]"):
        for end in range(len(line), 0, -1):
            candidate = f"{line[:end]},{line[end:]}"
            if _parses(f"items = [\n{candidate}\n'more'\n]"):
                return f"{line[:end].rstrip()},{line[end:]}"
    return line


def _parses(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _list_lines(name: str, items: Sequence[str]) -> list[str]:
    return [f"{_key(name)} = [", *(f"  {_value(item)}," for item in items), "]"]


def _separated(lines: Sequence[str]) -> list[str]:
    """The lines, with an empty one after them if there are any."""
    return [*lines, ""] if lines and lines[-1].strip() else [*lines]


def _join_lines(*parts: Sequence[str]) -> str:
    return "\n".join(line for part in parts for line in part) + "\n"


def render_toml_table(keys: Sequence[str], table: Mapping[str, Any]) -> str:
    """One table with its header; tables inside it are written inline."""
    lines = [f"{_key(name)} = {_value(value)}" for name, value in table.items()]
    return "\n".join((f"[{_join_keys(keys)}]", *lines)) + "\n"


def _without_table(text: str, keys: Sequence[str]) -> tuple[list[str], int]:
    """The lines outside a table, and where it was; the end if it was not there."""
    kept: list[str] = []
    place: int | None = None
    is_inside = False
    for line in text.splitlines():
        if header := header_keys(line):
            is_inside = header[: len(keys)] == tuple(keys)
            place = len(kept) if is_inside and place is None else place
        if not is_inside:
            kept.append(line)
    return kept, len(kept) if place is None else place


def header_keys(line: str) -> tuple[str, ...]:
    """The keys of a line such as `[servers.time]`; none for other lines."""
    match = _HEADER.match(line)
    if match is None:
        return ()
    if all(map(_BARE_KEY.fullmatch, keys := match["name"].split("."))):
        return tuple(keys)  # parsing is slow for files with thousands of tables
    try:
        table: Any = tomllib.loads(f"[{match['name']}]")
    except tomllib.TOMLDecodeError:
        return ()
    quoted: list[str] = []
    while table:
        (key,) = table
        quoted.append(key)
        table = table[key]
    return tuple(quoted)


def _verified(text: str, result: str, keys: Sequence[str], table: Mapping[str, Any] | None) -> str:
    """The result, if it is the intended one: lines can mislead, inside strings for example."""
    expected = _replaced(tomllib.loads(text), list(keys), table)
    try:
        is_right = tomllib.loads(result) == expected
    except tomllib.TOMLDecodeError:
        is_right = False
    if not is_right:
        raise TOMLEditError
    return result


def _replaced(
    document: dict[str, Any], keys: list[str], table: Mapping[str, Any] | None
) -> dict[str, Any]:
    first, *rest = keys
    if rest:
        inner = _replaced(document.get(first, {}), rest, table)
        # A table without entries is not written, since it has no header of its own.
        others = {k: v for k, v in document.items() if k != first}
        return {**document, first: inner} if inner else others
    others = {k: v for k, v in document.items() if k != first}
    return others if table is None else {**document, first: dict(table)}


def _find(document: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] -- checked here
    return document  # pyright: ignore[reportUnknownVariableType] -- any value


def _join_keys(keys: Sequence[str]) -> str:
    return ".".join(_key(key) for key in keys)


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _value(value: object) -> str:
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value).items()
        return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in pairs) + "}"
    if isinstance(value, list | tuple):
        items = cast("list[object]", value)
        return "[" + ", ".join(_value(item) for item in items) + "]"
    # JSON does not escape DEL, which TOML does not allow in a string.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
