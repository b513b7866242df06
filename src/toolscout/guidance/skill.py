"""One skill: what its file says of it, and how that file is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml

from ..catalog.clean import clean, clean_line
from ..catalog.tool import Tool
from .files import Unreadable

MANIFEST = "SKILL.md"
_NAME_CAP = 64
_DESCRIPTION_CAP = 1_024
_FENCE = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_TOOL = re.compile(r"([^\s,()]+)(?:\([^)]*\))?")


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill as its front matter has it; its text is read only when somebody asks for it.

    `folder` is None for a single file, which has nothing beside it.
    """

    id: str
    name: str
    description: str
    path: Path
    folder: Path | None = None
    triggers: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()

    def as_tool(self) -> Tool:
        """The skill in the form that the search engine ranks."""
        return Tool(
            name=self.id, title=self.name, description=self.description, phrases=self.triggers
        )

    def matches(self, query: str) -> bool:
        """Whether a query is in the name or description, or one of it and a trigger in the other.

        An empty query is in everything.
        """
        asked = query.lower()
        if asked in self.name.lower() or asked in self.description.lower():
            return True
        return any(
            asked in trigger or trigger in asked for trigger in map(str.lower, self.triggers)
        )


def parse(text: str, path: Path, *, is_folder: bool) -> Skill:
    """A skill from its file's text; Unreadable if its front matter is not what it must be."""
    facts, body = split(text)
    skill_id = path.parent.name if is_folder else path.stem
    name = _line(facts.get("name"), _NAME_CAP)
    if not name and is_folder:
        raise Unreadable("its front matter has no name")
    metadata = _mapping(facts.get("metadata"))
    return Skill(
        id=clean_line(skill_id, cap=_NAME_CAP),
        name=name or skill_id,
        description=_line(facts.get("description"), _DESCRIPTION_CAP) or _first_words(body),
        path=path,
        folder=path.parent if is_folder else None,
        triggers=_words(facts.get("triggers", metadata.get("triggers"))),
        tools=_tools(facts.get("allowed-tools", facts.get("allowed_tools"))),
    )


def split(text: str) -> tuple[Mapping[str, Any], str]:
    """Front matter and the text after it; no front matter is an empty one."""
    fence = _FENCE.match(text)
    if fence is None:
        if text.startswith("---\n"):
            raise Unreadable("its front matter has no end (a line of three dashes)")
        return {}, text.strip()
    try:
        facts: object = yaml.safe_load(fence.group(1))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        told = " ".join(str(error).split())
        raise Unreadable(f"its front matter is not YAML: {told[:200]}") from error
    if facts is None:
        facts = {}
    if not isinstance(facts, Mapping):
        raise Unreadable("its front matter is not a list of keys and values")
    return cast("Mapping[str, Any]", facts), text[fence.end() :].strip()


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _line(value: object, cap: int) -> str:
    return clean_line(str(value), cap=cap) if isinstance(value, str | int | float) else ""


def _first_words(body: str) -> str:
    """The first line of text that is not a heading."""
    lines = (line.strip() for line in body.splitlines())
    first = next((line for line in lines if line and not line.startswith("#")), "")
    return clean_line(first, cap=_DESCRIPTION_CAP)


def _words(value: object) -> tuple[str, ...]:
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, list):
        return ()
    words = (_line(word, _NAME_CAP) for word in cast("list[object]", given))
    return tuple(dict.fromkeys(word for word in words if word))


def _tools(value: object) -> tuple[str, ...]:
    """Names out of a list, or out of a line as the convention writes it: `Read Bash(git:*)`."""
    given = cast("list[object]", value) if isinstance(value, list) else [value]
    lines = [clean(item) for item in given if isinstance(item, str)]
    return tuple(dict.fromkeys(m.group(1) for line in lines for m in _TOOL.finditer(line)))
