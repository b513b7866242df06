"""Where a run keeps what it makes on the way; safe to delete at any time."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".cache" / "bench"
