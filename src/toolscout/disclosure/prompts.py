"""Instructions about deferred tools: what a prompt is written from, and the default prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..catalog.tool import Tool
from .prompt_texts import DISPATCH_CALL, deferred_tools_text
from .scope import Scope
from .surface import Surface


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptContext:
    """The input of a prompt.

    `own` are the discovery tools and the tools of features, `roster` is the fixed list of what
    exists, and `search` is the name of the search tool in the request.
    """

    own: tuple[Tool, ...]
    scope: Scope
    roster: str
    surface: Surface
    search: str

    @property
    def tools_in_view(self) -> tuple[Tool, ...]:
        """The tools in view; discovery tools and those of features first."""
        return (*self.own, *(t for t in self.scope.tools if self.scope.visibility(t)))

    @property
    def tools_out_of_view(self) -> tuple[Tool, ...]:
        """The tools that are not in view."""
        return self.scope.tools_out_of_view


@dataclass(frozen=True, slots=True)
class Prompt:
    """Text for the system prompt, and named slots that follow it as messages."""

    instructions: str = ""
    slots: tuple[tuple[str, str], ...] = ()


def join_paragraphs(*texts: str) -> str:
    """The texts that are not empty, with a blank line between them."""
    return "\n\n".join(text for text in texts if text)


PromptRenderer = Callable[[PromptContext], Prompt]
"""Writes the instructions of a profile."""


def no_prompt(_: PromptContext) -> Prompt:
    """No instructions."""
    return Prompt()


_HOW_TO_CALL: Mapping[Surface, str] = {
    "load": "The tools it finds are in your tool list from your next step on.",
    "dispatch": DISPATCH_CALL,
    "native": "You can call the tools it finds right away.",
    "direct": "",
}


def roster_prompt(context: PromptContext) -> Prompt:
    """Say that more tools exist, how to find them, and list the roster."""
    # The roster in the context is the one fixed at the start of the conversation. A fresh one
    # would change the cached prefix; later changes are reported by the next search.
    text = deferred_tools_text(context.search, _HOW_TO_CALL[context.surface])
    return Prompt(f"{text}\nAvailable tools:\n{context.roster}" if context.roster else text)
