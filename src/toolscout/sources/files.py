"""Read tools from files in any known format, and write them: JSON Lines, JSON and YAML."""

from __future__ import annotations

import json
import stat
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ..catalog.problem import Problem
from ..catalog.result import Result
from ..catalog.schema import Schema
from ..catalog.tool import Tool
from ..errors import CatalogError, SourceError
from .file_text import FileText, has_utf16_mark
from .json_rows import Row, read_json_document, read_json_lines, starts_with_json
from .tool_formats import other_format, server_of
from .tool_parser import parse_tools
from .yaml_rows import read_yaml

SUFFIXES = (".jsonl", ".ndjson", ".json", ".yaml", ".yml")
_JSON_LINES_SUFFIXES = (".jsonl", ".ndjson")
_YAML_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class FileContents:
    """The tools that could be read from files, and the problems of the rest."""

    tools: tuple[Tool, ...] = ()
    problems: tuple[Problem, ...] = ()


def read_tools(path: str | Path) -> FileContents:
    """Read a file, or every catalog file of a folder; one bad row costs only itself."""
    reader = _FileReader()
    root = Path(path)
    if root.is_dir():
        for file in sorted(f for f in root.rglob("*") if f.suffix.lower() in SUFFIXES):
            try:
                _check_file_type(file)
                reader.read(file)
            except SourceError as error:
                reader.add_error(str(file), error)
    else:
        reader.read(root)
    return FileContents(tuple(reader.tools.values()), tuple(reader.problems))


def write_tools(path: str | Path, tools: Iterable[Tool]) -> None:
    """Write tools so that reading them gives the same ones; the suffix selects the format."""
    target = Path(path)
    rows = [tool.row() for tool in tools]
    suffix = target.suffix.lower()
    if suffix in _YAML_SUFFIXES:
        text = yaml.safe_dump(rows, allow_unicode=True, sort_keys=False, width=100)
    elif suffix == ".json":
        text = json.dumps(rows, ensure_ascii=False, indent=2) + "\n"
    else:
        text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    # Write beside the file and rename, so that a crash never leaves half a file.
    temporary = target.with_name(f".{target.name}.part")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(target)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise SourceError(
            f"Cannot write {path}: {error.strerror}.", hint="Check the folder and its permissions."
        ) from error


class FileSource:
    """A file or folder of tools that can be found and described, but not run."""

    def __init__(self, path: str | Path, *, name: str = "") -> None:
        self.path = Path(path)
        self.name = name or self.path.stem or str(path)
        self.problems: tuple[Problem, ...] = ()

    async def tools(self) -> Sequence[Tool]:
        """The tools in the file now; `problems` are those of the rows that cannot be read."""
        loaded = read_tools(self.path)
        self.problems = loaded.problems
        return loaded.tools

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:  # noqa: ARG002  a file runs nothing
        """Return an error: a file describes tools, but cannot run them."""
        return Result.error(
            f"{tool.name} is only described in {self.path.name} and cannot be run."
            " Connect the server that has it, or register a function of that name."
        )

    async def close(self) -> None:
        """Nothing to close."""


class _FileReader:
    """Collects tools and problems from one file or several."""

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}
        self.problems: list[Problem] = []
        self._locations: dict[str, str] = {}

    def add_error(self, where: str, error: CatalogError) -> None:
        self.problems.append(Problem(where, error.message, error.hint, code=error.code))

    def read(self, path: Path) -> None:
        text = _read_text(path)
        if not any(map(str.strip, text.lines())):
            self.problems.append(
                Problem(str(path), "The file is empty.", "Add tools to it.", "warning", "empty")
            )
            return
        for row in _parse_rows(text, path):
            where = f"{path}:{row.line}"
            if row.fault:
                self.problems.append(Problem(where, row.fault, row.remedy, code="row"))
            elif text.has_invalid_bytes(row.value):
                self.problems.append(
                    Problem(where, "Not valid UTF-8.", "Save the file as UTF-8.", code="encoding")
                )
            else:
                self._add_row(row, where)

    def _add_row(self, row: Row, where: str) -> None:
        if other := other_format(row.value):
            self.problems.append(
                Problem(where, f"This is {other}.", "Give a list of tools.", code="kind")
            )
            return
        for tool in parse_tools(row.value, server=server_of(row.envelope)):
            if isinstance(tool, CatalogError):
                self.add_error(where, tool)
            elif tool.name in self.tools:
                self._report_duplicate(tool, where)
            else:
                self.tools[tool.name] = tool
                self._locations[tool.name] = where
                self._warn_without_schema(tool, where)

    def _warn_without_schema(self, tool: Tool, where: str) -> None:
        if _has_only_prose_arguments(tool):
            self.problems.append(
                Problem(
                    where,
                    f"{tool.name!r}: Its parameters are prose, so calls cannot be checked.",
                    'Write a schema, or add it as "inputSchema" beside the prose.',
                    "warning",
                    "schema",
                )
            )

    def _report_duplicate(self, tool: Tool, where: str) -> None:
        first = self._locations[tool.name]
        is_same = self.tools[tool.name] == tool
        self.problems.append(
            Problem(
                where,
                f"{tool.name!r} already exists, at {first}" + (", the same." if is_same else "."),
                "Delete one." if is_same else "Rename one of them; the first is kept.",
                "warning" if is_same else "error",
                "duplicate",
            )
        )


def _check_file_type(path: Path) -> None:
    """Refuse pipes and devices in a folder: reading a pipe without a writer would hang."""
    with _wrap_os_errors(path):
        mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise SourceError(
            "This is a pipe, a socket or a device, not a file.",
            hint="Remove it from the folder; to read a pipe, give its own path.",
        )


@contextmanager
def _wrap_os_errors(path: Path) -> Generator[None]:
    """Turn an OSError into a SourceError that names the file."""
    try:
        yield
    except OSError as error:
        raise SourceError(
            f"Cannot read {path}: {error.strerror}.", hint="Check the path and its permissions."
        ) from error


def _read_text(path: Path) -> FileText:
    with _wrap_os_errors(path):
        data = path.read_bytes()
    if not has_utf16_mark(data) and b"\0" in data[:4096]:
        raise SourceError(
            f"{path} is a binary file, not a list of tools.",
            hint="Give a .jsonl, .json, .yaml or .yml file.",
        )
    return FileText.of(data)


def _parse_rows(text: FileText, path: Path) -> Iterable[Row]:
    """Select the reader: YAML by the suffix, else by the first character and line."""
    suffix = path.suffix.lower()
    if suffix in _YAML_SUFFIXES:
        return read_yaml(text.whole())
    lines = filter(str.strip, text.lines())
    first = next(lines).lstrip()
    if first[0] == "[":
        return read_json_document(text.whole())
    is_named_lines = suffix in _JSON_LINES_SUFFIXES
    if first[0] == "{":
        # Each line is a JSON value, in contrast to one document on several lines.
        if starts_with_json(first):
            is_lines = is_named_lines or next(lines, "") != ""
        else:
            is_lines = is_named_lines and not starts_with_json(text.whole())
        return read_json_lines(text.lines()) if is_lines else read_json_document(text.whole())
    if is_named_lines and any(line.lstrip().startswith("{") for line in lines):
        return read_json_lines(text.lines())
    raise SourceError(
        f"{path} is not a list of tools: it is neither JSON nor YAML.",
        hint="Give a .jsonl, .json, .yaml or .yml file.",
    )


def _has_only_prose_arguments(tool: Tool) -> bool:
    """Whether a tool describes its arguments only in prose; "none" needs no schema."""
    if tool.parameters != Schema() or "arguments" not in tool.metadata:
        return False
    prose = tool.meta.get("arguments")
    return isinstance(prose, str) and prose.strip().lower() not in ("", "none")
