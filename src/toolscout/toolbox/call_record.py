"""One call: how it is made, and the record of what it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from ..catalog.questions import Answer
from ..catalog.result import Result
from ..catalog.tool import Tool
from ..models.messages import Call
from .arguments import encode_arguments
from .pending_approvals import PendingApproval
from .suspension import QuestionQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingQuestion:
    """A question that a tool asks the user while its call waits, and who may answer it.

    `schema` is that of the content of the answer. With a `url` there is nothing to fill in: the
    user visits that page, and an answer says that they did.
    """

    id: str
    message: str
    schema: Mapping[str, Any]
    tool: str
    session: str
    server: str = ""
    principal: str = ""
    url: str = ""
    created: float = 0.0
    expires: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """A call, its result, and what really happened.

    `call` is what the model called; `tool` is the tool that this led to, for example the one named
    in `call_tool`, and is empty if there is none. `result` is for the model; `full` is the value
    before large output is replaced by a preview. `enabled` are the tools that the call made
    callable. `needs`
    is what is missing: an approval before the tool can run, or an answer before it can continue,
    which `session.approve` and `session.reply` give. `is_run` says that the tool started,
    `is_repeat`
    that the call was refused because the steps before it made the same call with the same result.
    `id` is that of the events of the call.
    """

    call: Call
    result: Result
    full: Result
    id: str = ""
    tool: str = ""
    server: str = ""
    enabled: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    needs: PendingApproval | PendingQuestion | None = None
    is_discovery: bool = False
    is_repeat: bool = False
    is_run: bool = False
    took_ms: float = 0.0

    @property
    def outcome(self) -> str:
        """`ok`, or the code of the error."""
        return (self.result.code or "error") if self.result.is_error else "ok"


CallQueue = QuestionQueue[CallRecord, Answer | None]
"""The questions of one call, each as the record that the call has while it waits for the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """How one call is made: which exceptions pass, and how an approval is asked for or given.

    With `defers`, a missing approval or answer is returned in the record instead of asking inline.
    `approval` is the id of one that was given; with `is_resumed` the call is the stored one.
    `feature_depth` counts the features that the call came through; 0 means from the model.
    `loaded_now` are the tools that the same reply of the model has loaded. With `keeps_full` a
    large result is not stored, because only a feature gets it.
    """

    passes: tuple[type[BaseException], ...] = ()
    defers: bool = False
    approval: str = ""
    is_resumed: bool = False
    feature_depth: int = 0
    loaded_now: frozenset[str] = frozenset()
    keeps_full: bool = False


INLINE = CallOptions()


@dataclass(frozen=True, slots=True)
class CallAttempt:
    """A call on its way to a tool, under the name it is looked up by now.

    `id` is that of its events. `queue` takes the questions of its tool if the call can wait.
    """

    name: str
    arguments: object
    options: CallOptions
    id: str = ""
    queue: CallQueue | None = None

    def values(self) -> Mapping[str, Any]:
        """The arguments as an object; empty if they are not an object."""
        given = self.arguments
        if isinstance(given, Mapping):
            return cast("Mapping[str, Any]", given)
        return Call("", self.name, encode_arguments(given)).values() or {}

    def record(
        self, result: Result, *, full: Result | None = None, tool: Tool | str = "", **facts: Any
    ) -> CallRecord:
        """The record of the call with this result."""
        name, server = (tool, "") if isinstance(tool, str) else (tool.name, tool.server)
        call = Call("", self.name, encode_arguments(self.arguments))
        return CallRecord(
            call=call, result=result, full=full or result, tool=name, server=server, **facts
        )
