"""The search engine that the settings ask for."""

from __future__ import annotations

from collections.abc import Sequence

from ..config import Config
from ..events import Sink
from ..search.embedders.cache import VectorCache
from ..search.embedders.embedder import Embedder
from ..search.engine import Engine, default_rankers
from ..telemetry.metrics import time_rankers


def configure_engine(config: Config, embedders: Sequence[Embedder], *, sink: Sink) -> Engine:
    """An engine with a cache of vectors, and with timed rankers if the settings say so."""
    cache = VectorCache(config.cache_folder / "vectors.db") if embedders else None
    rankers = time_rankers(default_rankers(embedders), sink) if config.ranker_times else None
    return Engine(embedders=embedders, cache=cache, rankers=rankers)
