"""Start servers and the encoder in the background, after the first answer to a client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from threading import Event, Lock, Thread

from ..config import Config
from ..embedders import load_embedders
from ..embedders.arrays import Floats
from ..embedders.embedder import knows_language
from ..embedders.universal_encoder import UniversalEncoder
from ..errors import EmbedderError
from ..events import Sink, ignore
from ..search.analyzer import latin_share
from ..search.engine import Engine
from ..search.pipeline import STILL_LOADING
from ..toolbox.engine_settings import configure_engine
from .upstream.upstreams import Upstreams

QUIET_SECONDS = 3.0
"""How long a gateway without requests waits before it starts its servers."""

# Work that an answer triggers begins this much later, so that the answer is sent first.
_REPLY_GRACE_SECONDS = 0.05
# From this share of Latin letters on, a keyword search is good enough until the encoder is loaded.
_MIN_LATIN_SHARE = 0.5


class LazyEncoder:
    """The bundled encoder, whose weights are loaded in the background."""

    # Until then a query raises a transient error and gets keyword-only results. A query in
    # another script waits instead: most catalogs are in English, so its keywords would match
    # nothing.

    def __init__(self, inner: UniversalEncoder) -> None:
        self._inner = inner
        self._lock = Lock()
        self._thread: Thread | None = None
        self._is_loaded = Event()

    @property
    def id(self) -> str:
        """The id of the model."""
        return self._inner.id

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return self._inner.dimensions

    @property
    def is_latin_only(self) -> bool:
        """Whether it supports only languages in Latin script."""
        return self._inner.is_latin_only

    @property
    def translation_threshold(self) -> float:
        """The cosine from which on two words may mean the same."""
        return self._inner.translation_threshold

    def vocabulary_coverage(self, text: str) -> float:
        """How well it reads a text."""
        return self._inner.vocabulary_coverage(text)

    def knows_language(self, text: str) -> bool:
        """Whether a text seems to be in a language that it knows."""
        return knows_language(self._inner, text)

    def is_word(self, text: str) -> bool:
        """Whether its vocabulary has the word as a whole; False while it is loading."""
        return self._is_loaded.is_set() and self._inner.is_word(text)

    def is_wordlike(self, text: str) -> bool:
        """Whether a word is made of few pieces; False while it is loading."""
        return self._is_loaded.is_set() and self._inner.is_wordlike(text)

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row per text; waits for the weights."""
        rows = self._inner.encode(texts)
        self._is_loaded.set()
        return rows

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """One row per query; raises while the weights are loading and keyword search is enough."""
        if not self._is_loaded.is_set() and latin_share(" ".join(texts)) >= _MIN_LATIN_SHARE:
            self.load_in_background()
            raise EmbedderError(f"{STILL_LOADING}; results are keyword-only.", is_transient=True)
        return self.encode(texts)

    def load_in_background(self) -> None:
        """Load the weights in a thread, once."""
        with self._lock:
            if self._thread is None:
                self._thread = Thread(
                    target=self._load_weights, name="toolscout-encoder", daemon=True
                )
                self._thread.start()

    def _load_weights(self) -> None:
        # An encoder that cannot be loaded raises again with its reason on the next query, where
        # a caller can read it.
        with suppress(Exception):
            self._inner.encode([" "])
        self._is_loaded.set()


def build_engine(config: Config, *, sink: Sink = ignore) -> Engine:
    """The search engine of a gateway, which uses keyword search until its encoder is loaded."""
    embedders = tuple(
        LazyEncoder(e) if isinstance(e, UniversalEncoder) else e
        for e in load_embedders(config.embedder)
    )
    return configure_engine(config, embedders, sink=sink)


def preload_encoders(engine: Engine) -> None:
    """Load the engine's encoder before the first query needs it."""
    for embedder in engine.embedders:
        if isinstance(embedder, LazyEncoder):
            embedder.load_in_background()


class BackgroundStartup:
    """Starts all servers and the encoder, and wakes the servers that a search found."""

    # Starting processes and loading weights keep the machine busy. A client that has just started
    # the gateway waits for its first answer, so that answer goes first. A call or a search that
    # needs a certain server wakes it at once, regardless of this order.

    def __init__(self, upstreams: Upstreams, engine: Engine, *, quiet_seconds: float) -> None:
        self._upstreams = upstreams
        self._engine = engine
        self._quiet_seconds = quiet_seconds
        self._has_answered = asyncio.Event()

    async def run(self) -> None:
        """Start everything after the first answer, or when no request came for a while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._quiet_seconds):
                await self._has_answered.wait()
        preload_encoders(self._engine)
        await self._upstreams.start_all()

    def mark_answered(self) -> None:
        """Note that a client has its answer."""
        if not self._has_answered.is_set():
            _run_after_reply(self._has_answered.set)

    def wake_servers(self, servers: Iterable[str]) -> None:
        """Wake servers whose tools a search has found, because one of them is called next."""
        names = tuple(servers)
        _run_after_reply(lambda: self._upstreams.wake(*names))


def _run_after_reply(action: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(_REPLY_GRACE_SECONDS, action)
