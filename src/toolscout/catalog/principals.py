"""Who makes a call, as its source may know: some servers have a login for each principal."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

# A context variable, because what a source is called with does not name its caller.
CURRENT_PRINCIPAL: ContextVar[str] = ContextVar("principal", default="")
"""The principal whose call runs in this context; empty if there is none or it is anonymous."""


@contextmanager
def bind_principal(name: str) -> Generator[None]:
    """Run the block on behalf of a principal."""
    token = CURRENT_PRINCIPAL.set(name)
    try:
        yield
    finally:
        CURRENT_PRINCIPAL.reset(token)
