"""The example site, opened in a folder of its own."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from cms.cms import Cms, open_cms
from toolscout import Engine
from toolscout.toolbox.session import Session


async def agrees(approval: Any) -> bool:
    """An approver who says yes to everything."""
    return True


@pytest.fixture
async def cms(tmp_path: Path) -> AsyncIterator[Cms]:
    async with open_cms(tmp_path / "site") as opened:
        yield opened


@pytest.fixture
async def session(cms: Cms) -> AsyncIterator[Session]:
    """A conversation that may use every tool of the site at once."""
    async with cms.toolbox(
        profile="everything", store="memory", engine=Engine(), approver=agrees
    ) as box:
        yield await box.session("ann")
