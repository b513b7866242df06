"""Checks of what users pass to a toolbox or session, with errors that say what to pass."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast, get_args

from ..errors import ConfigError, ToolscoutError
from ..search.query import Mode


def check_messages(messages: object) -> None:
    """Raise unless the value is None or an iterable of messages."""
    if messages is None:
        return
    kind = type(messages).__name__
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise ToolscoutError(
            f"A {kind} is not a list of messages.",
            hint="Give a list of the messages of the conversation, unchanged.",
        )


def check_search(query: object, limit: object, mode: object) -> None:
    """Raise unless these are a query or several, a limit and a search mode."""
    is_many = isinstance(query, Collection) and not isinstance(query, str | bytes | Mapping)
    items = cast("Collection[object]", query if is_many else (query,))
    for item in items:
        if not isinstance(item, str):
            raise ToolscoutError(
                f"A {type(item).__name__} is not a query.", hint="Give a text, or a list of texts."
            )
    if not isinstance(limit, int) or limit < 0:
        raise ToolscoutError(
            f"{limit!r} is not a valid limit of a search.", hint="Give a limit of 0 or more."
        )
    if mode not in get_args(Mode):
        raise ToolscoutError(
            f"There is no search mode {mode!r}.", hint=f"Choose from: {', '.join(get_args(Mode))}."
        )


def check_store(store: object) -> None:
    """Raise unless the value is None, the name of a store, a path, or a store."""
    methods = ("get", "put", "delete", "list")
    is_store = all(callable(getattr(store, method, None)) for method in methods)
    if store is not None and not isinstance(store, str | Path) and not is_store:
        raise ConfigError(
            f"A {type(store).__name__} is not a store.",
            hint="Give 'sqlite', 'memory', the path of a file, or an object that implements Store.",
        )


def check_tool_names(names: Sequence[object]) -> None:
    """Raise unless every name is text."""
    # Before anything is saved: a session with another value in it could not be read back.
    for name in names:
        if not isinstance(name, str):
            raise ToolscoutError(
                f"{name!r} is not the name of a tool.", hint="Give names as text, one by one."
            )
