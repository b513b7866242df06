"""Results of tool calls: text, media, resources and structured values, in one frozen type."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, is_dataclass, replace
from enum import Enum
from typing import Any, Literal, cast

from pydantic_core import to_json

from .sanitization import replace_json_surrogates, replace_surrogates

Kind = Literal["text", "image", "audio", "resource", "link"]
_KINDS: Mapping[str, Kind] = {"image": "image", "audio": "audio"}
# Magic bytes of the file types that a tool is likely to return.
_MAGIC_BYTES = tuple(
    (re.compile(pattern, re.DOTALL), mime)
    for pattern, mime in (
        (rb"\x89PNG\r\n\x1a\n", "image/png"),
        (rb"\xff\xd8\xff", "image/jpeg"),
        (rb"GIF8[79]a", "image/gif"),
        (rb"RIFF.{4}WEBP", "image/webp"),
        (rb"RIFF.{4}WAVE", "audio/wav"),
        (rb"ID3|\xff[\xfb\xf3\xf2]", "audio/mpeg"),
        (rb"OggS", "audio/ogg"),
        (rb"fLaC", "audio/flac"),
        (rb"%PDF-", "application/pdf"),
        (rb"PK\x03\x04", "application/zip"),
    )
)


@dataclass(frozen=True, slots=True)
class Content:
    """One piece of a result: text, or base64 data with its type, or a resource by URI."""

    type: Kind = "text"
    text: str = ""
    data: str = ""
    mime: str = ""
    uri: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one call; a tool's failure is a result with `is_error` set.

    `code` is the kind of failure for programs, a code of the error tree. `raw` is the reply in the
    format of its source, for an adapter that uses the same format.
    """

    content: tuple[Content, ...] = ()
    structured: str | None = None
    is_error: bool = False
    code: str = ""
    raw: object = field(default=None, compare=False, repr=False)

    @property
    def text(self) -> str:
        """All text parts, joined."""
        return "\n".join(c.text for c in self.content if c.text)

    @property
    def value(self) -> Any:
        """The structured value if there is one, else the text decoded as JSON, else the text."""
        if self.structured is not None:
            return json.loads(self.structured)
        try:
            return json.loads(replace_json_surrogates(self.text))
        except (ValueError, RecursionError):
            return self.text

    @classmethod
    def of(cls, value: object) -> Result:
        """Wrap what a tool returned: a result, content, text, bytes, None or any other value.

        The result can always be encoded as UTF-8, whatever the tool returned.
        """
        if isinstance(value, Result):
            return value._replace_surrogates()
        if value is None:
            return cls(content=(Content(text=""),))
        if isinstance(value, str):
            return cls(content=(Content(text=replace_surrogates(value)),))
        if pieces := _content_pieces(value):
            return cls(content=pieces)._replace_surrogates()
        text = _dump_json(value)
        if text is None:
            return cls(content=(Content(text=replace_surrogates(_describe(value))),))
        text = replace_surrogates(text)
        return cls(content=(Content(text=text),), structured=text)

    @classmethod
    def error(cls, message: str, *, code: str = "") -> Result:
        """A failure; the message should say what to do next."""
        return cls(content=(Content(text=replace_surrogates(message)),), is_error=True, code=code)

    def _replace_surrogates(self) -> Result:
        content = tuple(_replace_content_surrogates(piece) for piece in self.content)
        structured = self.structured and replace_json_surrogates(self.structured)
        if content == self.content and structured == self.structured:
            return self
        return replace(self, content=content, structured=structured)


def _describe(value: object) -> str:
    """A value as text, whatever it is: the tool has run, so its result is not a failure."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - `__str__` may raise anything
        return f"[a {type(value).__name__} that cannot be written as text]"


def _replace_content_surrogates(piece: Content) -> Content:
    return Content(piece.type, *(replace_surrogates(part) for part in astuple(piece)[1:]))


def _content_pieces(value: object) -> tuple[Content, ...]:
    """The content that a tool built itself, together with the plain values between it."""
    if isinstance(value, Content):
        return (value,)
    if isinstance(value, bytes | bytearray):
        return (_content_from_bytes(bytes(value)),)
    items = cast("Sequence[object]", value if isinstance(value, list | tuple) else ())
    if not any(isinstance(item, Content) for item in items):
        return ()
    return tuple(piece for item in items for piece in Result.of(item).content)


def _content_from_bytes(data: bytes) -> Content:
    """Bytes by their magic bytes, else as UTF-8 text, else as data of unknown type."""
    mime = next((mime for pattern, mime in _MAGIC_BYTES if pattern.match(data)), "")
    if not mime:
        try:
            return Content(text=data.decode())
        except UnicodeDecodeError:
            mime = "application/octet-stream"
    kind = _KINDS.get(mime.partition("/")[0], "resource")
    # Few models accept anything but images, so the text says what it is.
    text = "" if kind == "image" else f"[{mime}, {len(data):,} bytes]"
    return Content(kind, text, data=base64.b64encode(data).decode(), mime=mime)


def _dump_json(value: object) -> str | None:
    """Encode a value as JSON; None if that is impossible."""
    try:
        return json.dumps(value, ensure_ascii=False, default=_json_fallback, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        if isinstance(value, float):  # NaN or infinity on its own is better as plain text
            return None
    # Pydantic also takes what the standard encoder refuses: odd keys, NaN, infinity, bytes.
    try:
        text = to_json(value, fallback=_json_fallback, inf_nan_mode="strings", bytes_mode="base64")
        return json.dumps(json.loads(text), ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        return None


def _json_fallback(value: object) -> object:
    """Convert a value that JSON does not know to one that it knows."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in fields(value)}
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    match value:
        case Enum():
            return value.value
        case bytes():
            return base64.b64encode(value).decode()
        case Mapping():
            return dict(cast("Mapping[object, object]", value))
        case set() | frozenset():
            return sorted(cast("Iterable[object]", value), key=str)
        case _:
            return str(value)
