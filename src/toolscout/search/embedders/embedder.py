"""The seam for vectors: something that turns texts into unit vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into vectors of length one; `id` names the model, for caches."""

    @property
    def id(self) -> str:
        """The model and everything that changes its vectors."""
        ...

    @property
    def dimensions(self) -> int:
        """How long a vector is."""
        ...

    @property
    def is_latin_only(self) -> bool:
        """Whether it knows only languages in Latin script, and is not asked about others."""
        ...

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row a text; raises EmbedderError when it cannot."""
        ...
