"""Labelled and negative queries from JSON files; a bad row is reported and left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from ..catalog.catalog import Catalog
from ..catalog.problem import Problem
from ..errors import QueryError, SourceError
from ..search.query import parse
from ..sources.json_rows import Row, read_json_document, read_json_lines, starts_with_json


@dataclass(frozen=True, slots=True)
class LabelledQuery:
    """A query and the tools that satisfy it: any one tool of every group."""

    id: str
    query: str
    groups: tuple[frozenset[str], ...]
    lang: str = ""

    @property
    def relevant(self) -> frozenset[str]:
        """Every tool of any group."""
        return frozenset[str]().union(*self.groups)


@dataclass(frozen=True, slots=True)
class NegativeQuery:
    """A query for which none of the offered tools is right."""

    id: str
    query: str
    offered: tuple[str, ...]


Item = TypeVar("Item", LabelledQuery, NegativeQuery)


@dataclass(frozen=True, slots=True)
class DatasetRows(Generic[Item]):
    """The rows that could be read, and the problems of the rest."""

    rows: tuple[Item, ...]
    problems: tuple[Problem, ...]


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


_NameList = Annotated[list[str], BeforeValidator(_as_list)]


class _QueryRow(BaseModel):
    model_config = ConfigDict(extra="ignore")
    id: str | int | None = None
    query: str
    relevant: _NameList = []
    relevant_groups: list[_NameList] | None = None
    lang: str | None = None


class _NegativeRow(BaseModel):
    model_config = ConfigDict(extra="ignore")
    id: str | int | None = None
    query: str
    offered: _NameList


def read_queries(path: str | Path) -> DatasetRows[LabelledQuery]:
    """Read lines or a list of `{"id", "query", "relevant", "relevant_groups"?, "lang"}`."""
    return _read_rows(Path(path), _parse_query)


def read_negatives(path: str | Path) -> DatasetRows[NegativeQuery]:
    """Read lines or a list of `{"id", "query", "offered"}`."""
    return _read_rows(Path(path), _parse_negative)


def resolve_queries(rows: Iterable[LabelledQuery], catalog: Catalog) -> DatasetRows[LabelledQuery]:
    """Replace tool names by those of a catalog; an unknown name is kept, and never found."""
    problems: list[Problem] = []

    def resolve_name(name: str, row: LabelledQuery) -> str:
        found = catalog.resolve(name)
        if len(found) == 1:
            return found[0]
        problems.append(_unknown_tool_problem(name, row.id, found))
        return name

    renamed = tuple(
        replace(
            row,
            groups=_distinct_groups([resolve_name(name, row) for name in g] for g in row.groups),
        )
        for row in rows
    )
    return DatasetRows(renamed, tuple(problems))


def resolve_negatives(
    rows: Iterable[NegativeQuery], catalog: Catalog
) -> DatasetRows[NegativeQuery]:
    """Replace tool names by those of a catalog; unknown tools are not offered."""
    problems: list[Problem] = []
    resolved: list[NegativeQuery] = []
    for row in rows:
        found = {name: catalog.resolve(name) for name in row.offered}
        problems += [
            _unknown_tool_problem(name, row.id, n) for name, n in found.items() if len(n) != 1
        ]
        # Without any tool, finding nothing proves nothing, so such a query is left out.
        if offered := tuple(dict.fromkeys(n[0] for n in found.values() if len(n) == 1)):
            resolved.append(replace(row, offered=offered))
    return DatasetRows(tuple(resolved), tuple(problems))


def _unknown_tool_problem(name: str, row: str, candidates: Sequence[str]) -> Problem:
    message = f"No tool is named {name!r}."
    if candidates:
        message = f"{name!r} may be any of {', '.join(candidates)}."
    return Problem(row, message, "Check the name against the catalog.", "warning", "name")


def _parse_query(value: object, number: int) -> LabelledQuery:
    row = _QueryRow.model_validate(value)
    names = row.relevant_groups if row.relevant_groups else [[name] for name in row.relevant]
    groups = _distinct_groups(group for group in names if group)
    if not groups:
        raise ValueError("relevant: it is empty; give at least one tool")
    return LabelledQuery(
        _row_id(row.id, number), _require_searchable(row.query), groups, row.lang or ""
    )


def _parse_negative(value: object, number: int) -> NegativeQuery:
    row = _NegativeRow.model_validate(value)
    if not row.offered:
        raise ValueError("offered: it is empty; give at least one tool")
    return NegativeQuery(
        _row_id(row.id, number), _require_searchable(row.query), tuple(dict.fromkeys(row.offered))
    )


def _distinct_groups(groups: Iterable[Iterable[str]]) -> tuple[frozenset[str], ...]:
    """Groups without duplicates: one tool in a ranking cannot count for two equal groups."""
    return tuple(dict.fromkeys(frozenset(group) for group in groups))


def _require_searchable(query: str) -> str:
    """Return the query, if it can be parsed and is not empty."""
    try:
        is_empty = parse(query).is_empty
    except QueryError as error:
        raise ValueError(f"query: {error.message}") from error
    if is_empty:
        raise ValueError("query: it is empty")
    return query


def _row_id(row_id: str | int | None, number: int) -> str:
    return f"row-{number}" if row_id is None else str(row_id)


def _read_rows(path: Path, build: Callable[[object, int], Item]) -> DatasetRows[Item]:
    rows: dict[str, Item] = {}
    problems: list[Problem] = []
    for place, number, row in _rows_with_position(_read_text(path)):
        where = f"{path}:{place}"
        if row.fault:
            problems.append(Problem(where, row.fault, row.remedy, code="row"))
            continue
        try:
            item = build(row.value, number)
        except ValueError as error:
            problems.append(Problem(where, _describe_error(error), "Fix the row.", code="row"))
            continue
        if rows.setdefault(item.id, item) is not item:
            message = f"The id {item.id!r} is used already."
            problems.append(Problem(where, message, "Give every row its own id.", code="duplicate"))
    return DatasetRows(tuple(rows.values()), tuple(problems))


def _rows_with_position(text: str) -> Iterator[tuple[str, int, Row]]:
    """Every row with its place and number: the line number, or the position in a list."""
    first, _, rest = text.lstrip().partition("\n")
    if first.startswith("[") and not (rest.strip() and starts_with_json(first)):
        for number, row in enumerate(read_json_document(text), start=1):
            yield f"{row.line} (item {number})", number, row
    else:
        for row in read_json_lines(text.split("\n")):
            yield str(row.line), row.line, row


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SourceError(f"Cannot read {path}: {reason}.", hint="Check the path.") from error


def _describe_error(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return f"{error}."
    first: Any = error.errors(include_url=False)[0]
    if first["type"] == "model_type":
        return 'A row must be an object, such as {"id": …, "query": …}.'
    place = ".".join(str(part) for part in first["loc"]) or "the row"
    return f"{place}: {first['msg'][:1].lower()}{first['msg'][1:]}."
