"""Every behaviour is proven by a test that runs, or it is explained."""

import ast
from pathlib import Path

import pytest
from tests.behaviours.__main__ import lines, main, summary
from tests.behaviours.table import Table, marked, read

SIZES = {"A": 35, "B": 87, "C": 48, "D": 59, "E": 136, "S": 25, "K": 28}


@pytest.fixture(scope="module")
def table() -> Table:
    return read()


def test_no_behaviour_is_left_without_test_or_reason(table: Table):
    assert table.open == ()


def test_no_mark_and_no_explanation_names_a_row_that_does_not_exist(table: Table):
    assert table.unknown == ()


def test_no_exemption_outlives_its_reason(table: Table):
    assert table.stale == ()


def test_the_numbering_is_whole(table: Table):
    numbered = [f"{letter}{n}" for letter, size in SIZES.items() for n in range(1, size + 1)]
    assert sorted(table.rows) == sorted(numbered)
    assert all(words and words[-1] != "." for words in table.rows.values())
    assert all(reason.endswith(".") for reason in (*table.exempt.values(), *table.differs.values()))


def rows_of(text: str) -> list[tuple[str, str]]:
    return [*marked(ast.parse(text))]


def test_marks_are_read_wherever_pytest_takes_them():
    assert rows_of(
        "pytestmark = [pytest.mark.behaviour('A1')]\n"
        "@pytest.mark.behaviour('B1', 'B2')\n"
        "def test_one(): ...\n"
        "@pytest.mark.parametrize('x', [pytest.param(1, marks=pytest.mark.behaviour('C1'))])\n"
        "async def test_two(x): ...\n"
        "@pytest.mark.behaviour('D1')\n"
        "class TestMany:\n"
        "    @pytest.mark.behaviour('E1')\n"
        "    def test_three(self): ...\n"
    ) == [
        *(("test_one", "A1"), ("test_one", "B1"), ("test_one", "B2")),
        *(("test_two", "A1"), ("test_two", "C1")),
        *(("test_three", "A1"), ("test_three", "D1"), ("test_three", "E1")),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "@pytest.mark.behaviour('A1')\ndef helps(): ...",
        "@pytest.mark.skip\n@pytest.mark.behaviour('A1')\ndef test_it(): ...",
        "@pytest.mark.behaviour('A1')\n@pytest.mark.xfail(reason='?')\ndef test_it(): ...",
    ],
)
def test_a_test_that_does_not_run_or_may_fail_proves_nothing(text: str):
    assert rows_of(text) == []


def test_gaps_unknown_names_and_unneeded_reasons_are_reported(tmp_path: Path):
    (tmp_path / "rows.toml").write_text("[x]\nA1 = 'one'\nA2 = 'two'\nA3 = 'three'\nA4 = 'four'\n")
    (tmp_path / "exemptions.toml").write_text("[exempt]\nA1 = 'later'\nA2 = 'never'\n")
    (tmp_path / "test_it.py").write_text(
        "@pytest.mark.behaviour('A1', 'Z9', 'A4')\ndef test_a(): ...\n"
    )
    made = read(tmp_path, tmp_path)
    assert (made.open, made.unknown, made.stale) == (("A3",), ("Z9",), ("A1",))
    told = lines(made, [])
    assert told[:3] == [
        "A1    one",
        f"      {tmp_path.name}/test_it.py::test_a",
        "      exempt: later",
    ]
    assert any("OPEN" in line for line in told)
    assert "4 behaviours: 2 proven by 1 tests" in summary(made)


def test_the_command_prints_rows_with_their_tests_and_the_count(capsys: pytest.CaptureFixture):
    assert main(["A35"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("A35   imports, lint, types and tests pass together")
    assert "0 open" in told
