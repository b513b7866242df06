"""No public name of a class or a type is used for two ideas."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "toolscout"
# Type variables and constants that every module may have.
_SINGLE_LETTERS = 2


def public_types(tree: ast.Module) -> set[str]:
    """Classes and aliases of types that a module defines at its top level."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            is_camel_case = name[:1].isupper() and not name.isupper()
            if is_camel_case and isinstance(node.value, ast.Subscript | ast.BinOp):
                names.add(name)
    return {n for n in names if not n.startswith("_") and len(n) > _SINGLE_LETTERS}


def test_no_two_modules_define_a_public_type_of_the_same_name() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for name in public_types(ast.parse(path.read_text(encoding="utf-8"))):
            homes[name].append(str(path.relative_to(SOURCE)))
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_an_alias_counts_like_a_class() -> None:
    tree = ast.parse("Verdict = Literal['run']\nLIMIT = 3\nclass Verdict2: ...\n_Own = int | str")
    assert public_types(tree) == {"Verdict", "Verdict2"}
