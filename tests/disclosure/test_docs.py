"""The tables of the pages are those of the code."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from toolscout.disclosure.profile import Profile
from toolscout.disclosure.profiles import BUILT_IN
from toolscout.disclosure.providers import PROVIDERS

DOCS = Path(__file__).parents[2] / "docs"


def test_every_profile_and_every_choice_of_one_is_documented() -> None:
    text = (DOCS / "profiles.md").read_text()
    for profile in BUILT_IN:
        assert f"| `{profile.name}` |" in text
    for field in Profile.__dataclass_fields__:
        assert f"`{field}`" in text or field in ("name", "summary")


def test_every_provider_is_documented_with_its_limits() -> None:
    text = (DOCS / "providers.md").read_text()
    for name, provider in PROVIDERS.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| `{name}`"))
        if provider.max_tools:
            assert f"{provider.max_tools:,}" in row


@pytest.mark.behaviour("B86")
def test_the_names_of_the_go_design_lead_to_something() -> None:
    text = (DOCS / "profiles.md").read_text()
    table = text.split("Where the names of the Go design went")[1]
    rows = re.findall(r"^\| (`.*?`) \| `(.*?)` \|$", table, re.MULTILINE)
    there = {name for names, _ in rows for name in re.findall(r"`(\w+)`", names)}
    assert len(there) == 13
    for _, dotted in rows:
        parts = dotted.split(".")
        depth = next(i for i in range(len(parts), 0, -1) if _is_module(".".join(parts[:i])))
        thing = import_module(".".join(parts[:depth]))
        for part in parts[depth:]:
            thing = getattr(thing, part)
        assert thing is not None


def _is_module(name: str) -> bool:
    try:
        import_module(name)
    except ImportError:
        return False
    return True
