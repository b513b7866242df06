"""All skills of some folders: each found once, and what is wrong with the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..catalog.names import normalised
from ..catalog.problem import Problem
from .files import MOST_BYTES, Unreadable, read_text
from .skill import MANIFEST, Skill, parse

_PLAIN = re.compile(r"\w[\w\s-]*")


@dataclass(frozen=True, slots=True)
class Library:
    """Skills by id, in the order of their folders and names, and the problems met on the way."""

    skills: Mapping[str, Skill] = field(default_factory=dict[str, Skill])
    problems: tuple[Problem, ...] = ()

    def find(self, wanted: str) -> Skill | None:
        """A skill by its id or, in any case style, by its id or its name."""
        if wanted in self.skills:
            return self.skills[wanted]
        if not _PLAIN.fullmatch(wanted):
            return None
        loose = normalised(wanted)
        same = (s for s in self.skills.values() if loose in (normalised(s.id), normalised(s.name)))
        return next(same, None)


def read_library(folders: Iterable[Path], *, most_bytes: int = MOST_BYTES) -> Library:
    """Read every skill below some folders; one that cannot be read hides no other."""
    skills: dict[str, Skill] = {}
    taken: dict[str, Path] = {}
    problems: list[Problem] = []
    for folder in folders:
        for path, is_folder in _places(folder.resolve(), problems):
            skill = _read(path, problems, is_folder=is_folder, most_bytes=most_bytes)
            if skill is None:
                continue
            names = {normalised(skill.id), normalised(skill.name)}
            if clash := next((n for n in names if n in taken), None):
                told = f"has the name of another skill, {_shown(taken[clash])}, and is left out."
                problems.append(Problem(_shown(path), told, "Rename one of them."))
                continue
            skills[skill.id] = skill
            taken |= dict.fromkeys(names, path)
    return Library(skills, tuple(problems))


def _places(folder: Path, problems: list[Problem]) -> Iterator[tuple[Path, bool]]:
    """Where skills are: folders with a manifest, and single Markdown files; never behind a link."""
    try:
        entries = sorted(folder.iterdir(), key=lambda p: p.name)
    except OSError as error:
        told = f"cannot be read: {error.strerror}."
        problems.append(Problem(str(folder), told, "Name a folder with skills in it."))
        return
    if (folder / MANIFEST).is_file():
        yield folder / MANIFEST, True
        return
    for entry in entries:
        manifest = entry / MANIFEST
        if entry.is_symlink() or manifest.is_symlink():
            told = "is a symbolic link, which is not followed."
            problems.append(Problem(entry.name, told, "Name its real folder.", "warning"))
        elif manifest.is_file():
            yield manifest, True
        elif entry.suffix.lower() == ".md" and entry.is_file() and entry.stem.lower() != "readme":
            yield entry, False


def _read(path: Path, problems: list[Problem], *, is_folder: bool, most_bytes: int) -> Skill | None:
    try:
        return parse(
            read_text(path, most_bytes=most_bytes, follow=False), path, is_folder=is_folder
        )
    except Unreadable as error:
        problems.append(Problem(_shown(path), f"is left out: {error}.", "Mend it."))
        return None


def _shown(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"
