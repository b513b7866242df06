"""Record what clients read of servers without a tool: prompts, resources and completions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from mcp.shared.exceptions import MCPError

from ...errors import CallError, ToolscoutError
from ...events import ContentReadEvent, ContentReadStartEvent, Sink, new_id, stamp
from .sessions import Principal

UNKNOWN_CONTENT = "unknown_content"
"""The outcome of a read that no server answers, or none that the caller may use."""


@dataclass(slots=True)
class ContentRead:
    """One read; `start` says which server is asked, before it is asked."""

    method: str
    name: str
    arguments: Mapping[str, Any]
    emit: Sink
    server: str = ""
    id: str = field(default_factory=new_id)
    started: float = field(default_factory=time.perf_counter)

    def start(self, server: str, *, name: str) -> None:
        """Record the read, so that it is known even if the gateway is killed while it runs."""
        self.server, self.name = server, name
        self.emit(
            ContentReadStartEvent(
                parent=self.id,
                method=self.method,
                name=name,
                server=server,
                arguments=self.arguments,
            )
        )

    def end(self, code: str = "") -> None:
        """Record the outcome; without a code it is a success."""
        self.emit(
            ContentReadEvent(
                id=self.id,
                method=self.method,
                name=self.name,
                server=self.server,
                is_error=bool(code),
                code=code,
                took_ms=(time.perf_counter() - self.started) * 1_000,
                arguments=self.arguments,
            )
        )


class ContentReads:
    """Writes one row for each read, whatever its end."""

    def __init__(self, emit: Callable[[ContentReadStartEvent | ContentReadEvent], None]) -> None:
        self._emit = emit

    @contextmanager
    def record(
        self, caller: Principal, method: str, name: str, arguments: Mapping[str, Any]
    ) -> Generator[ContentRead]:
        """Record what happens in the block as one read of a caller."""

        def emit(event: Any) -> None:
            self._emit(
                stamp(event, session=caller.session, principal=caller.name, client=caller.client)
            )

        read = ContentRead(method, name, arguments, emit)
        try:
            yield read
        except asyncio.CancelledError:
            read.end("cancelled")
            raise
        except Exception as error:
            read.end(_outcome(read, error))
            raise
        read.end()


def _outcome(read: ContentRead, error: Exception) -> str:
    cause = error.__cause__ if isinstance(error, MCPError) else error
    if isinstance(cause, ToolscoutError):
        return cause.code
    return CallError.code if read.server else UNKNOWN_CONTENT
