"""Which section of which design is covered through which door, read from the text of the tests."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from .table import NOT_RUN, TESTS, marks, type_of_test

DOORS = ("sdk", "agent", "gateway")

Matrix = dict[str, dict[str, Counter[str]]]
"""The number of tests by design, section and door."""


def read_sections(folder: Path = TESTS / "doors") -> Matrix:
    """The matrix as the tests of the doors have it now, sections in the order of the tests."""
    matrix: Matrix = {}
    for path in sorted(folder.glob("test_*.py")):
        for design, title, doors in sections(ast.parse(path.read_text(encoding="utf-8"))):
            matrix.setdefault(design, {}).setdefault(title, Counter()).update(doors)
    return matrix


def sections(module: ast.Module) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Every test of a module that will run: design, section, doors."""
    for test in module.body:
        if not isinstance(test, type_of_test) or not test.name.startswith("test_"):
            continue
        if NOT_RUN & {*marks(*test.decorator_list)}:
            continue
        for decorator in test.decorator_list:
            match decorator:
                case ast.Call(
                    func=ast.Attribute(attr="section"),
                    args=[ast.Constant(value=str(design)), ast.Constant(value=str(title))],
                ):
                    yield design, title, doors_of(test)
                case _:
                    pass


def doors_of(test: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[str, ...]:
    """The doors of a test: those of its parameter `door`, or those that it names itself."""
    for decorator in test.decorator_list:
        match decorator:
            case ast.Call(
                func=ast.Attribute(attr="parametrize"),
                args=[ast.Constant(value="door"), values, *_],
            ):
                return tuple(_doors_in(values))
            case _:
                pass
    return tuple(dict.fromkeys(door for node in test.body for door in _doors_in(node)))


def _doors_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id="DOORS"):
                yield from DOORS
            case ast.Constant(value=str(door)) if door in DOORS:
                yield door
            case _:
                pass


def matrix_lines(matrix: Matrix) -> list[str]:
    """The matrix as a table: tests by door, and a dash where there are none."""
    if not matrix:
        return []
    width = max(len(title) for titles in matrix.values() for title in titles)
    lines = ["Acceptance conversations by design, section and door"]
    for design, titles in matrix.items():
        lines.append(f"{design:{width + 2}}" + "".join(f"{door:>9}" for door in DOORS))
        for title, counts in titles.items():
            cells = "".join(f"{counts[door] or '-':>9}" for door in DOORS)
            lines.append(f"  {title:{width}}{cells}")
    return lines
