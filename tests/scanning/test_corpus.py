"""How many attacks the scanner catches, and how many ordinary tools it holds."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.scanning.corpus import FAMILIES, Family

from toolscout.scanning.catalog_scan import CatalogDefinition, scan_catalog
from toolscout.scanning.findings import has_hard
from toolscout.scanning.rules import RuleSet, default_rules
from toolscout.scanning.scanner import scan_definition

DATA = Path(__file__).parents[3] / "shared" / "data"
CATALOGS = ("toucan_catalog", "docker_catalog", "github_mcp_catalog", "azure_mcp", "mcp_bench")
FUNCTIONS = ("bfcl", "seal_tools", "acebench_zh")


def caught(family: Family, rules: RuleSet) -> int:
    return sum(has_hard(scan_definition(s.definition, rules=rules)) for s in family.samples)


def rows(name: str) -> list[CatalogDefinition]:
    file = DATA / name / "tools.jsonl"
    if not file.exists():
        pytest.skip(f"the catalog {name} is not at {DATA}")
    lines = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    fields = ("name", "description", "parameters")
    return [
        CatalogDefinition({k: row[k] for k in fields}, row["name"], row.get("server", ""), name)
        for row in lines
    ]


def test_the_corpus_is_large_and_names_its_sources() -> None:
    samples: list[dict[str, Any]] = [s.definition for f in FAMILIES for s in f.samples]
    assert len(samples) >= 150
    assert len(FAMILIES) >= 20
    assert all(family.source for family in FAMILIES)
    assert len({json.dumps(sample) for sample in samples}) == len(samples)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_each_family_is_caught(family: Family) -> None:
    assert caught(family, default_rules()) >= 0.9 * len(family.samples)


def test_rules_that_have_not_learned_from_a_family_catch_most_of_it() -> None:
    total = sum(len(family.samples) for family in FAMILIES)
    found = sum(caught(family, default_rules().before(family.name)) for family in FAMILIES)
    assert found / total >= 0.9


@pytest.mark.parametrize("name", [*CATALOGS, *FUNCTIONS])
def test_few_ordinary_tools_are_held(name: str) -> None:
    scanned = [*scan_catalog(rows(name), default_rules())]
    held = [tool.name for tool in scanned if tool.is_hard]
    assert len(held) <= 0.02 * len(scanned), held


def test_five_thousand_tools_are_scanned_in_five_seconds() -> None:
    tools = rows("toucan_catalog")[:5_000]
    started = time.process_time()
    assert sum(1 for _ in scan_catalog(tools, default_rules())) == 5_000
    assert time.process_time() - started < 5
