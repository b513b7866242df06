"""Edits of the configuration and of pins, noticed while the gateway runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from ..errors import ToolscoutError
from .gateway import Gateway
from .setup import Setup

log = logging.getLogger(__name__)
EVERY_SECONDS = 1.0


async def watch(
    gateway: Gateway, again: Callable[[], Setup], *, every_seconds: float = EVERY_SECONDS
) -> None:
    """Apply edits as they come; one that cannot be used is told, and the old one stays."""
    stamp = _stamp(gateway.setup.path)
    while True:
        await asyncio.sleep(every_seconds)
        with _told(gateway, "Changed pins are not followed"):
            await gateway.recheck()
        now = _stamp(gateway.setup.path)
        if now != stamp:
            stamp = now
            with _told(gateway, "The edited configuration is not used"):
                await gateway.apply(again())


@contextmanager
def _told(gateway: Gateway, what: str) -> Generator[None]:
    """Say what went wrong, once, and go on: whoever watches must outlive every edit."""
    try:
        yield
    except Exception as error:
        is_ours = isinstance(error, ToolscoutError)
        # The words of another library's error may hold a part of the file, and so a secret.
        why = str(error) if is_ours else f"It cannot be read: {type(error).__name__}."
        if why != gateway.complaint:
            log.warning("%s: %s", what, why)
            log.debug("%s", what, exc_info=not is_ours)
        gateway.complain(why)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)
