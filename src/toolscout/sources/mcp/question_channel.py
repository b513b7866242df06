"""The user behind a call of the library, as the MCP server that runs the call may ask them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types as types
from pydantic import ValidationError

from ...catalog.questions import Answer, CallUser, Question
from .client_channel import ClientChannel, InputAnswer

_CAPABILITIES: Mapping[str, Any] = {"elicitation": {"form": {}, "url": {}}}


class QuestionChannel:
    """A client that only answers elicitations, and only if its call has a user to ask."""

    accepts_input_required = False
    responses: types.InputResponses | None = None
    state: str | None = None

    def __init__(self, user: CallUser | None) -> None:
        self.capabilities: Mapping[str, Any] = _CAPABILITIES if user else {}
        self.meta: Mapping[str, Any] = {}
        self.owner = user.owner if user else None
        self._user = user
        self._open_questions = 0

    @property
    def is_waiting(self) -> bool:
        """Whether its user is being asked."""
        return self._open_questions > 0

    def for_user(self, user: CallUser | None) -> ClientChannel:  # noqa: ARG002 - it has one
        """This channel: it is of one call."""
        return self

    async def report_progress(
        self, progress: float, total: float | None, message: str | None
    ) -> None:
        """Ignore progress: the library does not show it."""

    async def log(self, message: types.LoggingMessageNotificationParams) -> None:
        """Ignore log messages."""

    async def answer(self, request: types.InputRequest) -> InputAnswer:
        """Ask the user of the call."""
        if self._user is None:
            return _refusal("The user cannot be asked during this call.")
        if not isinstance(request, types.ElicitRequest):
            return _refusal("Only the user can be asked here, by elicitation.")
        self._open_questions += 1
        try:
            answer = await self._user.ask(_to_question(request.params))
        finally:
            self._open_questions -= 1
        return _refusal("The call is over.") if answer is None else _to_result(answer)


def find_channel(channels: Sequence[ClientChannel]) -> ClientChannel | None:
    """The channel of the call that a server's message belongs to, if that is certain.

    On a pipe a message does not say which call it belongs to.
    """
    if len(channels) == 1:
        return channels[0]
    own = [channel for channel in channels if isinstance(channel, QuestionChannel)]
    # Should the guess below be wrong, because a call asks twice at once, then the question must
    # still reach the same person.
    if len(own) < len(channels) or len({channel.owner for channel in own}) != 1:
        return None
    # A call that waits for its user has asked its question, so this one is of the call that runs.
    running = [channel for channel in own if not channel.is_waiting]
    return running[0] if len(running) == 1 else None


def _to_question(params: types.ElicitRequestParams) -> Question:
    if isinstance(params, types.ElicitRequestURLParams):
        return Question(message=params.message, url=params.url)
    return Question(message=params.message, schema=params.requested_schema)


def _to_result(answer: Answer) -> InputAnswer:
    content = dict(answer.content) if answer.action == "accept" and answer.content else None
    try:
        return types.ElicitResult(action=answer.action, content=content)
    except ValidationError:
        return _refusal("The user's answer is not a flat object of text, numbers and lists.")


def _refusal(message: str) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message=message)
