"""The learner that the settings ask for."""

from __future__ import annotations

import time

from ..config import Config
from ..events import Sink
from ..learning.buffer import SPACE
from ..learning.learner import Learner
from ..learning.usage import attach_usage
from ..search.engine import Engine
from ..store.contract import Clock, StoreLimits
from ..store.factory import has_store, open_store


def open_learner(
    config: Config, engine: Engine, *, sink: Sink, clock: Clock = time.time
) -> Learner | None:
    """A learner with its state in the configured store; None if there is nothing to learn with.

    An engine without an embedder cannot compare requests.
    """
    usage = attach_usage(engine) if config.learning != "off" else None
    if usage is None:
        return None
    return Learner(
        usage,
        # Without a limit: the learner itself bounds what it keeps.
        lambda: open_store(config, space=SPACE, limits=StoreLimits(cap=None)),
        mode=config.learning,
        has_state=lambda: has_store(config),
        sink=sink,
        clock=clock,
    )
