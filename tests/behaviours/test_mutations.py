"""A mutation is caught by a test marked with its row, in this process or in a child."""

import json
from pathlib import Path

import pytest
from scripts.mutations import (
    MUTATIONS,
    PROJECT,
    MutationError,
    check_applicable,
    is_enough,
    main,
    read_mutations,
    try_mutation,
)
from tests.behaviours.table import read

SOURCE = "def twice(x):\n    return 2 * x\n\n\ndef half(x):\n    return x / 2\n"
TESTS = """
import subprocess
import sys

import pytest
from arithmetic import half, twice

@pytest.mark.behaviour("A1")
def test_twice_doubles():
    assert twice(3) == 6

@pytest.mark.behaviour("A2")
def test_half_is_a_number():
    assert isinstance(half(3), float)

@pytest.mark.behaviour("A3")
def test_a_child_halves():
    program = "import arithmetic; print(arithmetic.half(4))"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "2.0\\n"
"""
CHANGE = (
    '[[mutation]]\nrow = "{}"\nfile = "src/arithmetic.py"\nold = "{}"\nnew = "{}"\nbreaks = "it"\n'
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "arithmetic.py").write_text(SOURCE)
    tests = tmp_path / "tests"
    (tests / "behaviours" / "mutations").mkdir(parents=True)
    (tests / "test_arithmetic.py").write_text(TESTS)
    (tests / "behaviours" / "rows.toml").write_text("[x]\nA1 = 'a'\nA2 = 'b'\nA3 = 'c'\n")
    (tests / "behaviours" / "exemptions.toml").write_text("")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = behaviour\n")
    return tmp_path


def run(project: Path, text: str, *arguments: str) -> int:
    folder = project / "tests" / "behaviours" / "mutations"
    (folder / "sums.toml").write_text(text)
    return main(arguments, root=project, folder=folder)


def test_mutations_are_caught_or_named_and_the_source_stays_as_it_was(
    project: Path, capsys: pytest.CaptureFixture[str]
):
    text = CHANGE.format("A1", "2 * x", "3 * x") + CHANGE.format("A2", "x / 2", "x / 3")
    text += CHANGE.format("A3", "x / 2", "x / 3")
    assert run(project, text, "sums") == 1
    printed = capsys.readouterr().out
    assert "A1    it\n      sums: tests/test_arithmetic.py::test_twice_doubles" in printed
    assert "A2    it\n      sums: NOT CAUGHT (1 tests pass)" in printed
    assert "A3    it\n      sums: tests/test_arithmetic.py::test_a_child_halves" in printed
    assert "2 of 3 mutations caught (67%)" in printed
    assert (project / "src" / "arithmetic.py").read_text() == SOURCE


def test_the_result_comes_as_json(project: Path, capsys: pytest.CaptureFixture[str]):
    assert run(project, CHANGE.format("A1", "2 * x", "3 * x"), "--json", "A1") == 0
    assert json.loads(capsys.readouterr().out)["caught"] == 1


@pytest.mark.parametrize(
    ("old", "complaint"), [("4 * x", "occurs 0 times"), ("return", "occurs 2 times")]
)
def test_old_text_that_does_not_occur_once_is_an_error(
    project: Path, capsys: pytest.CaptureFixture[str], old: str, complaint: str
):
    assert run(project, CHANGE.format("A1", old, "x")) == 2
    assert complaint in capsys.readouterr().err


def test_a_test_that_fails_without_a_mutation_is_an_error(
    project: Path, capsys: pytest.CaptureFixture[str]
):
    (project / "src" / "arithmetic.py").write_text(SOURCE.replace("2 * x", "5 * x"))
    assert run(project, CHANGE.format("A1", "5 * x", "3 * x")) == 2
    assert "fails without a mutation: tests/test_arithmetic.py" in capsys.readouterr().err


def test_a_mutation_that_cannot_be_imported_is_an_error(project: Path):
    folder = project / "tests" / "behaviours" / "mutations"
    (folder / "sums.toml").write_text(CHANGE.format("A1", "2 * x", "2 *"))
    (mutation,) = read_mutations(folder)
    with pytest.raises(MutationError, match="says nothing"):
        try_mutation(mutation, ["tests/test_arithmetic.py"], root=project, limit=60)


def test_a_mutation_beyond_the_time_limit_is_not_caught(project: Path):
    folder = project / "tests" / "behaviours" / "mutations"
    (folder / "sums.toml").write_text(CHANGE.format("A1", "2 * x", "3 * x"))
    (mutation,) = read_mutations(folder)
    outcome = try_mutation(mutation, ["tests/test_arithmetic.py"], root=project, limit=0.01)
    assert (outcome.caught_by, outcome.reason) == (None, "took longer than 0.01 seconds")


def test_all_mutations_together_must_reach_the_number(project: Path):
    assert run(project, CHANGE.format("A1", "2 * x", "3 * x"), "--skip-baseline") == 1
    assert is_enough([], 0)


def test_every_mutation_applies_to_the_code_and_names_a_row_that_a_test_proves():
    mutations = read_mutations(MUTATIONS)
    assert check_applicable(mutations, PROJECT) == []
    proofs = read().proofs
    assert [m for m in mutations if m.row not in proofs or m.old == m.new or not m.breaks] == []
