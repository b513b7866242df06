"""Where vectors come from."""

from __future__ import annotations

from ...errors import ConfigError
from .embedder import Embedder

KINDS = "none, use"


def load(spec: str) -> tuple[Embedder, ...]:
    """The embedders that a setting names: `none`, `use`, or several joined by `+`."""
    return tuple(e for part in spec.split("+") if (e := _one(part.strip())) is not None)


def _one(spec: str) -> Embedder | None:
    match spec:
        case "none" | "":
            return None
        case "use":
            from .use import UniversalEncoder

            return UniversalEncoder()
        case _:
            raise ConfigError(f"There is no embedder {spec!r}.", hint=f"Choose from: {KINDS}.")
