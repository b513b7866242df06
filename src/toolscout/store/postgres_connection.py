"""One connection to a PostgreSQL server, which stops waiting at a deadline."""

from __future__ import annotations

import selectors
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Protocol

from ..errors import require
from .postgres_url import EXTRA

# libpq's minimum; it holds for each host of a URL with several.
_CONNECT_TIMEOUT_SECONDS = 2
# The system may end a wait this much too early.
_CLOCK_STEP_SECONDS = 0.01


class SqlResult(Protocol):
    """The answer to a statement."""

    @property
    def rowcount(self) -> int:
        """How many rows were returned or changed."""
        ...

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, if any."""
        ...

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All further rows."""
        ...

    def executemany(self, query: str, params_seq: Sequence[Sequence[Any]]) -> None:
        """Run a statement once for each set of values."""
        ...


class SqlConnection(Protocol):
    """The part of the driver's connection that is used here."""

    deadline: float | None
    """When to stop waiting for the server, in monotonic seconds; None means never."""

    @property
    def closed(self) -> bool:
        """Whether the connection is closed or broken."""
        ...

    @property
    def info(self) -> Any:
        """Facts about the connection."""
        ...

    def execute(
        self,
        query: str,
        params: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        binary: bool = False,
    ) -> SqlResult:
        """Run a statement; `binary` is how its rows are sent."""
        ...

    def cursor(self) -> SqlResult:
        """An object that runs several statements."""
        ...

    def transaction(self) -> AbstractContextManager[object]:
        """Commit all statements of a block together, or none."""
        ...

    def notifies(self, *, timeout: float | None = None) -> Generator[object]:
        """The notifications that have arrived."""
        ...

    def fileno(self) -> int:
        """The socket."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def open_connection(url: str) -> SqlConnection:
    """Connect in autocommit mode."""
    options = {"connect_timeout": _CONNECT_TIMEOUT_SECONDS, "application_name": "toolscout"}
    # A setting in the URL comes first.
    unset = {name: value for name, value in options.items() if name not in url}
    return _connection_type().connect(url, autocommit=True, **unset)


def is_idle(sql: SqlConnection) -> bool:
    """Whether a connection works and is outside a transaction."""
    idle = require("psycopg.pq", extra=EXTRA).TransactionStatus.IDLE
    return not sql.closed and sql.info.transaction_status == idle


def wait_readable(*files: int, timeout_seconds: float) -> bool:
    """Wait until one of these sockets can be read; whether one can."""
    # Not select.select, which fails in a process with more than a thousand open files.
    with selectors.DefaultSelector() as selector:
        for file in files:
            selector.register(file, selectors.EVENT_READ)
        return bool(selector.select(timeout_seconds))


@cache
def _connection_type() -> Any:
    """The driver's connection with a deadline; built on first use, as the driver is optional."""
    psycopg = require("psycopg", extra=EXTRA)

    class DeadlineConnection(psycopg.Connection):
        """Closes itself when the server has not answered by `deadline`."""

        deadline: float | None = None

        def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
            """Wait for the server, as every operation of the driver does."""
            parent: Any = super()
            if self.deadline is None:
                return parent.wait(gen, interval, timeout)
            left = max(_CLOCK_STEP_SECONDS, self.deadline - time.monotonic())
            try:
                return parent.wait(gen, interval, left if timeout is None else min(left, timeout))
            except psycopg.OperationalError:
                if time.monotonic() < self.deadline - _CLOCK_STEP_SECONDS:
                    raise
                # Its answer may still arrive, and must not be taken for that to a later query.
                self.close()
                raise TimeoutError from None

    return DeadlineConnection
