"""A page of the console: its place in the navigation and its routes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from starlette.responses import Response

from .visit import Visit

ROOT = "/console"
"""Where the console is."""

Handler = Callable[[Visit], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class ConsoleRoute:
    """One address below that of its page, and the function that answers."""

    method: Literal["GET", "POST"]
    path: str
    handler: Handler
    needs_login: bool = False


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """An entry of the navigation; `path` begins with a slash and is below `ROOT`."""

    title: str
    path: str
    routes: tuple[ConsoleRoute, ...]


def get(path: str, handler: Handler) -> ConsoleRoute:
    """A route that shows something, and changes nothing."""
    return ConsoleRoute("GET", path, handler)


def post(path: str, handler: Handler) -> ConsoleRoute:
    """A route that changes something; its CSRF token is checked before the handler runs."""
    return ConsoleRoute("POST", path, handler)


def act(path: str, handler: Handler) -> ConsoleRoute:
    """A route that changes how the gateway works: only for an admin who logged in."""
    return ConsoleRoute("POST", path, handler, needs_login=True)
