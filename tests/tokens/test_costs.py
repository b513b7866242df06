"""What profiles cost, and the command that prints it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.schema import Schema
from toolscout.catalog.tool import Tool
from toolscout.cli.app import run
from toolscout.disclosure.profiles import (
    CMS,
    DEFAULT,
    EVERRUNS,
    EVERYTHING,
    MCPAGENT,
    profile_names,
)
from toolscout.evals.costs import CostEstimator
from toolscout.search.engine import Engine
from toolscout.sources.files import read_tools
from toolscout.tokens import default_counter

DATA = Path(__file__).parents[3] / "shared" / "data"
RECORDED = Path(__file__).parents[1] / "disclosure" / "conversations"
VERBS = ("list", "create", "update", "delete", "archive")
THINGS = ("invoice", "ticket", "branch", "playlist", "recipe", "flight", "parcel", "poll")


def catalog() -> Catalog:
    schema = Schema.of(
        {
            "type": "object",
            "properties": {
                "id": {"type": "string", "description": "Which one is meant, by its identifier."},
                "note": {"type": "string", "description": "What to write down beside it."},
            },
        }
    )
    return Catalog(
        Tool(
            name=f"{thing}s__{verb}",
            server=f"{thing}s",
            description=f"{verb.capitalize()} one {thing} of the account, and tell what was done.",
            parameters=schema,
        )
        for thing in THINGS
        for verb in VERBS
    )


@pytest.fixture(scope="module")
def scale() -> CostEstimator:
    return CostEstimator(engine=Engine(catalog()), counter=default_counter())


@pytest.mark.behaviour("B78")
def test_a_conversation_grows_with_what_it_finds_and_stays_below_everything(scale: CostEstimator):
    everything = scale.full_catalog_tokens()
    for profile in (DEFAULT, MCPAGENT, CMS):
        cost = scale.cost(profile)
        assert cost.start < cost.after_1 < cost.after_5 < everything
        assert 0 < cost.savings(everything) < 1


@pytest.mark.behaviour("S18")
def test_stub_schemas_cut_a_realistic_tool_list_to_less_than_half():
    engine = Engine(Catalog(read_tools(RECORDED / "catalog.jsonl").tools))
    realistic = CostEstimator(engine=engine, counter=default_counter())
    assert realistic.cost(EVERRUNS).start < realistic.full_catalog_tokens() / 2


def test_everything_loaded_costs_the_same_however_long_one_talks(scale: CostEstimator):
    cost = scale.cost(EVERYTHING)
    assert cost.start == cost.after_1 == cost.after_5 == scale.full_catalog_tokens()
    assert cost.savings(scale.full_catalog_tokens()) == 0


def test_the_same_catalog_costs_the_same_every_time(scale: CostEstimator):
    again = CostEstimator(engine=Engine(catalog()), counter=default_counter())
    assert again.cost(DEFAULT) == scale.cost(DEFAULT)


def test_an_empty_catalog_can_be_weighed():
    empty = CostEstimator(engine=Engine(Catalog()), counter=default_counter())
    assert empty.cost(DEFAULT).savings(empty.full_catalog_tokens()) <= 1


@pytest.mark.parametrize(
    ("name", "size"),
    [("github_mcp_catalog", 117), ("docker_catalog", 755), ("toucan_catalog", 5_248)],
)
def test_the_default_starts_within_its_promise_on_real_catalogs(name: str, size: int):
    path = DATA / name / "tools.jsonl"
    if not path.exists():
        pytest.skip(f"the real catalog {name} is not here")
    engine = Engine(Catalog(read_tools(path).tools))
    assert len(engine.catalog) == size
    cost = CostEstimator(engine=engine, counter=default_counter()).cost(DEFAULT)
    assert cost.start <= 1_500


# The command


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    code = run(["tokens", *map(str, arguments), "--json"])
    output = capsys.readouterr()
    return json.loads(output.out) if code == 0 else (code, json.loads(output.err)["error"])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tools.jsonl"
    path.write_text("".join(f"{json.dumps(tool.row())}\n" for tool in catalog()))
    return path


def test_the_report_has_the_form_that_scripts_rely_on(
    file: Path, capsys: pytest.CaptureFixture[str]
):
    report = printed(capsys, "--catalog", file)
    assert report["counter"] == "o200k_base"
    assert report["is_exact"] is True
    assert report["tools"] == 40
    assert set(report["profiles"]) == {*profile_names()} - {"everything"}
    for row in report["profiles"].values():
        # A profile that costs more than everything loaded has a note beside its figures.
        assert set(row) - {"note"} == {"start", "after_1", "after_5", "saved"}
        assert ("note" in row) == (row["saved"] < 0)
    start = report["profiles"]["default"]["start"]
    assert report["profiles"]["default"]["saved"] == pytest.approx(
        1 - start / report["everything"], abs=1e-3
    )


def test_one_profile_may_be_asked_for(file: Path, capsys: pytest.CaptureFixture[str]):
    assert list(printed(capsys, "--catalog", file, "--profile", "cms")["profiles"]) == ["cms"]


def test_an_estimate_is_marked_as_one(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TOOLSCOUT_COUNTER", "estimate")
    report = printed(capsys, "--catalog", file, "--profile", "default")
    assert (report["counter"], report["is_exact"]) == ("estimate", False)
    run(["tokens", "--catalog", str(file), "--profile", "default"])
    assert "an estimate, not a count" in capsys.readouterr().out


def test_a_conversation_is_billed_on_every_surface_its_model_has(
    capsys: pytest.CaptureFixture[str],
):
    asked = (
        *("--catalog", RECORDED / "catalog.jsonl", "--profile", "default"),
        *("--conversation", RECORDED / "one_lookup.jsonl"),
    )
    plain = printed(capsys, *asked)["conversation"]
    assert set(plain) == {"everything", "load", "dispatch"}
    native = printed(capsys, *asked, "--model", "anthropic:claude-sonnet-4-5")["conversation"]
    assert set(native) == {"everything", "load", "dispatch", "native"}
    assert native["dispatch"]["billed"] < native["everything"]["billed"]


def test_for_a_reader_it_is_a_table(file: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["tokens", "--catalog", str(file), "--profile", "default"]) == 0
    out = capsys.readouterr().out
    assert "40 tools, counted with o200k_base" in out
    assert "everything loaded" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--profile", "solo"], "no profile 'solo'"),
        (["--model", "teapot"], "teapot"),
        (["--conversation", "broken"], "Line 1"),
    ],
)
def test_a_mistake_is_reported_and_not_raised(
    tmp_path: Path,
    file: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
):
    broken = tmp_path / "broken.jsonl"
    broken.write_text("this is no conversation\n")
    given = [str(broken) if a == "broken" else a for a in arguments]
    code, error = printed(capsys, "--catalog", file, *given)
    assert code == 2
    assert message in error["message"]
    assert error["hint"]
