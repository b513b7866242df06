"""Skill files: parsing of front matter, and the library of all skills in some folders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import yaml

from ..catalog.problem import Problem
from ..catalog.sanitization import clean, clean_line
from ..catalog.tool import Tool, normalise_name
from .text_files import MAX_BYTES, TextFileError, read_text

MANIFEST = "SKILL.md"
# The limits of the Agent Skills format (agentskills.io).
_NAME_CAP = 64
_DESCRIPTION_CAP = 1_024
_FENCE = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_TOOL = re.compile(r"([^\s,()]+)(?:\([^)]*\))?")


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill by its front matter; its text is read only on request.

    `folder` is None for a skill that is a single file without further files.
    """

    id: str
    name: str
    description: str
    path: Path
    folder: Path | None = None
    triggers: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()

    def as_tool(self) -> Tool:
        """The skill as a tool, which the search engine can rank."""
        return Tool(
            name=self.id, title=self.name, description=self.description, phrases=self.triggers
        )

    def matches(self, query: str) -> bool:
        """Whether the name or description contains a query, or the query and a trigger overlap.

        An empty query matches everything.
        """
        text = query.lower()
        if text in self.name.lower() or text in self.description.lower():
            return True
        return any(text in trigger or trigger in text for trigger in map(str.lower, self.triggers))


def parse_skill(text: str, path: Path, *, is_folder: bool) -> Skill:
    """Parse a skill file; TextFileError if its front matter is invalid."""
    facts, body = split_front_matter(text)
    skill_id = path.parent.name if is_folder else path.stem
    name = _scalar_line(facts.get("name"), _NAME_CAP)
    if not name and is_folder:
        raise TextFileError("its front matter has no name")
    metadata = _mapping(facts.get("metadata"))
    return Skill(
        id=clean_line(skill_id, cap=_NAME_CAP),
        name=name or skill_id,
        description=_scalar_line(facts.get("description"), _DESCRIPTION_CAP)
        or _first_text_line(body),
        path=path,
        folder=path.parent if is_folder else None,
        triggers=_parse_triggers(facts.get("triggers", metadata.get("triggers"))),
        tools=_parse_tools(facts.get("allowed-tools", facts.get("allowed_tools"))),
    )


def split_front_matter(text: str) -> tuple[Mapping[str, Any], str]:
    """The front matter and the text after it; the front matter may be missing."""
    fence = _FENCE.match(text)
    if fence is None:
        if text.startswith("---\n"):
            raise TextFileError("its front matter has no end (a line of three dashes)")
        return {}, text.strip()
    try:
        facts: object = yaml.safe_load(fence.group(1))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        message = " ".join(str(error).split())
        raise TextFileError(f"its front matter is not YAML: {message[:200]}") from error
    if facts is None:
        facts = {}
    if not isinstance(facts, Mapping):
        raise TextFileError("its front matter is not a list of keys and values")
    return cast("Mapping[str, Any]", facts), text[fence.end() :].strip()


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _scalar_line(value: object, cap: int) -> str:
    return clean_line(str(value), cap=cap) if isinstance(value, str | int | float) else ""


def _first_text_line(body: str) -> str:
    """The first line of text that is not a heading."""
    lines = (line.strip() for line in body.splitlines())
    first = next((line for line in lines if line and not line.startswith("#")), "")
    return clean_line(first, cap=_DESCRIPTION_CAP)


def _parse_triggers(value: object) -> tuple[str, ...]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list):
        return ()
    words = (_scalar_line(word, _NAME_CAP) for word in cast("list[object]", items))
    return tuple(dict.fromkeys(word for word in words if word))


def _parse_tools(value: object) -> tuple[str, ...]:
    """Tool names from a list, or from one line as the convention has it: `Read Bash(git:*)`."""
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    lines = [clean(item) for item in items if isinstance(item, str)]
    return tuple(dict.fromkeys(m.group(1) for line in lines for m in _TOOL.finditer(line)))


_PLAIN = re.compile(r"\w[\w\s-]*")


@dataclass(frozen=True, slots=True)
class SkillLibrary:
    """Skills by id, in the order of folders and names, and the problems of reading them."""

    skills: Mapping[str, Skill] = field(default_factory=dict[str, Skill])
    problems: tuple[Problem, ...] = ()

    def find(self, name: str) -> Skill | None:
        """A skill by its id or name, in any case style."""
        if name in self.skills:
            return self.skills[name]
        # Normalising drops punctuation, which would let `../deck` find the skill `deck`.
        if not _PLAIN.fullmatch(name):
            return None
        normal = normalise_name(name)
        matches = (
            s
            for s in self.skills.values()
            if normal in (normalise_name(s.id), normalise_name(s.name))
        )
        return next(matches, None)


def read_library(folders: Iterable[Path], *, max_bytes: int = MAX_BYTES) -> SkillLibrary:
    """Read every skill in some folders; one that cannot be read becomes a problem."""
    skills: dict[str, Skill] = {}
    paths: dict[str, Path] = {}
    problems: list[Problem] = []
    for folder in folders:
        for path, is_folder in _find_manifests(folder.resolve(), problems):
            skill = _read_skill(path, problems, is_folder=is_folder, max_bytes=max_bytes)
            if skill is None:
                continue
            names = {normalise_name(skill.id), normalise_name(skill.name)}
            if clash := next((n for n in names if n in paths), None):
                message = (
                    f"has the name of another skill, {_short_path(paths[clash])}, and is left out."
                )
                problems.append(Problem(_short_path(path), message, "Rename one of them."))
                continue
            skills[skill.id] = skill
            paths |= dict.fromkeys(names, path)
    return SkillLibrary(skills, tuple(problems))


def _find_manifests(folder: Path, problems: list[Problem]) -> Iterator[tuple[Path, bool]]:
    """Folders with a manifest, and single Markdown files; symbolic links are not followed."""
    try:
        entries = sorted(folder.iterdir(), key=lambda p: p.name)
    except OSError as error:
        message = f"cannot be read: {error.strerror}."
        problems.append(Problem(str(folder), message, "Name a folder with skills in it."))
        return
    # The folder may be a skill itself, rather than a folder of skills.
    if (folder / MANIFEST).is_file():
        yield folder / MANIFEST, True
        return
    for entry in entries:
        manifest = entry / MANIFEST
        if entry.is_symlink() or manifest.is_symlink():
            message = "is a symbolic link, which is not followed."
            problems.append(Problem(entry.name, message, "Name its real folder.", "warning"))
        elif manifest.is_file():
            yield manifest, True
        # A README describes the folder; it is not a skill.
        elif entry.suffix.lower() == ".md" and entry.is_file() and entry.stem.lower() != "readme":
            yield entry, False


def _read_skill(
    path: Path, problems: list[Problem], *, is_folder: bool, max_bytes: int
) -> Skill | None:
    try:
        return parse_skill(
            read_text(path, max_bytes=max_bytes, follow=False), path, is_folder=is_folder
        )
    except TextFileError as error:
        problems.append(Problem(_short_path(path), f"is left out: {error}.", "Fix it."))
        return None


def _short_path(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"
