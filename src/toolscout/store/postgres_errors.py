"""Errors of the PostgreSQL driver as StoreErrors that say what to do, without the password."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from ..errors import StoreError, require
from ..program import remote_command_line
from .postgres_url import EXTRA, describe_url, hide_password

# Classes of SQLSTATE, or words in messages of libpq (which have no SQLSTATE), what happened, and
# what to do. The first that matches counts.
_ERROR_HINTS: tuple[tuple[str, str, str], ...] = (
    (
        "28|FATAL: role|authentication failed|no password supplied|pg_hba.conf",
        "refused the login",
        "Check user and password in the URL, and pg_hba.conf of the server.",
    ),
    (
        "3D000|FATAL: database",
        "has no such database",
        "Create it with createdb, or name another in the URL.",
    ),
    (
        "42501",
        "does not permit this user to do that",
        "Grant the user CREATE on the schema, or make it the owner of the database.",
    ),
    (
        "42P01|42703",
        "lacks tables or columns of this version",
        "Run: {migrate}",
    ),
    (
        "25006|session is read-only",
        "is read-only, as a standby is",
        "Name the primary, or all hosts with ?target_session_attrs=read-write.",
    ),
    (
        "53300|53400|too many clients",
        "has no free connection",
        "Raise max_connections of the server, or run fewer gateways.",
    ),
    (
        "53|54",
        "is out of space or memory",
        "Free some space on the server; nothing was half written.",
    ),
    (
        "55P03",
        "keeps a lock that another process holds",
        "Try again.",
    ),
    (
        "57P|08|connection failed|could not|server closed|refused|is closed|lost|timeout",
        "cannot be reached",
        "Check that the server runs, its host and its port; Toolscout reconnects by itself.",
    ),
)


@contextmanager
def translate_driver_errors(url: str, *, timeout_seconds: float) -> Generator[None]:
    """Turn every failure of the driver into a StoreError that names the database."""
    psycopg = require("psycopg", extra=EXTRA)
    try:
        yield
    except TimeoutError:
        raise StoreError(
            f"The store {describe_url(url)} did not answer within {timeout_seconds:g} s.",
            hint="Check the server and the network; Toolscout reconnects by itself.",
        ) from None
    except psycopg.Error as error:
        # Without the cause: a traceback would print the driver's text, which may quote the URL.
        raise _store_error(url, error) from None


def _store_error(url: str, error: Any) -> StoreError:
    name = describe_url(url)
    state: str = error.sqlstate or ""
    # Only the first part of an answer of the server: its details quote values of rows.
    message: str = error.diag.message_primary or str(error)
    text = " ".join(hide_password(message, url).split()).rstrip(".")
    for words, problem, hint in _ERROR_HINTS:
        if any(state.startswith(w) if w[0].isdigit() else w in text for w in words.split("|")):
            migrate = remote_command_line("store", "migrate")
            return StoreError(
                f"The store {name} {problem}: {text}.", hint=hint.replace("{migrate}", migrate)
            )
    return StoreError(f"The store {name} failed: {text}.", hint="Check the log of the server.")
