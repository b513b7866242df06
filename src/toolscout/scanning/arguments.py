"""Arguments that ask for secrets or for the conversation, and whether the tool needs them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, cast

from ..catalog.tool import normalise_name
from .fields import DefinitionField
from .folding import fold
from .patterns import PatternFilter, TextPattern

_FILE = "arguments.toml"


@dataclass(frozen=True, slots=True)
class SecretArgument:
    """What an argument may ask for, and the words that explain it."""

    asks: TextPattern
    fits: TextPattern | None
    is_foreign: bool


@lru_cache(maxsize=1)
def _secret_arguments() -> Sequence[SecretArgument]:
    text = (files("toolscout.scanning") / "rules" / _FILE).read_text(encoding="utf-8")
    rows = cast("list[dict[str, Any]]", tomllib.loads(text)["arguments"])
    return [
        SecretArgument(
            asks=TextPattern(row["asks"]),
            fits=TextPattern(row["fits"]) if row["fits"] else None,
            is_foreign=row["is_foreign"],
        )
        for row in rows
    ]


def name_words(name: str) -> str:
    """A name as words, for patterns that look for words."""
    return fold(normalise_name(name)).replace("_", " ")


@lru_cache(maxsize=1)
def _filter() -> PatternFilter:
    return PatternFilter([each.asks for each in _secret_arguments()])


def find_secret_arguments(
    fields: Sequence[DefinitionField],
) -> Iterator[tuple[DefinitionField, bool]]:
    """The arguments that ask for secrets, each with whether the definition does not explain it."""
    words = {field: name_words(field.text) for field in fields if field.is_key}
    if not words or not _filter().find("\n".join(words.values())):
        return
    for field, text in words.items():
        occurring = _filter().find(text)
        asked = [each for each in _secret_arguments() if each.asks in occurring]
        if asked:
            yield field, _is_foreign(asked, fields, field)


def _is_foreign(
    asked: Iterable[SecretArgument], fields: Iterable[DefinitionField], argument: DefinitionField
) -> bool:
    wanting = [each for each in asked if each.is_foreign]
    if not wanting:
        return False
    rest = _other_text(fields, argument)
    return all(each.fits is not None and not each.fits.is_in(rest) for each in wanting)


def _other_text(fields: Iterable[DefinitionField], argument: DefinitionField) -> str:
    """The words of the definition, without those of the argument itself."""
    inside = f"{argument.pointer}/"
    texts = (
        name_words(field.text) if field.is_key or field.kind == "name" else fold(field.text)
        for field in fields
        if field.pointer != argument.pointer and not field.pointer.startswith(inside)
    )
    return "\n".join(texts)
