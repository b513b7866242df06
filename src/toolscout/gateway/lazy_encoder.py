"""An encoder that is read while others already search: nobody waits for its weights."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from threading import Event, Lock, Thread

from ..config import Config
from ..errors import EmbedderError
from ..search.analyzer import latin_share
from ..search.embedders import load_embedders
from ..search.embedders.cache import VectorCache
from ..search.embedders.embedder import Floats
from ..search.embedders.universal_encoder import UniversalEncoder
from ..search.engine import Engine

_MIN_LATIN_SHARE = 0.5


class LazyEncoder:
    """The bundled encoder; until it is read, questions are answered by their words alone.

    A question in another script than the words of most catalogs waits for it: its words alone
    would find nothing.
    """

    def __init__(self, inner: UniversalEncoder) -> None:
        self._inner = inner
        self._lock = Lock()
        self._thread: Thread | None = None
        self._is_read = Event()

    @property
    def id(self) -> str:
        """The model."""
        return self._inner.id

    @property
    def dimensions(self) -> int:
        """How long a vector is."""
        return self._inner.dimensions

    @property
    def is_latin_only(self) -> bool:
        """Whether it knows only languages in Latin script."""
        return self._inner.is_latin_only

    @property
    def translation_threshold(self) -> float:
        """The cosine from which on two words may mean the same."""
        return self._inner.translation_threshold

    def legibility(self, text: str) -> float:
        """How well it reads a text."""
        return self._inner.legibility(text)

    def is_word(self, text: str) -> bool:
        """Whether it knows a word whole; nobody waits to be told."""
        return self._is_read.is_set() and self._inner.is_word(text)

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row a text, however long the weights take."""
        rows = self._inner.encode(texts)
        self._is_read.set()
        return rows

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """One row a question; an error while the weights are being read and words will do."""
        if not self._is_read.is_set() and latin_share(" ".join(texts)) >= _MIN_LATIN_SHARE:
            self.load_in_background()
            raise EmbedderError("The encoder is still being read.", is_transient=True)
        return self.encode(texts)

    def load_in_background(self) -> None:
        """Read the weights in the background, once."""
        with self._lock:
            if self._thread is None:
                self._thread = Thread(
                    target=self._load_weights, name="toolscout-encoder", daemon=True
                )
                self._thread.start()

    def _load_weights(self) -> None:
        # One that cannot be read tells so itself, whenever it is asked.
        with suppress(Exception):
            self._inner.encode([" "])
        self._is_read.set()


def build_engine(config: Config) -> Engine:
    """The search of a gateway: its first answers go by words, where the encoder is not read yet."""
    embedders = tuple(
        LazyEncoder(e) if isinstance(e, UniversalEncoder) else e
        for e in load_embedders(config.embedder)
    )
    cache = VectorCache(config.cache_folder / "vectors.db") if embedders else None
    return Engine(embedders=embedders, cache=cache)


def preload_encoders(engine: Engine) -> None:
    """Have an engine's encoder read, before somebody asks for it."""
    for embedder in engine.embedders:
        if isinstance(embedder, LazyEncoder):
            embedder.load_in_background()
