"""What a server offers, as it last said so, kept on disk between runs."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mcp_types as types
from pydantic import TypeAdapter, ValidationError

_FORMAT = 1
_TOOLS = TypeAdapter(list[types.Tool])
_PROMPTS = TypeAdapter(list[types.Prompt])
_RESOURCES = TypeAdapter(list[types.Resource])
_TEMPLATES = TypeAdapter(list[types.ResourceTemplate])


@dataclass(frozen=True, slots=True)
class Listing:
    """Tools, prompts and resources of one server, and what could not be taken from it."""

    tools: tuple[types.Tool, ...] = ()
    prompts: tuple[types.Prompt, ...] = ()
    resources: tuple[types.Resource, ...] = ()
    templates: tuple[types.ResourceTemplate, ...] = ()
    instructions: str = ""
    protocol: str = ""
    problems: tuple[str, ...] = ()

    def to_json(self) -> str:
        """The listing as text that `from_json` reads back."""
        record = {
            "format": _FORMAT,
            "protocol": self.protocol,
            "instructions": self.instructions,
            "problems": list(self.problems),
            "tools": _dump_items(_TOOLS, self.tools),
            "prompts": _dump_items(_PROMPTS, self.prompts),
            "resources": _dump_items(_RESOURCES, self.resources),
            "templates": _dump_items(_TEMPLATES, self.templates),
        }
        return json.dumps(record, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Listing:
        """Read a kept listing; ValueError if it is not one of ours."""
        record: dict[str, Any] = json.loads(text)
        if record["format"] != _FORMAT:
            raise ValueError("kept by another version")
        return cls(
            tools=tuple(_TOOLS.validate_python(record["tools"], by_name=False)),
            prompts=tuple(_PROMPTS.validate_python(record["prompts"], by_name=False)),
            resources=tuple(_RESOURCES.validate_python(record["resources"], by_name=False)),
            templates=tuple(_TEMPLATES.validate_python(record["templates"], by_name=False)),
            instructions=str(record["instructions"]),
            protocol=str(record["protocol"]),
            problems=tuple(str(p) for p in record["problems"]),
        )


def _dump_items(adapter: TypeAdapter[Any], items: tuple[Any, ...]) -> Any:
    return adapter.dump_python(list(items), mode="json", by_alias=True, exclude_none=True)


class ListingCache:
    """A folder of listings, one file a server and configuration."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    def load(self, name: str, digest: str) -> Listing | None:
        """The kept listing of a server as configured, or nothing; a broken file is nothing."""
        try:
            return Listing.from_json(self._path(name, digest).read_text(encoding="utf-8"))
        except (OSError, ValueError, KeyError, TypeError, ValidationError):
            return None

    def save(self, name: str, digest: str, listing: Listing) -> None:
        """Keep a listing; a full disk costs only the next start its speed."""
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, temporary = tempfile.mkstemp(dir=self._folder, prefix=f".{name}-")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(listing.to_json())
            Path(temporary).replace(self._path(name, digest))

    def _path(self, name: str, digest: str) -> Path:
        return self._folder / f"{name}-{digest}.json"
