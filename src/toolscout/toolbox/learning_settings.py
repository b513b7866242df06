"""The learner that the settings ask for, and the state that it shares with others."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

from ..config import Config
from ..embedders.embedder import Embedder
from ..errors import ConfigError
from ..events import Sink
from ..learning.buffer import SPACE, ReplayBuffer
from ..learning.learner import Learner
from ..learning.usage import attach_usage
from ..search.engine import Engine
from ..store.contract import Clock, Store, StoreLimits
from ..store.factory import has_store, is_store_kept, open_store


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
        lambda: _open_space(config),
        mode=config.learning,
        has_state=lambda: has_store(config),
        sink=sink,
        clock=clock,
    )


@contextmanager
def open_replay_buffer(config: Config, embedder: Embedder) -> Generator[ReplayBuffer]:
    """The learned state in the configured store, without a learner."""
    if not is_store_kept(config):
        raise ConfigError(
            "With store = memory, what is learned exists only in its process.",
            hint="Set store to sqlite or to the path of a file.",
        )
    store = _open_space(config)
    try:
        yield ReplayBuffer(store, model=embedder.id, dimensions=embedder.dimensions)
    finally:
        store.close()


def _open_space(config: Config) -> Store:
    # Without a limit: the learner itself bounds what it keeps.
    return open_store(config, space=SPACE, limits=StoreLimits(cap=None))
