"""A small catalog to try things on: some eighty tools of a made-up office."""

from __future__ import annotations

from pathlib import Path

CATALOG = Path(__file__).with_name("tools.jsonl")
"""The embedded example catalog, one tool a line."""
