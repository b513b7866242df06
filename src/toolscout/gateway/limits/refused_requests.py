"""Record requests that are refused because of a limit: a few one by one, a flood as a number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from ...events import Event, RequestRefusedEvent
from .refusals import Refusal

# So many refusals of one kind have a row each, in one window.
_MAX_ROWS = 20
_WINDOW_SECONDS = 60.0


@dataclass(slots=True)
class _RefusalCount:
    last: RequestRefusedEvent
    rows: int = 0
    left: int = 0


class RefusalLog:
    """Passes refusals on, and many of one principal and limit as one with their number.

    A client that is refused costs the gateway little. Its rows must not fill the journal, nor
    drive out those of others.
    """

    def __init__(
        self,
        emit: Callable[[Event], None],
        *,
        max_rows: int = _MAX_ROWS,
        window_seconds: float = _WINDOW_SECONDS,
    ) -> None:
        self._emit = emit
        self._max_rows = max_rows
        self._window_seconds = window_seconds
        self._windows: dict[tuple[str, str], _RefusalCount] = {}

    def record(self, event: RequestRefusedEvent) -> None:
        """Record one refusal, at once or when its window ends."""
        key = (event.principal, event.why)
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = _RefusalCount(event)
            asyncio.get_running_loop().call_later(self._window_seconds, self._end, key, window)
        window.last = event
        if window.rows < self._max_rows:
            window.rows += 1
            self._emit(event)
        else:
            window.left += 1

    def close(self) -> None:
        """Record what was counted and not recorded yet."""
        for key, window in list(self._windows.items()):
            self._end(key, window)

    def _end(self, key: tuple[str, str], window: _RefusalCount) -> None:
        if self._windows.get(key) is not window:  # it was closed
            return
        del self._windows[key]
        if window.left:
            self._emit(replace(window.last, tool="", arguments={}, times=window.left))


def describe_refusal(
    refusal: Refusal,
    *,
    method: str,
    params: Mapping[str, Any],
    principal: str,
    dispatcher: str,
) -> RequestRefusedEvent:
    """Who asked for what; a call through the tool `dispatcher` is one of the tool inside it."""
    name, arguments = _read_text(params, "name"), _read_table(params, "arguments")
    if method == "tools/call" and name == dispatcher:
        name = _read_text(arguments, "name") or name
        arguments = _read_table(arguments, "arguments") or arguments
    if not name:
        reference = _read_table(params, "ref")
        name = _read_text(params, "uri") or _read_text(reference, "name")
        name = name or _read_text(reference, "uri")
    return RequestRefusedEvent(
        principal=principal,
        method=method,
        tool=name,
        status=int(refusal.status),
        why=refusal.text,
        arguments=arguments,
    )


def _read_text(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key)
    return value if isinstance(value, str) else ""


def _read_table(table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = table.get(key)
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
