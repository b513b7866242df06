"""The catalog and the conversations that surfaces are compared on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.schema import Schema
from toolscout.catalog.tool import Tool
from toolscout.evals.conversation import RecordedTurn, read_conversation
from toolscout.search.engine import Engine

FOLDER = Path(__file__).parent / "conversations"
CONVERSATIONS = ("one_lookup", "three_needs", "mostly_talk", "long_session")


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    rows = (json.loads(line) for line in (FOLDER / "catalog.jsonl").read_text().splitlines())
    return Catalog(
        Tool(
            name=row["name"],
            description=row["description"],
            parameters=Schema.of(row["parameters"]),
            server=row["server"],
        )
        for row in rows
    )


@pytest.fixture(scope="session")
def engine(catalog: Catalog) -> Engine:
    return Engine(catalog)


@pytest.fixture(scope="session")
def conversations() -> dict[str, tuple[RecordedTurn, ...]]:
    return {
        name: read_conversation((FOLDER / f"{name}.jsonl").read_text()) for name in CONVERSATIONS
    }
