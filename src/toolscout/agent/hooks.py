"""Hooks that see and change model requests, calls and results of a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ..catalog.result import Result
from ..models.messages import Call
from ..models.model import ModelRequest
from .steps import RunProgress

BeforeModel = Callable[[ModelRequest, RunProgress], Awaitable[ModelRequest | None]]
"""Gets each request before it is sent; may return another (tools, instructions, choice)."""

BeforeCall = Callable[[Call, RunProgress], Awaitable[Call | Result | None]]
"""Gets each call before it runs, under the real name of its tool.

It may return a corrected call, a result that answers the call, or None to leave it unchanged. Calls
of unknown tools and calls with invalid arguments are passed in like any other; left alone, their
error goes back to the model, which tries again.
"""

AfterCall = Callable[[Call, Result], Awaitable[Result | None]]
"""Gets each result; may return another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Callbacks of the program; an exception in one ends the run."""

    before_model: BeforeModel | None = None
    before_call: BeforeCall | None = None
    after_call: AfterCall | None = None

    async def run_before_model(self, request: ModelRequest, progress: RunProgress) -> ModelRequest:
        """The request to send."""
        if self.before_model is None:
            return request
        return await self.before_model(request, progress) or request

    async def run_before_call(self, call: Call, progress: RunProgress) -> Call | Result:
        """The call to make, or the result that answers it."""
        if self.before_call is None:
            return call
        return await self.before_call(call, progress) or call

    async def run_after_call(self, call: Call, result: Result) -> Result:
        """The result for the model."""
        if self.after_call is None:
            return result
        return await self.after_call(call, result) or result
