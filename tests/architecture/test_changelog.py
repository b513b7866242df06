"""The list of renamed names in the changelog leads from each old name to one that exists."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "CHANGELOG.md"
ROWS = re.findall(r"^\| `([\w.]+)` \| `([\w.]+)` \|$", PAGE.read_text(encoding="utf-8"), re.M)


def resolve(name: str) -> Any:
    """The thing of that name below `toolscout`; None if there is none."""
    parts = ["toolscout", *name.split(".")]
    for end in range(len(parts) - 1, 0, -1):
        module = ".".join(parts[:end])
        try:
            is_module = find_spec(module) is not None
        except ModuleNotFoundError:
            is_module = False
        if is_module:
            found: Any = import_module(module)
            for part in parts[end:]:
                fields = getattr(found, "__dataclass_fields__", {})
                found = fields.get(part) if part in fields else getattr(found, part, None)
            return found
    return None


def test_the_changelog_lists_the_renames_of_version_0_2():
    assert len(ROWS) > 100


@pytest.mark.parametrize(("old", "new"), ROWS, ids=[old for old, _ in ROWS])
def test_an_old_name_is_gone_and_its_new_name_is_there(old: str, new: str):
    assert resolve(new) is not None
    assert resolve(old) is None
