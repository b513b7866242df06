"""Code mode: the model finds tools as typed Python stubs, and calls them from a program."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...catalog.result import Content, Result
from ..profile import Profile
from ..python_stubs import describe_stubs
from ..reply import (
    UNSURE_HEADING,
    DefaultReply,
    ReplyRenderer,
    ToolSearchResult,
    signature_line,
)
from ..scope import Policy
from .default import DEFAULT

_HEADING = "For run_code, with await:"


@dataclass(frozen=True, slots=True, kw_only=True)
class StubReply(DefaultReply):
    """All hits as stubs: signature, description and type of the result."""

    def _render_tools(self, found: ToolSearchResult) -> str:
        if found.is_unsure:
            return "\n".join([UNSURE_HEADING, *map(signature_line, found.tools)])
        return f"{_HEADING}\n{describe_stubs(found.tools)}"


@dataclass(frozen=True, slots=True)
class WithStubs:
    """The reply of another profile, and the same tools as stubs after it."""

    reply: ReplyRenderer

    def __call__(self, found: ToolSearchResult) -> Result:
        """The reply, with the stubs as a second block."""
        result = self.reply(found)
        if not found.tools or found.is_unsure:
            return result
        stubs = Content(text=f"{_HEADING}\n{describe_stubs(found.tools)}")
        return replace(result, content=(*result.content, stubs), raw=None)


CODE = replace(
    DEFAULT,
    name="code",
    summary="One search tool and run_code: the model calls tools from a Python program.",
    metatools=tuple(tool for tool in DEFAULT.metatools if tool.role in ("search", "describe")),
    policy=Policy(rule="all"),
    reply=StubReply(),
    describe=describe_stubs,
    surface="dispatch",
    runs_code=True,
)


def with_code(profile: Profile) -> Profile:
    """The profile with `run_code` beside its own tools."""
    if profile.runs_code:
        return profile
    return replace(profile, reply=WithStubs(profile.reply), runs_code=True)
