"""The search engine that the settings ask for."""

from __future__ import annotations

from collections.abc import Sequence

from ..config import Config
from ..events import Sink, VectorsLoadingEvent, VectorsReadyEvent, guard_sink, stamp_sink
from ..search.embedders.cache import VectorCache
from ..search.embedders.embedder import Embedder
from ..search.embedding_worker import FillReport
from ..search.engine import Engine, default_rankers
from ..telemetry.metrics import time_rankers


def configure_engine(config: Config, embedders: Sequence[Embedder], *, sink: Sink) -> Engine:
    """An engine with a cache of vectors, and with timed rankers if the settings say so."""
    cache = VectorCache(config.cache_folder / "vectors.db") if embedders else None
    rankers = time_rankers(default_rankers(embedders), sink) if config.ranker_times else None
    emit = guard_sink(stamp_sink(sink))  # it is called in the thread that computes vectors

    def emit_fill(report: FillReport) -> None:
        if report.is_over:
            seconds = round(report.took_seconds, 1)
            emit(VectorsReadyEvent(done=report.done, total=report.total, took_seconds=seconds))
        else:
            emit(VectorsLoadingEvent(done=report.done, total=report.total))

    return Engine(embedders=embedders, cache=cache, rankers=rankers, on_fill=emit_fill)
