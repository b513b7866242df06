"""What a toolbox is given by its user, refused at once where it cannot be used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ..errors import ConfigError, ToolscoutError


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
