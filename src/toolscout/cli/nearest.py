"""What a mistyped name may have meant."""

from __future__ import annotations

from rapidfuzz import fuzz, process

from ..catalog.catalog import Catalog
from ..catalog.names import normalised

_MOST = 5
_LEAST = 60


def nearest(catalog: Catalog, name: str) -> list[str]:
    """The names most like one that no tool has, best first."""
    spelled = {known: normalised(known) for known in catalog.tools}
    found = process.extract(
        normalised(name), spelled, scorer=fuzz.WRatio, limit=_MOST, score_cutoff=_LEAST
    )
    return [known for _, _, known in found]
