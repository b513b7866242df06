"""The service in a thread of its own, for programs that have an event loop themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

from .server import Wire
from .turns import Plan


@contextmanager
def aside(*plan: Plan) -> Iterator[Wire]:
    """A service that is there as long as the block runs."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    try:
        wire = Wire(*plan)
        asyncio.run_coroutine_threadsafe(wire.__aenter__(), loop).result()
        try:
            yield wire
        finally:
            asyncio.run_coroutine_threadsafe(wire.__aexit__(None, None, None), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
