#!/usr/bin/env python3
"""Print the section of CHANGELOG.md for a release: scripts/release_notes.py v0.2.0

Fails if the tag is not the version of the package, or if the section is missing or undated.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
DATE = re.compile(r"\d{4}-\d\d-\d\d")


def release_notes(tag: str, *, version: str, changelog: str) -> str:
    """The text under the heading of a version; ValueError if it cannot be released like this."""
    if tag != f"v{version}":
        raise ValueError(f"The tag is {tag}, but pyproject.toml has version {version}.")
    for section in re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]:
        heading, _, text = section.partition("\n")
        name, _, date = heading.partition(" - ")
        if name.strip("[] ") != version:
            continue
        if not DATE.fullmatch(date.strip()):
            raise ValueError(f"CHANGELOG.md has no date for {version}: write ## {version} - DATE.")
        return text.strip() + "\n"
    raise ValueError(f"CHANGELOG.md has no section for {version}: write ## {version} - DATE.")


def main(tag: str) -> None:
    table = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    changelog = (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
    try:
        notes = release_notes(tag, version=table["project"]["version"], changelog=changelog)
    except ValueError as error:
        sys.exit(str(error))
    sys.stdout.write(notes)


if __name__ == "__main__":
    main(sys.argv[1])
