"""Labelled queries and negatives, read from JSON; a bad row is reported and left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from ..catalog.catalog import Catalog
from ..catalog.problem import Problem
from ..catalog.sources.jsontext import begins_with_value, document_rows, line_rows
from ..catalog.sources.row import Row
from ..errors import QueryError, SourceError
from ..search.query import parse


@dataclass(frozen=True, slots=True)
class Labelled:
    """A query and what satisfies it: of every group, any one tool."""

    id: str
    query: str
    groups: tuple[frozenset[str], ...]
    lang: str = ""

    @property
    def relevant(self) -> frozenset[str]:
        """Every tool that satisfies any of its needs."""
        return frozenset[str]().union(*self.groups)


@dataclass(frozen=True, slots=True)
class Negative:
    """A query that none of the tools offered with it fits."""

    id: str
    query: str
    offered: tuple[str, ...]


Item = TypeVar("Item", Labelled, Negative)


@dataclass(frozen=True, slots=True)
class Read(Generic[Item]):
    """The rows that could be read, and what is to be mended in the rest."""

    rows: tuple[Item, ...]
    problems: tuple[Problem, ...]


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


_Names = Annotated[list[str], BeforeValidator(_listed)]


class _QueryRow(BaseModel):
    model_config = ConfigDict(extra="ignore")
    id: str | int | None = None
    query: str
    relevant: _Names = []
    relevant_groups: list[_Names] | None = None
    lang: str | None = None


class _NegativeRow(BaseModel):
    model_config = ConfigDict(extra="ignore")
    id: str | int | None = None
    query: str
    offered: _Names


def read_queries(path: str | Path) -> Read[Labelled]:
    """Read lines, or a list, of `{"id", "query", "relevant", "relevant_groups"?, "lang"}`."""
    return _read(Path(path), _labelled)


def read_negatives(path: str | Path) -> Read[Negative]:
    """Read lines, or a list, of `{"id", "query", "offered"}`."""
    return _read(Path(path), _negative)


def resolved(rows: Iterable[Labelled], catalog: Catalog) -> Read[Labelled]:
    """The same queries by the names tools have in a catalog; unknown ones can never be found."""
    problems: list[Problem] = []

    def known(name: str, row: Labelled) -> str:
        found = catalog.resolve(name)
        if len(found) == 1:
            return found[0]
        problems.append(_unknown(name, row.id, found))
        return name

    renamed = tuple(
        replace(row, groups=_distinct([known(name, row) for name in g] for g in row.groups))
        for row in rows
    )
    return Read(renamed, tuple(problems))


def resolved_negatives(rows: Iterable[Negative], catalog: Catalog) -> Read[Negative]:
    """The same negatives by the names tools have in a catalog; what is unknown is not offered.

    One that nothing is left for is left out: to find nothing in nothing is no achievement.
    """
    problems: list[Problem] = []
    kept: list[Negative] = []
    for row in rows:
        found = {name: catalog.resolve(name) for name in row.offered}
        problems += [_unknown(name, row.id, n) for name, n in found.items() if len(n) != 1]
        if offered := tuple(dict.fromkeys(n[0] for n in found.values() if len(n) == 1)):
            kept.append(replace(row, offered=offered))
    return Read(tuple(kept), tuple(problems))


def _unknown(name: str, row: str, several: Sequence[str]) -> Problem:
    message = f"No tool is named {name!r}."
    if several:
        message = f"{name!r} may be any of {', '.join(several)}."
    return Problem(row, message, "Check the name against the catalog.", "warning", "name")


def _labelled(value: object, number: int) -> Labelled:
    row = _QueryRow.model_validate(value)
    named = row.relevant_groups if row.relevant_groups else [[name] for name in row.relevant]
    groups = _distinct(group for group in named if group)
    if not groups:
        raise ValueError("relevant: no tool is named; give at least one")
    return Labelled(_id(row.id, number), _askable(row.query), groups, row.lang or "")


def _negative(value: object, number: int) -> Negative:
    row = _NegativeRow.model_validate(value)
    if not row.offered:
        raise ValueError("offered: no tool is named; give at least one")
    return Negative(_id(row.id, number), _askable(row.query), tuple(dict.fromkeys(row.offered)))


def _distinct(groups: Iterable[Iterable[str]]) -> tuple[frozenset[str], ...]:
    """Needs that are the same are one: no ranking could name a tool for each of them."""
    return tuple(dict.fromkeys(frozenset(group) for group in groups))


def _askable(query: str) -> str:
    """The query, if it asks for something in a way that can be read."""
    try:
        is_empty = parse(query).is_empty
    except QueryError as error:
        raise ValueError(f"query: {error.message}") from error
    if is_empty:
        raise ValueError("query: it asks for nothing")
    return query


def _id(given: str | int | None, number: int) -> str:
    return f"row-{number}" if given is None else str(given)


def _read(path: Path, build: Callable[[object, int], Item]) -> Read[Item]:
    rows: dict[str, Item] = {}
    problems: list[Problem] = []
    for place, number, row in _placed(_text(path)):
        where = f"{path}:{place}"
        if row.fault:
            problems.append(Problem(where, row.fault, row.remedy, code="row"))
            continue
        try:
            item = build(row.value, number)
        except ValueError as error:
            problems.append(Problem(where, _fault(error), "Mend the row.", code="row"))
            continue
        if rows.setdefault(item.id, item) is not item:
            message = f"The id {item.id!r} is there already."
            problems.append(Problem(where, message, "Give every row its own.", code="duplicate"))
    return Read(tuple(rows.values()), tuple(problems))


def _placed(text: str) -> Iterator[tuple[str, int, Row]]:
    """Every row with its place and its number: that of its line, or, in a list, its own."""
    first, _, rest = text.lstrip().partition("\n")
    if first.startswith("[") and not (rest.strip() and begins_with_value(first)):
        for number, row in enumerate(document_rows(text), start=1):
            yield f"{row.line} (item {number})", number, row
    else:
        for row in line_rows(text):
            yield str(row.line), row.line, row


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SourceError(f"Cannot read {path}: {reason}.", hint="Check the path.") from error


def _fault(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return f"{error}."
    first: Any = error.errors(include_url=False)[0]
    if first["type"] == "model_type":
        return 'A row must be an object, such as {"id": …, "query": …}.'
    place = ".".join(str(part) for part in first["loc"]) or "the row"
    return f"{place}: {first['msg'][:1].lower()}{first['msg'][1:]}."
