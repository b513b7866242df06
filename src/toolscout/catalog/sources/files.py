"""Tools read from files and written to them: JSON Lines, JSON and YAML, in any known shape."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ...errors import CatalogError, SourceError
from ..problem import Problem
from ..result import Result
from ..schema import Schema
from ..tool import Tool
from .jsontext import begins_with_value, document_rows, line_rows
from .row import Row
from .shapes import tools_in
from .yamltext import yaml_rows

SUFFIXES = (".jsonl", ".ndjson", ".json", ".yaml", ".yml")
_LINES = (".jsonl", ".ndjson")
_YAML = (".yaml", ".yml")
_BROKEN = re.compile("[\udc80-\udcff]")
_FOREIGN = {
    "mcpServers": "an MCP configuration: its servers list their tools themselves",
    "openapi": "an OpenAPI document",
    "swagger": "an OpenAPI document",
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a file gave: the tools that could be read, and what is to be mended in the rest."""

    tools: tuple[Tool, ...] = ()
    problems: tuple[Problem, ...] = ()


def read_tools(path: str | Path) -> Loaded:
    """Read a file, or every catalog file of a folder; one bad row costs only itself."""
    reader = _Reader()
    place = Path(path)
    if place.is_dir():
        for file in sorted(f for f in place.rglob("*") if f.suffix.lower() in SUFFIXES):
            try:
                _check_kind(file)
                reader.read(file)
            except SourceError as error:
                reader.note(str(file), error)
    else:
        reader.read(place)
    return Loaded(tuple(reader.tools.values()), tuple(reader.problems))


def write_tools(path: str | Path, tools: Iterable[Tool]) -> None:
    """Write tools so that reading them gives the same ones; the name's ending says which form."""
    place = Path(path)
    rows = [tool.row() for tool in tools]
    suffix = place.suffix.lower()
    if suffix in _YAML:
        text = yaml.safe_dump(rows, allow_unicode=True, sort_keys=False, width=100)
    elif suffix == ".json":
        text = json.dumps(rows, ensure_ascii=False, indent=2) + "\n"
    else:
        text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    unfinished = place.with_name(f".{place.name}.part")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(place)
    except OSError as error:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise SourceError(
            f"Cannot write {path}: {error.strerror}.", hint="Check the folder and its rights."
        ) from error


class FileSource:
    """A file or folder of tools that can be found and described, but that nothing here can run."""

    def __init__(self, path: str | Path, *, name: str = "") -> None:
        self.path = Path(path)
        self.name = name or self.path.stem or str(path)
        self.problems: tuple[Problem, ...] = ()

    async def tools(self) -> Sequence[Tool]:
        """The tools that the file has now; `problems` says what was wrong with the others."""
        loaded = read_tools(self.path)
        self.problems = loaded.problems
        return loaded.tools

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:  # noqa: ARG002  a file runs nothing
        """Say that nothing here can run it."""
        return Result.error(
            f"{tool.name} is only described, in {self.path.name}; nothing here can run it."
            " Connect the server that has it, or register a function of that name."
        )

    async def close(self) -> None:
        """Nothing to let go of."""


class _Reader:
    """Gathers tools and problems over one file or many."""

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}
        self.problems: list[Problem] = []
        self._places: dict[str, str] = {}

    def note(self, where: str, error: CatalogError) -> None:
        self.problems.append(Problem(where, error.message, error.hint, code=error.code))

    def read(self, path: Path) -> None:
        text, is_whole = _text_of(path)
        if not text.strip():
            self.problems.append(
                Problem(str(path), "The file is empty.", "Add tools to it.", "warning", "empty")
            )
            return
        for row in _rows_of(text, path):
            where = f"{path}:{row.line}"
            if row.fault:
                self.problems.append(Problem(where, row.fault, row.remedy, code="row"))
            elif not is_whole and _BROKEN.search(json.dumps(row.value, ensure_ascii=False)):
                self.problems.append(
                    Problem(where, "Not valid UTF-8.", "Save the file as UTF-8.", code="encoding")
                )
            else:
                self._take(row, where)

    def _take(self, row: Row, where: str) -> None:
        if foreign := _foreign(row.value):
            self.problems.append(
                Problem(where, f"This is {foreign}.", "Give a list of tools.", code="kind")
            )
            return
        for found in tools_in(row.value, server=row.server):
            if isinstance(found, CatalogError):
                self.note(where, found)
            elif found.name in self.tools:
                self._repeat(found, where)
            else:
                self.tools[found.name] = found
                self._places[found.name] = where
                self._advise(found, where)

    def _advise(self, tool: Tool, where: str) -> None:
        if _is_only_in_words(tool):
            self.problems.append(
                Problem(
                    where,
                    f"{tool.name!r}: Its parameters are words, no schema: calls cannot be checked.",
                    'Write a schema, or add it as "inputSchema" beside the words.',
                    "warning",
                    "schema",
                )
            )

    def _repeat(self, tool: Tool, where: str) -> None:
        first = self._places[tool.name]
        is_same = self.tools[tool.name] == tool
        self.problems.append(
            Problem(
                where,
                f"{tool.name!r} is there already, at {first}" + (", the same." if is_same else "."),
                "Delete one." if is_same else "Rename one of them; the first is kept.",
                "warning" if is_same else "error",
                "duplicate",
            )
        )


def _check_kind(path: Path) -> None:
    """Refuse what may never end: a pipe that lies in a folder has perhaps nobody to write to it."""
    with _told(path):
        mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise SourceError(
            "This is a pipe, a socket or a device, and not a file.",
            hint="Take it out of the folder; to read a pipe, name it itself.",
        )


@contextmanager
def _told(path: Path) -> Generator[None]:
    """Say of what the system refuses which file it is."""
    try:
        yield
    except OSError as error:
        raise SourceError(
            f"Cannot read {path}: {error.strerror}.", hint="Check the path and its rights."
        ) from error


def _text_of(path: Path) -> tuple[str, bool]:
    """A file's text, and whether all of it was valid."""
    with _told(path):
        data = path.read_bytes()
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace"), True
    if b"\0" in data[:4096]:
        raise SourceError(
            f"{path} is a binary file, not a list of tools.",
            hint="Give a .jsonl, .json, .yaml or .yml file.",
        )
    try:
        return data.decode("utf-8-sig"), True
    except UnicodeDecodeError:
        return data.decode("utf-8-sig", errors="surrogateescape"), False


def _rows_of(text: str, path: Path) -> Iterator[Row]:
    """What a file is shows in its first character, then in its name."""
    suffix = path.suffix.lower()
    head = text.lstrip()[0]
    if suffix in _YAML:
        return yaml_rows(text)
    if head == "[":
        return document_rows(text)
    if head == "{":
        return line_rows(text) if _is_lines(text, suffix) else document_rows(text)
    if suffix in _LINES and re.search(r"^\s*\{", text, re.MULTILINE):
        return line_rows(text)
    raise SourceError(
        f"{path} is not a list of tools: it is neither JSON nor YAML.",
        hint="Give a .jsonl, .json, .yaml or .yml file.",
    )


def _is_lines(text: str, suffix: str) -> bool:
    """Whether each line is a value of its own."""
    first, _, rest = text.lstrip().partition("\n")
    if begins_with_value(first):
        return bool(rest.strip()) or suffix in _LINES
    return suffix in _LINES and not begins_with_value(text)


def _is_only_in_words(tool: Tool) -> bool:
    """Whether only a reader is told what it takes; "none" says all there is to say."""
    if tool.parameters != Schema() or "arguments" not in tool.metadata:
        return False
    said = tool.meta.get("arguments")
    return isinstance(said, str) and said.strip().lower() not in ("", "none")


def _foreign(value: object) -> str:
    keys: Iterable[str] = _FOREIGN if isinstance(value, dict) else ()
    return next((_FOREIGN[key] for key in keys if key in value), "")  # pyright: ignore[reportOperatorIssue]  keys are empty unless it is a dict
