"""Load an OpenAPI document and its files, each once, with references made absolute."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from typing import Any, cast

import yaml

from ...errors import SourceError
from ..yaml_rows import YAML_ERRORS, YAMLLoader, check_yaml, describe_yaml_error
from .document import Document, UnreadableFile, iter_objects
from .locations import ByteBudget, DocumentLocation, DocumentReadError

_MAX_FILES = 2_000
_MAX_DISTANCE = 32
_MAX_CONCURRENT_READS = 8


class DocumentLoader:
    """Reads a document, and further files once they are needed."""

    def __init__(self, name: str, location: DocumentLocation) -> None:
        self._name = name
        self._location = location
        self._byte_budget = ByteBudget()
        self._main: dict[str, Any] = {}
        self._files: dict[str, Any] = {}
        self._rounds = 0

    async def read_main(self) -> None:
        """Read the document itself."""
        try:
            text = await self._location.read_text("", self._byte_budget)
        except DocumentReadError as error:
            raise SourceError(f"Cannot {self._location.verb} {self._name}: {error}.") from error
        try:
            value = _parse(text)
        except YAML_ERRORS as error:
            raise SourceError(
                f"{self._name} is neither JSON nor YAML: {describe_yaml_error(error)}"
            ) from error
        if not isinstance(value, dict):
            raise SourceError(f"{self._name} does not contain an OpenAPI document.")
        self._main = cast("dict[str, Any]", value)
        version = str(self._main.get("openapi", ""))
        if not version.startswith(("3.0", "3.1")):
            found = f"version {version}" if version else "no version of OpenAPI"
            raise SourceError(
                f"{self._name} names {found}.",
                hint="Only OpenAPI 3.0 and 3.1 are supported; convert it first.",
            )
        self._qualify_references(self._main, base="")

    def document(self) -> Document:
        """The document with the files read so far."""
        return Document(self._main, self._name, dict(self._files))

    async def read_files(self, wanted: Collection[str]) -> bool:
        """Read further files; returns whether there were any to read."""
        slots = asyncio.Semaphore(_MAX_CONCURRENT_READS)

        async def read_one(address: str) -> None:
            async with slots:
                self._files[address] = await self._read_value(address)

        # Each round reads the files that the last round referred to, so rounds count how far a file
        # is from the document.
        self._rounds += 1
        for address in list(wanted)[max(0, _MAX_FILES - len(self._files)) :]:
            self._files[address] = UnreadableFile(
                f"the document has more than {_MAX_FILES:,} files"
            )
        await asyncio.gather(*(read_one(a) for a in wanted if a not in self._files))
        return bool(wanted)

    async def _read_value(self, address: str) -> Any:
        if self._rounds > _MAX_DISTANCE:
            return UnreadableFile(f"it is more than {_MAX_DISTANCE} files away from the document")
        try:
            value = _parse(await self._location.read_text(address, self._byte_budget))
        except DocumentReadError as error:
            return UnreadableFile(str(error))
        except YAML_ERRORS as error:
            return UnreadableFile(describe_yaml_error(error).rstrip("."))
        self._qualify_references(value, base=address)
        return value

    def _qualify_references(self, value: Any, *, base: str) -> None:
        """Add the file to every reference, in place, so that it can be resolved from anywhere."""
        for table in iter_objects(value):
            reference = table.get("$ref")
            if isinstance(reference, str):
                path, _, pointer = reference.partition("#")
                address = self._location.resolve_address(path, base=base) if path else base
                whole = pointer in ("", "/")
                table["$ref"] = (address or "#") if whole else f"{address}#{pointer}"


def _parse(text: str) -> Any:
    """Parse JSON or YAML."""
    if not text.lstrip().startswith("{"):
        return _parse_yaml(text)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        try:
            return _parse_yaml(text)  # YAML may begin with a brace too
        except YAML_ERRORS:
            raise error from None


def _parse_yaml(text: str) -> Any:
    check_yaml(text)  # first, because loading recurses
    return yaml.load(text, YAMLLoader)  # noqa: S506  it derives from a safe loader
