"""The NumPy array types that embedders and search pass around."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
"""One flag per slot; a slot is the number of a tool in the index."""

Ints = npt.NDArray[np.int32]
"""Slots or other small integers."""

Floats = npt.NDArray[np.float32]
"""Scores, weights and vectors in single precision."""

Doubles = npt.NDArray[np.float64]
"""Sums over a whole catalog, which need double precision."""

Bytes = npt.NDArray[np.uint8]
"""Bit sets of up to eight flags."""
