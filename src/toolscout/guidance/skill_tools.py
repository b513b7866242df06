"""Definitions of the tools that find and read skills, in snake or camel case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..catalog.schema import Schema
from ..catalog.tool import Annotations, Tool
from ..disclosure.profile import SkillStyle

_CAMEL = {"search_skills": "searchSkills", "read_skill": "readSkill"}
_QUERY = {"type": "string", "description": "What you want to do, or a skill's name."}
_SKILL_ID = {"type": "string", "description": "The skill's id, from a search or a tool."}
_FILE = {"type": "string", "description": "A file of the skill, by the name in its text."}


def _build_tool(description: str, properties: Mapping[str, object], *required: str) -> Tool:
    schema = {"type": "object", "properties": properties, "required": [*required]}
    return Tool(
        name="",
        description=description,
        parameters=Schema.of(schema),
        category="skills",
        defer="never",
        annotations=Annotations(read_only=True, destructive=False, open_world=False),
    )


_DEFINITIONS = (
    _build_tool("Find skills: written guidance for a kind of task.", {"query": _QUERY}, "query"),
    _build_tool(
        "Read a skill, or one of its files, before you do the task it is for.",
        {"skillId": _SKILL_ID, "file": _FILE},
        "skillId",
    ),
)


SKILL_TOOLS = (*_CAMEL, *_CAMEL.values())
"""Every name of a skill tool."""


def skill_tool_definitions(style: SkillStyle) -> tuple[Tool, ...]:
    """Both tools in a naming style."""
    return tuple(
        replace(tool, name=tool_name(name, style))
        for tool, name in zip(_DEFINITIONS, _CAMEL, strict=True)
    )


def tool_name(name: str, style: SkillStyle) -> str:
    """The name of a tool in a naming style."""
    return _CAMEL[name] if style == "camel" else name


def other_style(style: SkillStyle) -> SkillStyle:
    """The other naming style."""
    return "camel" if style == "snake" else "snake"
