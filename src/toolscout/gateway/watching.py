"""Edits of the configuration and of pins, noticed while the gateway runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from ..errors import ToolscoutError
from .gateway import Gateway
from .setup import Setup

log = logging.getLogger(__name__)
EVERY_SECONDS = 1.0


async def watch(
    gateway: Gateway, again: Callable[[], Setup], *, every_seconds: float = EVERY_SECONDS
) -> None:
    """Apply edits as they come; one that cannot be read is told, and the old one stays."""
    stamp = _stamp(gateway.setup.path)
    while True:
        await asyncio.sleep(every_seconds)
        try:
            await gateway.recheck()
            now = _stamp(gateway.setup.path)
            if now != stamp:
                stamp = now
                await gateway.apply(again())
        except ToolscoutError as error:
            log.warning("The edited configuration is not used: %s", error)
            gateway.complain(str(error))


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)
