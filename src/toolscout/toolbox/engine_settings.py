"""The search engine that the settings ask for."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event, Thread

from ..config import Config
from ..embedders.embedder import Embedder
from ..embedders.shared_cache import open_vectors
from ..embedders.worker import FillReport
from ..events import Sink, VectorsLoadingEvent, VectorsReadyEvent, guard_sink, stamp_sink
from ..search.engine import Engine, IndexStatus
from ..search.recipe import default_rankers
from ..telemetry.metrics import time_rankers

_PROGRESS_SECONDS = 5.0


def configure_engine(config: Config, embedders: Sequence[Embedder], *, sink: Sink) -> Engine:
    """An engine with a cache of vectors, and with timed rankers if the settings say so."""
    cache = open_vectors(config) if embedders else None
    rankers = time_rankers(default_rankers(embedders), sink) if config.ranker_times else None
    emit = guard_sink(stamp_sink(sink))  # it is called in the thread that computes vectors

    progress = _FillProgress(emit)

    def emit_fill(report: FillReport) -> None:
        progress.follow(None if report.is_over else engine)
        if report.is_over:
            seconds = round(report.took_seconds, 1)
            emit(VectorsReadyEvent(done=report.done, total=report.total, took_seconds=seconds))
        else:
            emit(_describe_loading(engine.status))

    engine = Engine(embedders=embedders, cache=cache, rankers=rankers, on_fill=emit_fill)
    return engine


class _FillProgress:
    """Emits every few seconds how many tools have vectors, while they are computed."""

    def __init__(self, emit: Sink) -> None:
        self._emit = emit
        self._over = Event()

    def follow(self, engine: Engine | None) -> None:
        """Begin with an engine, or stop with None."""
        self._over.set()
        if engine is not None:
            self._over = Event()
            work = Thread(
                target=self._run, args=(engine, self._over), name="toolscout-progress", daemon=True
            )
            work.start()

    def _run(self, engine: Engine, over: Event) -> None:
        while not over.wait(_PROGRESS_SECONDS):
            status = engine.status
            # Not filling any longer: it failed, or the engine was closed.
            if not status.is_filling:
                return
            self._emit(_describe_loading(status))


def _describe_loading(status: IndexStatus) -> VectorsLoadingEvent:
    done = min(status.vectors.values(), default=0)
    return VectorsLoadingEvent(done=done, total=status.tools)
