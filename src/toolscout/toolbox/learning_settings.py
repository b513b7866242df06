"""The learner that the settings ask for."""

from __future__ import annotations

import time

from ..config import Config
from ..events import Sink
from ..learning.buffer import SPACE
from ..learning.learner import Learner
from ..search.engine import Engine
from ..store.contract import Clock, StoreLimits
from ..store.factory import open_store, store_path


def open_learner(
    config: Config, engine: Engine, *, sink: Sink, clock: Clock = time.time
) -> Learner | None:
    """A learner with its state in the configured store; None if there is nothing to learn with.

    An engine without vectors, or with rankers of its own, has no ranker for past use.
    """
    if config.learning == "off" or engine.usage is None:
        return None
    path = store_path(config)
    return Learner(
        engine.usage,
        # Without a limit: the learner itself bounds what it keeps.
        lambda: open_store(config, space=SPACE, limits=StoreLimits(cap=None)),
        mode=config.learning,
        has_state=lambda: path is not None and path.exists(),
        sink=sink,
        clock=clock,
    )
