"""Which tests prove which behaviours, read from the text of the tests without importing them."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
TESTS = HERE.parent
MARK = "behaviour"
NOT_RUN = {"skip", "skipif", "xfail"}

type_of_test = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Table:
    """Every row in a few words, the tests that prove it, and what is said of those that differ."""

    rows: Mapping[str, str]
    proofs: Mapping[str, tuple[str, ...]]
    exempt: Mapping[str, str]
    differs: Mapping[str, str]

    @property
    def unknown(self) -> tuple[str, ...]:
        """Ids that a mark or an explanation names and no row has."""
        named = {*self.proofs, *self.exempt, *self.differs}
        return tuple(sorted(named - {*self.rows}))

    @property
    def open(self) -> tuple[str, ...]:
        """Rows that no test proves and nothing explains."""
        return tuple(r for r in self.rows if r not in self.proofs and r not in self.exempt)

    @property
    def stale(self) -> tuple[str, ...]:
        """Exemptions of rows that a test proves after all, and differences that none proves."""
        proven = {r for r in self.exempt if r in self.proofs}
        return tuple(sorted(proven | {r for r in self.differs if r not in self.proofs}))

    @property
    def tests(self) -> int:
        """How many tests prove something."""
        return len({test for tests in self.proofs.values() for test in tests})


def read(tests: Path = TESTS, words: Path = HERE) -> Table:
    """The table as the files have it now."""
    rows = tomllib.loads((words / "rows.toml").read_text(encoding="utf-8"))
    said = tomllib.loads((words / "exemptions.toml").read_text(encoding="utf-8"))
    return Table(
        rows={row: text for section in rows.values() for row, text in section.items()},
        proofs=proofs(tests),
        exempt=said.get("exempt", {}),
        differs=said.get("differs", {}),
    )


def proofs(tests: Path) -> dict[str, tuple[str, ...]]:
    """The tests that carry the mark of each row."""
    found: dict[str, list[str]] = {}
    for path in sorted(tests.rglob("test_*.py")):
        place = path.relative_to(tests.parent).as_posix()
        for name, row in marked(ast.parse(path.read_text(encoding="utf-8"))):
            found.setdefault(row, []).append(f"{place}::{name}")
    return {row: tuple(dict.fromkeys(names)) for row, names in found.items()}


def marked(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Every test of a module that will run, with each row it is marked with."""
    shared = [*_rows(*(n.value for n in module.body if _is_shared(n)))]
    for node in module.body:
        within = node.body if isinstance(node, ast.ClassDef) else [node]
        above = node.decorator_list if isinstance(node, ast.ClassDef) else []
        for test in within:
            if not isinstance(test, type_of_test) or not test.name.startswith("test_"):
                continue
            decorators = [*above, *test.decorator_list]
            if NOT_RUN & {*marks(*decorators)}:
                continue
            for row in (*shared, *_rows(*decorators)):
                yield test.name, row


def _is_shared(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets
    )


def _rows(*nodes: ast.AST) -> Iterator[str]:
    for node in nodes:
        for inner in ast.walk(node):
            match inner:
                case ast.Call(func=ast.Attribute(attr="behaviour"), args=arguments):
                    yield from (a.value for a in arguments if isinstance(a, ast.Constant))
                case _:
                    pass


def marks(*nodes: ast.AST) -> Iterator[str]:
    """The names of all marks on a test."""
    for node in nodes:
        for inner in ast.walk(node):
            match inner:
                case ast.Attribute(attr=name, value=ast.Attribute(attr="mark")):
                    yield name
                case _:
                    pass
