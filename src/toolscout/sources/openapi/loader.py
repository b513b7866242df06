"""The files of a document: each read once, its references made to say which file they mean."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from typing import Any, cast

import yaml

from ...errors import SourceError
from ..yaml_events import YAML_ERRORS, YAMLLoader, describe_yaml_error, parse_events
from .document import Document, UnreadableFile, iter_objects
from .locations import ByteBudget, DocumentLocation, DocumentReadError

_MOST_FILES = 2_000
_FARTHEST = 32
_AT_ONCE = 8


class DocumentLoader:
    """Reads a document, and further files as they turn out to be needed."""

    def __init__(self, name: str, place: DocumentLocation) -> None:
        self._name = name
        self._place = place
        self._allowance = ByteBudget()
        self._main: dict[str, Any] = {}
        self._files: dict[str, Any] = {}
        self._rounds = 0

    async def read_main(self) -> None:
        """Read the document itself."""
        try:
            text = await self._place.read_text("", self._allowance)
        except DocumentReadError as error:
            raise SourceError(f"Cannot {self._place.verb} {self._name}: {error}.") from error
        try:
            value = _parse(text)
        except YAML_ERRORS as error:
            raise SourceError(
                f"{self._name} is neither JSON nor YAML: {describe_yaml_error(error)}"
            ) from error
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
        self._qualify_references(self._main, base="")

    def document(self) -> Document:
        """The document with the files that are read by now."""
        return Document(self._main, self._name, dict(self._files))

    async def read_files(self, wanted: Collection[str]) -> bool:
        """Read more files, or note why they cannot be; whether there was any to read."""
        turns = asyncio.Semaphore(_AT_ONCE)

        async def read_one(address: str) -> None:
            async with turns:
                self._files[address] = await self._read_value(address)

        self._rounds += 1
        for address in list(wanted)[max(0, _MOST_FILES - len(self._files)) :]:
            self._files[address] = UnreadableFile(
                f"the document has more than {_MOST_FILES:,} files"
            )
        await asyncio.gather(*(read_one(a) for a in wanted if a not in self._files))
        return bool(wanted)

    async def _read_value(self, address: str) -> Any:
        if self._rounds > _FARTHEST:
            return UnreadableFile(f"it is more than {_FARTHEST} files away from the document")
        try:
            value = _parse(await self._place.read_text(address, self._allowance))
        except DocumentReadError as error:
            return UnreadableFile(str(error))
        except YAML_ERRORS as error:
            return UnreadableFile(describe_yaml_error(error).rstrip("."))
        self._qualify_references(value, base=address)
        return value

    def _qualify_references(self, value: Any, *, base: str) -> None:
        """Write the file into every reference, in place: it can be followed from anywhere then."""
        for table in iter_objects(value):
            reference = table.get("$ref")
            if isinstance(reference, str):
                path, _, pointer = reference.partition("#")
                address = self._place.resolve_address(path, base=base) if path else base
                whole = pointer in ("", "/")
                table["$ref"] = (address or "#") if whole else f"{address}#{pointer}"


def _parse(text: str) -> Any:
    """A value of JSON or YAML; nesting that would break a parser is refused before it is tried."""
    if not text.lstrip().startswith("{"):
        return _parse_yaml(text)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        try:
            return _parse_yaml(text)  # which has braces too
        except YAML_ERRORS:
            raise error from None


def _parse_yaml(text: str) -> Any:
    for _ in parse_events(text):
        pass
    return yaml.load(text, YAMLLoader)  # noqa: S506 -- it is a safe one
