"""The files of a document: each read once, its references made to say which file they mean."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from typing import Any, cast

import yaml

from ....errors import SourceError
from ..yamlevents import FAULTS, Loader, events, told
from .document import Document, Unread, tables
from .places import Allowance, Place, Refused

_MOST_FILES = 2_000
_FARTHEST = 32
_AT_ONCE = 8


class Files:
    """Reads a document, and further files as they turn out to be needed."""

    def __init__(self, name: str, place: Place) -> None:
        self._name = name
        self._place = place
        self._allowance = Allowance()
        self._main: dict[str, Any] = {}
        self._files: dict[str, Any] = {}
        self._rounds = 0

    async def begin(self) -> None:
        """Read the document itself."""
        try:
            text = await self._place.text("", self._allowance)
        except Refused as error:
            raise SourceError(f"Cannot {self._place.verb} {self._name}: {error}.") from error
        try:
            value = _parsed(text)
        except FAULTS as error:
            raise SourceError(f"{self._name} is neither JSON nor YAML: {told(error)}") from error
        if not isinstance(value, dict):
            raise SourceError(f"{self._name} does not hold an OpenAPI document.")
        self._main = cast("dict[str, Any]", value)
        version = str(self._main.get("openapi", ""))
        if not version.startswith(("3.0", "3.1")):
            said = f"version {version}" if version else "no version of OpenAPI"
            raise SourceError(
                f"{self._name} names {said}.",
                hint="OpenAPI 3.0 and 3.1 are read; convert it first.",
            )
        self._spell(self._main, base="")

    def document(self) -> Document:
        """The document with the files that are read by now."""
        return Document(self._main, self._name, dict(self._files))

    async def read(self, wanted: Collection[str]) -> bool:
        """Read more files, or note why they cannot be; whether there was any to read."""
        turns = asyncio.Semaphore(_AT_ONCE)

        async def one(address: str) -> None:
            async with turns:
                self._files[address] = await self._value(address)

        self._rounds += 1
        for address in list(wanted)[max(0, _MOST_FILES - len(self._files)) :]:
            self._files[address] = Unread(f"the document has more than {_MOST_FILES:,} files")
        await asyncio.gather(*(one(a) for a in wanted if a not in self._files))
        return bool(wanted)

    async def _value(self, address: str) -> Any:
        if self._rounds > _FARTHEST:
            return Unread(f"it is more than {_FARTHEST} files away from the document")
        try:
            value = _parsed(await self._place.text(address, self._allowance))
        except Refused as error:
            return Unread(str(error))
        except FAULTS as error:
            return Unread(told(error).rstrip("."))
        self._spell(value, base=address)
        return value

    def _spell(self, value: Any, *, base: str) -> None:
        """Write the file into every reference, in place: it can be followed from anywhere then."""
        for table in tables(value):
            reference = table.get("$ref")
            if isinstance(reference, str):
                path, _, pointer = reference.partition("#")
                address = self._place.address(path, base=base) if path else base
                whole = pointer in ("", "/")
                table["$ref"] = (address or "#") if whole else f"{address}#{pointer}"


def _parsed(text: str) -> Any:
    """A value of JSON or YAML; nesting that would break a parser is refused before it is tried."""
    if not text.lstrip().startswith("{"):
        return _yaml(text)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        try:
            return _yaml(text)  # which has braces too
        except FAULTS:
            raise error from None


def _yaml(text: str) -> Any:
    for _ in events(text):
        pass
    return yaml.load(text, Loader)  # noqa: S506 -- it is a safe one
