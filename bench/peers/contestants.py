"""Who takes part: Toolscout and its peers, and how each is driven."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..work import FOLDER

HERE = Path(__file__).parent
LIMIT = 10
"""How many hits everybody is asked for."""


@dataclass(frozen=True)
class Contestant:
    """One search: its adapter, the environment that it runs in, and its options.

    `package` names what is installed there for it (nothing for Toolscout, which runs here).
    """

    label: str
    adapter: str
    package: str = ""
    environment: str = ""
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    has_vectors: bool = False

    @property
    def script(self) -> Path:
        """The file that knows how to drive it."""
        return HERE / "adapters" / f"{self.adapter}.py"

    @property
    def requirements(self) -> Path:
        """The file that pins what its environment has."""
        return HERE / f"{self.environment}.txt"

    @property
    def version(self) -> str:
        """The version of its package, as pinned."""
        lines = self.requirements.read_text(encoding="utf-8").splitlines()
        pins = dict(line.split("==", 1) for line in lines if "==" in line)
        return pins.get(self.package, "")


LEXICAL = Contestant("Toolscout, words only", "toolscout")
DEFAULT = Contestant(
    "Toolscout",
    "toolscout",
    options={"embedder": "use", "cache": str(FOLDER / "vectors.db")},
    has_vectors=True,
)

FASTMCP = Contestant("FastMCP BM25", "fastmcp", "fastmcp", "fastmcp")
PYDANTIC_AI = Contestant("pydantic-ai", "pydantic_ai", "pydantic-ai-slim", "pydantic-ai")
HAYSTACK = Contestant("Haystack", "haystack", "haystack-ai", "haystack")
TOOLREGISTRY = Contestant("toolregistry", "toolregistry", "toolregistry", "toolregistry")
RATEL = Contestant("ratel-ai", "ratel_ai", "ratel-ai", "ratel-ai")
BIGTOOL = Contestant(
    "langgraph-bigtool", "bigtool", "langgraph-bigtool", "bigtool", has_vectors=True
)
BM25S = Contestant("bm25s", "bm25s", "bm25s", "bm25s")
PREPARED = Contestant("bm25s, prepared", "bm25s", "bm25s", "bm25s", options={"is_prepared": True})

PEERS = (FASTMCP, PYDANTIC_AI, HAYSTACK, TOOLREGISTRY, RATEL, BIGTOOL, BM25S, PREPARED)
OURS = (LEXICAL, DEFAULT)
