"""Names for types of data: a file's extension tells what was in it when it is read back."""

from __future__ import annotations

from mimetypes import MimeTypes

from ..catalog.result import Content, Kind

TEXT = ".txt"
JSON = ".json"
_UNKNOWN = ("application/octet-stream", ".bin")
# Python's own table alone: what a machine has installed must not change a file's name.
_TABLE = MimeTypes(filenames=())
_USUAL = {"image/jpeg": ".jpg", "image/webp": ".webp", "audio/wav": ".wav", "audio/ogg": ".ogg"}
_BY_EXTENSION = {extension: mime for mime, extension in _USUAL.items()}


def extension_of(mime: str) -> str:
    """The extension for a type; never one that text has."""
    plain = mime.partition(";")[0].strip().lower()
    found = _USUAL.get(plain) or _TABLE.guess_extension(plain)
    return found if found and found not in (TEXT, JSON) else _UNKNOWN[1]


def mime_of(filename: str) -> str | None:
    """The type of a file's data by its name; None for text and JSON."""
    dot = filename.rfind(".")
    extension = filename[dot:] if dot >= 0 else TEXT
    if extension in (TEXT, JSON):
        return None
    return _BY_EXTENSION.get(extension) or _TABLE.guess_type(f"x{extension}")[0] or _UNKNOWN[0]


def media_content(data: str, *, mime: str, name: str) -> Content:
    """Base64 data as the kind of content it is."""
    kinds: dict[str, Kind] = {"image": "image", "audio": "audio"}
    return Content(kinds.get(mime.partition("/")[0], "resource"), data=data, mime=mime, name=name)
