"""Programs of code mode that need the user: the question goes to the client, and the answer back.

A handshake client is asked while its request runs. A stateless client gets the question as the
result; what the program has done so far is in the store, so another process may continue it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import mcp_types as types

from ...catalog.result import Result
from ...catalog.sanitization import compact_json
from ...sources.mcp.client_channel import InputAnswer
from ...toolbox.call_record import CallRecord, PendingQuestion
from ...toolbox.pending_approvals import PendingApproval
from ...toolbox.session import Session
from .elicitation import QUESTION_KEY, DownstreamClient

PROGRAM_PREFIX = "program:"
"""Marks the `request_state` of a question for a program."""

_ARGUMENT_CHARS = 300
Need = PendingApproval | PendingQuestion


@dataclass(frozen=True, slots=True)
class ProgramState:
    """Which program a client's answer is for, as its `request_state` says."""

    session: str
    kind: str
    need: str

    @classmethod
    def read(cls, state: str) -> ProgramState | None:
        """The state of a request; None if it is not of a program."""
        if not state.startswith(PROGRAM_PREFIX):
            return None
        parts = state.removeprefix(PROGRAM_PREFIX).split(":")
        return cls(*parts) if len(parts) == len(("session", "kind", "need")) else None

    def __str__(self) -> str:
        return f"{PROGRAM_PREFIX}{self.session}:{self.kind}:{self.need}"


async def _ask_inline(record: CallRecord, session: Session, client: DownstreamClient) -> CallRecord:
    while record.needs is not None:
        answer = await client.answer(_to_request(record.needs))
        record = await give_answer(session, _state_of(record.needs), answer)
    return record


async def ask_client(record: CallRecord, session: Session, client: DownstreamClient) -> CallRecord:
    """Ask the client what the program needs, in the way of its version of the protocol."""
    if record.needs is None:
        return record
    if client.is_stateless and client.can_answer(_to_request(record.needs)):
        return _ask_by_result(record, record.needs)
    return await _ask_inline(record, session, client)


def _ask_by_result(record: CallRecord, need: Need) -> CallRecord:
    raw = types.InputRequiredResult(
        input_requests={QUESTION_KEY: _to_request(need)}, request_state=str(_state_of(need))
    )
    return replace(record, result=Result(raw=raw))


async def give_answer(session: Session, state: ProgramState, answer: InputAnswer) -> CallRecord:
    """Give the program what it needs; only an explicit "accept" approves."""
    accepted = isinstance(answer, types.ElicitResult) and answer.action == "accept"
    if state.kind == "approval":
        if accepted:
            return await session.approve(state.need)
        reason = ""
        if isinstance(answer, types.ErrorData):
            reason = f"it needs approval, and the client answered: {answer.message.rstrip('.')}"
        return await session.refuse(state.need, reason=reason)
    if not isinstance(answer, types.ElicitResult):
        return await session.reply(state.need, action="cancel")
    content: dict[str, Any] = dict(answer.content or {})
    return await session.reply(state.need, content, action=answer.action)


def _state_of(need: Need) -> ProgramState:
    kind = "approval" if isinstance(need, PendingApproval) else "question"
    return ProgramState(need.session, kind, need.id)


def _to_request(need: Need) -> types.ElicitRequest:
    if isinstance(need, PendingApproval):
        arguments = compact_json(dict(need.arguments))[:_ARGUMENT_CHARS]
        return types.ElicitRequest(
            params=types.ElicitRequestFormParams(
                message=f"Run {need.tool} with {arguments}? {need.why}.",
                requested_schema={"type": "object", "properties": {}},
            )
        )
    if need.url:
        params = types.ElicitRequestURLParams(
            message=need.message, url=need.url, elicitation_id=need.id
        )
        return types.ElicitRequest(params=params)
    return types.ElicitRequest(
        params=types.ElicitRequestFormParams(
            message=need.message, requested_schema=dict(need.schema)
        )
    )
