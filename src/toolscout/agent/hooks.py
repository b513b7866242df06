"""Where a program can reach into a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ..catalog.result import Result
from ..models.messages import Call
from ..models.model import ModelRequest
from .steps import RunProgress

BeforeModel = Callable[[ModelRequest, RunProgress], Awaitable[ModelRequest | None]]
"""Sees each request of the model first; may give another: other tools, instructions, choice."""

BeforeCall = Callable[[Call, RunProgress], Awaitable[Call | Result | None]]
"""Sees each call first, by its tool's real name.

It may mend the call by giving another, answer it by giving a result, or leave it as it is. A call
of a tool that does not exist, or with arguments that do not fit, comes here like any other; left
alone, its error goes back to the model, which tries again.
"""

AfterCall = Callable[[Call, Result], Awaitable[Result | None]]
"""Sees each result; may give another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """A program's own steps; what they raise ends the run."""

    before_model: BeforeModel | None = None
    before_call: BeforeCall | None = None
    after_call: AfterCall | None = None

    async def run_before_model(self, request: ModelRequest, progress: RunProgress) -> ModelRequest:
        """The request that is really sent."""
        if self.before_model is None:
            return request
        return await self.before_model(request, progress) or request

    async def run_before_call(self, call: Call, progress: RunProgress) -> Call | Result:
        """The call that is really made, or its answer."""
        if self.before_call is None:
            return call
        return await self.before_call(call, progress) or call

    async def run_after_call(self, call: Call, result: Result) -> Result:
        """The result that the model really gets."""
        if self.after_call is None:
            return result
        return await self.after_call(call, result) or result
