"""Example catalog: about eighty tools of an invented office."""

from __future__ import annotations

from pathlib import Path

CATALOG = Path(__file__).with_name("tools.jsonl")
"""The embedded example catalog, one tool per line."""
