"""What a toolbox is given by its user, refused at once where it cannot be used."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import cast, get_args

from ..errors import ConfigError, ToolscoutError
from ..search.query import Mode


def check_messages(messages: object) -> None:
    """Refuse what is no list of messages."""
    if messages is None:
        return
    kind = type(messages).__name__
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise ToolscoutError(
            f"A {kind} is not a list of messages.",
            hint="Give the messages of the conversation, as they were sent, in a list.",
        )


def check_search(query: object, limit: object, mode: object) -> None:
    """Refuse what no search can be asked."""
    is_many = isinstance(query, Collection) and not isinstance(query, str | bytes | Mapping)
    items = cast("Collection[object]", query if is_many else (query,))
    for item in items:
        if not isinstance(item, str):
            raise ToolscoutError(
                f"A {type(item).__name__} is not a query.", hint="Give a text, or a list of texts."
            )
    if not isinstance(limit, int) or limit < 0:
        raise ToolscoutError(
            f"A search cannot find {limit!r} tools at most.", hint="Give a limit of 0 or more."
        )
    if mode not in get_args(Mode):
        raise ToolscoutError(
            f"There is no search mode {mode!r}.", hint=f"Choose from: {', '.join(get_args(Mode))}."
        )


def check_store(store: object) -> None:
    """Refuse what is neither the name of a store nor one."""
    moves = ("get", "put", "delete", "list")
    is_store = all(callable(getattr(store, move, None)) for move in moves)
    if store is not None and not isinstance(store, str | Path) and not is_store:
        raise ConfigError(
            f"A {type(store).__name__} is not a store.",
            hint="Give 'sqlite', 'memory', the path of a file, or an object that keeps the Store "
            "contract.",
        )
