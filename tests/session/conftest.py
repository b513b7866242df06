"""Sessions are about state: search by words is enough, and nothing is written elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLSCOUT_EMBEDDER", "none")
    monkeypatch.setenv("TOOLSCOUT_HOME", str(tmp_path / "home"))
