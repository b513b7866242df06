"""Sections and their doors are read from the text of the tests."""

import ast
from pathlib import Path

from tests.behaviours.sections import matrix_lines, read_sections, sections

ALL = ("sdk", "agent", "gateway")


def sections_of(text: str) -> list[tuple[str, str, tuple[str, ...]]]:
    return [*sections(ast.parse(text))]


def test_a_test_covers_its_section_through_the_doors_it_is_parametrised_over():
    assert sections_of(
        "@pytest.mark.parametrize('door', DOORS)\n"
        "@pytest.mark.section('cortex', 'Deferral')\n"
        "async def test_one(door): ...\n"
        "@pytest.mark.section('cortex', 'Search')\n"
        "@pytest.mark.parametrize('door', ['sdk', 'agent'])\n"
        "async def test_two(door): ...\n"
        "@pytest.mark.section('cms', 'Rules')\n"
        "async def test_three():\n"
        "    await converse('gateway', ROWS, [])\n"
    ) == [
        ("cortex", "Deferral", ALL),
        ("cortex", "Search", ("sdk", "agent")),
        ("cms", "Rules", ("gateway",)),
    ]


def test_a_test_that_does_not_run_covers_nothing():
    text = "@pytest.mark.skip\n@pytest.mark.section('cms', 'Rules')\nasync def test_it(): ..."
    assert sections_of(text) == []


def test_the_matrix_counts_tests_and_shows_gaps(tmp_path: Path):
    (tmp_path / "test_it.py").write_text(
        "@pytest.mark.section('cms', 'Rules')\n"
        "@pytest.mark.parametrize('door', ['sdk', 'agent'])\n"
        "async def test_one(door): ...\n"
        "@pytest.mark.section('cms', 'Rules')\n"
        "@pytest.mark.parametrize('door', ['sdk'])\n"
        "async def test_two(door): ...\n"
    )
    assert [line.split() for line in matrix_lines(read_sections(tmp_path))[1:]] == [
        ["cms", "sdk", "agent", "gateway"],
        ["Rules", "2", "1", "-"],
    ]


def test_without_any_section_there_is_no_matrix():
    assert matrix_lines({}) == []
