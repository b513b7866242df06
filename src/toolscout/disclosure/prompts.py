"""What is said in the instructions about tools that are not in view: one function a profile."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from ..catalog.sanitization import clean_line
from ..catalog.tool import Tool
from .scope import Scope
from .surface import Surface

AVAILABLE_TOOLS_SLOT = "_available_tools"
"""The slot that lists what can be loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptContext:
    """What a prompt is written from: what is in view, what waits, the roster as it was fixed."""

    own: tuple[Tool, ...]
    scope: Scope
    roster: str
    surface: Surface
    search: str

    @property
    def tools_in_view(self) -> tuple[Tool, ...]:
        """The tools in view, discovery tools and what features add first."""
        return (*self.own, *(t for t in self.scope.tools if self.scope.visibility(t)))

    @property
    def tools_out_of_view(self) -> tuple[Tool, ...]:
        """The tools that are not in view."""
        return self.scope.tools_out_of_view


@dataclass(frozen=True, slots=True)
class Prompt:
    """Text for the system prompt, and named slots that come right after it as messages."""

    instructions: str = ""
    slots: tuple[tuple[str, str], ...] = ()


PromptRenderer = Callable[[PromptContext], Prompt]
"""Writes what a profile says about its tools."""


def no_prompt(_: PromptContext) -> Prompt:
    """Says nothing."""
    return Prompt()


def catalog_prompt(detail: Literal["names", "one_line"] = "names") -> PromptRenderer:
    """Tools in view are described; the others only named, or given a line, by category."""

    def prompt(stage: PromptContext) -> Prompt:
        core = "\n".join(f"- **{t.name}**: {t.description}" for t in stage.tools_in_view)
        listed = "\n".join(
            _category_lines(g, tools, detail)
            for g, tools in _group_by_category(stage.tools_out_of_view)
        )
        if not listed:
            return Prompt(f"## Core tools\n{core}")
        return Prompt(
            f"## Core tools\n{core}\n\n"
            f"## Other tools (find them with {stage.search})\n"
            f"These can be used too; `{stage.search}` tells how:\n{listed}\n\n"
            f"When you need one of them, FIRST use `{stage.search}` for its details, THEN, if the "
            "answer names a skill, `readSkill` for guidance, and then use the tool."
        )

    return prompt


def workflow_prompt(*, categories: tuple[str, ...] = (), is_fuzzy: bool = True) -> PromptRenderer:
    """How to search, add and use, in steps, and which kinds of tools there are."""

    def prompt(stage: PromptContext) -> Prompt:
        kinds = categories or tuple(
            dict.fromkeys(t.server for t in stage.tools_out_of_view if t.server)
        )
        listed = "\n".join(f"- {clean_line(kind, cap=200)}" for kind in kinds)
        fuzzy = " If the pattern finds nothing, the 5 most similar tools are returned."
        text = (
            "<tool_search>\n## Tool search\n"
            "There is a large catalog of tools, and most of them are not loaded.\n"
            "1. Understand what the user needs.\n"
            "2. Call search_tools with a regex pattern over names and descriptions."
            f"{fuzzy if is_fuzzy else ''}\n"
            "3. Review the tools it returns.\n"
            '4. Call add_tool(tool_names=["..."]) with the ones you need.\n'
            "5. Use the tools you added to do the task.\n"
        )
        if listed:
            text += f"\nTool categories:\n{listed}\n"
        return Prompt(f"{text}</tool_search>")

    return prompt


def slot_prompt(stage: PromptContext) -> Prompt:
    """The names that can be loaded, sorted, in a slot of their own; empty when there are none."""
    names = sorted(t.name for t in stage.tools_out_of_view)
    text = (
        "# Available Tools\n"
        f"The schemas of these tools are not loaded. Load them with {stage.search} first.\n"
        "Calling one directly, before it is loaded, fails.\n" + "\n".join(f"- {n}" for n in names)
    )
    return Prompt(slots=((AVAILABLE_TOOLS_SLOT, text if names else ""),))


def stub_prompt(stage: PromptContext) -> Prompt:
    """One paragraph: names are visible, schemas are not, and how to get them."""
    return Prompt(
        "Most tools are listed with name and description only; their parameter schemas are hidden "
        f"to save context. Before you call a tool whose parameters you have not seen, call "
        f'`{stage.search}` with a short query such as "read file" or "send email"; it returns the '
        "schemas, and then you can call the tool. Frequently used tools keep their full schemas "
        "and need no search."
    )


def discovery_prompt(stage: PromptContext) -> Prompt:
    """A short section in tags: ask in natural language, rules come along, or just answer."""
    return Prompt(
        "<tool-discovery>\n"
        f"Use **{stage.search}** to find the tools you need:\n"
        "- Say in natural language what you want to do.\n"
        "- You get fitting tools together with the rules for using them.\n"
        "- Search again whenever you need something more.\n\n"
        "If you can answer without tools, answer directly.\n"
        "</tool-discovery>"
    )


_HOW_TO_CALL = {
    "load": "What it finds is in your tool list from your next step on.",
    "dispatch": "What it finds you run with `call_tool`.",
    "native": "What it finds you can call right after.",
    "direct": "",
}


def roster_prompt(stage: PromptContext) -> Prompt:
    """That there is more than meets the eye, how to get it, and the roster of it."""
    return Prompt(
        "More tools exist than are in your list. Before you say that something cannot be done, or "
        f"work around it, look for a tool with `{stage.search}`. {_HOW_TO_CALL[stage.surface]}\n"
        f"What there is:\n{stage.roster}"
    )


def _group_by_category(tools: Iterable[Tool]) -> Iterable[tuple[str, list[Tool]]]:
    """Tools by category, or by server where they have none, in the order they come."""
    groups: dict[str, list[Tool]] = {}
    for tool in tools:
        groups.setdefault(tool.category or tool.server or "Other", []).append(tool)
    return groups.items()


def _category_lines(name: str, tools: list[Tool], detail: Literal["names", "one_line"]) -> str:
    if detail == "names":
        return f"- **{name}**: {', '.join(t.name for t in tools)}"
    lines = (f"  - {t.name}: {_short_description(t.description)}" for t in tools)
    return "\n".join([f"- **{name}**:", *lines])


def _short_description(text: str) -> str:
    return clean_line(text.split(". ")[0], cap=120)
