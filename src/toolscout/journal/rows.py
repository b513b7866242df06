"""Turn events into the rows of the journal; users' text is left out by default."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Generic, Literal, TypeVar, cast

from ..events import (
    ApprovalEvent,
    ApprovalNeededEvent,
    CatalogChangeEvent,
    ConfigAppliedEvent,
    ContentReadEvent,
    ContentReadStartEvent,
    DiscoveryResultEvent,
    DiscoveryStartEvent,
    Event,
    PinDecisionEvent,
    RequestRefusedEvent,
    ToolCallEvent,
    ToolCallStartEvent,
    ToolHeldEvent,
    ToolNotFoundEvent,
    ToolRefusedEvent,
    UpstreamEvent,
    UpstreamFailedEvent,
    UpstreamLostEvent,
)
from ..store.log_contract import LogRow
from ..store.processes import current_process
from ..telemetry.redaction import safe_name, shape

OPEN_KINDS = frozenset({"call", "read"})
"""The kinds of rows that are written before something runs, and get their outcome afterwards."""

RecordLevel = Literal["off", "shape", "full"]
"""What is kept of requests: nothing at all, their shape, or their text."""

# Names may come from a model or a client, and can be of any length.
_MAX_NAME_CHARS = 300
_MAX_DATA_CHARS = 64_000
# Left out of a row that would be too long, in this order.
_LARGE_KEYS = ("arguments", "query_texts", "near", "hits", "shape")
_MAX_REMEMBERED = 2_000

V = TypeVar("V")


class _Recent(OrderedDict[str, V], Generic[V]):
    """A dictionary that drops its oldest entries: not every call that starts also ends."""

    def remember(self, key: str, value: V) -> None:
        self[key] = value
        if len(self) > _MAX_REMEMBERED:
            self.popitem(last=False)


class RowReader:
    """Reads events in their order, and remembers of each running call how it started."""

    def __init__(self, *, record: RecordLevel = "shape", audit_file: str = "") -> None:
        self._is_full = record == "full"
        self._audit_file = audit_file
        self._open_calls = _Recent[LogRow]()
        self._discovery_starts = _Recent[DiscoveryStartEvent]()

    def read(self, event: Event) -> LogRow | None:
        """The row of an event; None if it has none.

        A call gives two rows with the same id: without an outcome when it starts, and with one when
        it ends.
        """
        match event:
            case DiscoveryStartEvent():
                self._discovery_starts.remember(event.parent, event)
                return None
            case ToolCallStartEvent():
                return self._start_call(event)
            case ToolCallEvent():
                return self._end_call(event)
            case ContentReadStartEvent():
                return self._start_read(event)
            case ContentReadEvent():
                return self._end_read(event)
            case RequestRefusedEvent():
                return self._read_over_limit(event)
            case DiscoveryResultEvent():
                return self._read_search(event)
            case ToolRefusedEvent() | ToolNotFoundEvent():
                return self._read_refusal(event)
            case ApprovalEvent() | ApprovalNeededEvent() | PinDecisionEvent():
                return _read_approval(event)
            case _:
                return self._read_server(event)

    def _start_call(self, event: ToolCallStartEvent) -> LogRow:
        self._discovery_starts.pop(event.parent, None)
        row = replace(
            _row(event, "call", self._request_data(event.arguments)),
            id=event.parent or event.id,
            parent="",
            outcome=None,
        )
        self._open_calls.remember(row.id, row)
        return row

    def _end_call(self, event: ToolCallEvent) -> LogRow:
        start = self._open_calls.pop(event.id, None)
        if start is None:
            start = _row(event, "call", self._request_data(None))
            start = replace(start, time=event.time - event.took_ms / 1_000)
        outcome = (event.code or "error") if event.is_error else "ok"
        return replace(start, parent=event.parent, outcome=outcome, took_ms=event.took_ms)

    def _start_read(self, event: ContentReadStartEvent) -> LogRow:
        row = replace(
            self._read_row(event, event.arguments), id=event.parent or event.id, parent=""
        )
        self._open_calls.remember(row.id, row)
        return row

    def _end_read(self, event: ContentReadEvent) -> LogRow:
        start = self._open_calls.pop(event.id, None)
        if start is None:
            start = self._read_row(event, event.arguments)
            start = replace(start, time=event.time - event.took_ms / 1_000)
        outcome = (event.code or "error") if event.is_error else "ok"
        return replace(start, parent=event.parent, outcome=outcome, took_ms=event.took_ms)

    def _read_row(
        self, event: ContentReadStartEvent | ContentReadEvent, arguments: Mapping[str, Any]
    ) -> LogRow:
        data = {"method": event.method, **self._request_data(arguments)}
        return replace(_row(event, "read", data), tool=_clean(safe_name(event.name)), outcome=None)

    def _read_over_limit(self, event: RequestRefusedEvent) -> LogRow:
        data = {"method": event.method, "status": event.status, "why": event.why}
        data |= {"times": event.times} if event.times > 1 else {}
        data |= self._request_data(event.arguments)
        return replace(_row(event, "refusal", data), outcome=event.code)

    def _read_search(self, event: DiscoveryResultEvent) -> LogRow:
        start = self._discovery_starts.pop(event.id, None)
        scores = [round(score, 4) for score in event.scores]
        scores += [None] * (len(event.names) - len(scores))
        data: dict[str, Any] = {
            "hits": [list(hit) for hit in zip(event.names, scores, strict=False)],
            "near": list(event.near),
            "confidence": round(event.confidence, 4),
            "queries": len(event.queries),
            "query_chars": sum(map(len, event.queries)),
            **({"embedder": event.embedder} if event.embedder else {}),
            **({"query_texts": list(event.queries)} if self._is_full else {}),
            **self._request_data(start.arguments if start else None),
        }
        return replace(
            _row(event, "search", data),
            time=event.time - event.took_ms / 1_000,
            outcome="error" if event.is_error else "ok",
            took_ms=event.took_ms,
            vector=event.vector,
        )

    def _read_refusal(self, event: ToolRefusedEvent | ToolNotFoundEvent) -> LogRow:
        start = self._discovery_starts.pop(event.parent, None)
        arguments = event.arguments or _inner_arguments(start, event.tool)
        data = self._request_data(arguments)
        if isinstance(event, ToolNotFoundEvent):
            return replace(_row(event, "refusal", data), outcome="unknown_tool")
        if self._is_full and event.why:  # a reason may quote the arguments
            data["why"] = event.why
        return replace(_row(event, "refusal", data), outcome=event.code or "refused")

    def _read_server(self, event: Event) -> LogRow | None:
        match event:
            case UpstreamLostEvent():
                # The end of a server's error output, which may repeat what it was asked.
                data = {"reason": event.reason} if self._is_full else {}
            case UpstreamFailedEvent():
                data = {"reason": event.reason}
                data |= {"needs_login": True} if event.needs_login else {}
            case ToolHeldEvent():
                data = {"standing": event.standing}
            case CatalogChangeEvent() | ConfigAppliedEvent():
                data = dict(event.facts)
            case UpstreamEvent():
                data = {}
            case _:
                return None
        return replace(_row(event, "server", data), outcome=event.kind.removeprefix("upstream_"))

    def _request_data(self, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
        """The recorded part of the arguments, and which audit file has a line for the row."""
        data: dict[str, Any] = {}
        if arguments is not None:
            data["shape"] = shape(arguments)
            if self._is_full:
                data["arguments"] = dict(arguments)
        if self._audit_file:
            data["audit"] = self._audit_file
        return data


def _read_approval(event: ApprovalEvent | ApprovalNeededEvent | PinDecisionEvent) -> LogRow:
    if isinstance(event, PinDecisionEvent):
        row = _row(event, "approval", {"standing": event.standing})
        return replace(row, outcome=event.decision)
    data: dict[str, Any] = {"why": event.why, "approval": event.approval}
    if isinstance(event, ApprovalNeededEvent):
        data["expires"] = event.expires
        outcome = "needed"
    else:
        outcome = "approved" if event.approved else "denied"
    return replace(_row(event, "approval", data), outcome=outcome)


def _inner_arguments(start: DiscoveryStartEvent | None, tool: str) -> Mapping[str, Any]:
    """The arguments of a tool that was refused, of those that a discovery tool was given for it."""
    if start is None or start.tool == tool:
        return start.arguments if start else {}
    inner = start.arguments.get("arguments")
    if isinstance(inner, Mapping) and inner:
        return cast("Mapping[str, Any]", inner)
    # Models sometimes write the arguments of the tool beside its name.
    return {k: v for k, v in start.arguments.items() if k not in ("name", "arguments")}


def _row(event: Event, kind: str, data: Mapping[str, Any]) -> LogRow:
    return LogRow(
        id=event.id,
        time=event.time,
        kind=kind,
        parent=event.parent,
        session=_clean(event.session),
        principal=_clean(event.principal),
        client=_clean(event.client),
        tool=_clean(safe_name(getattr(event, "tool", ""))) if hasattr(event, "tool") else "",
        server=_clean(getattr(event, "server", "")),
        process=current_process(),
        data=encode_data(data),
    )


def _clean(name: str) -> str:
    """A name that every store can hold: no NUL, no half of a surrogate pair, not too long."""
    name = name[:_MAX_NAME_CHARS]
    if name.isascii():
        return name.replace("\0", "\ufffd") if "\0" in name else name
    return name.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def encode_data(data: Mapping[str, Any]) -> str:
    """Data as JSON of a limited length; the parts that make it too long are left out and named."""
    kept = dict(data)
    left_out: list[str] = []
    for key in (*_LARGE_KEYS, ""):
        try:
            text = json.dumps(
                {**kept, "left_out": left_out} if left_out else kept,
                separators=(",", ":"),
                default=_type_name,
            )
        except (TypeError, ValueError, RecursionError):
            text = ""  # keys that are not texts, a value that contains itself, or too deep a one
        if text and len(text) <= _MAX_DATA_CHARS:
            return text
        if kept.pop(key, None) is not None:
            left_out.append(key)
    return json.dumps({"left_out": ["everything"]})


def _type_name(value: object) -> str:
    return f"<{type(value).__name__}>"
