"""Maps MIME types to file extensions and back, since a file name is all that is stored."""

from __future__ import annotations

from mimetypes import MimeTypes

from ..catalog.result import Content, Kind

TEXT = ".txt"
JSON = ".json"
_UNKNOWN = ("application/octet-stream", ".bin")
# Only Python's own table: the types installed on a machine must not change file names.
_TABLE = MimeTypes(filenames=())
# Types for which the table has several extensions or none, depending on the Python version.
_USUAL = {"image/jpeg": ".jpg", "image/webp": ".webp", "audio/wav": ".wav", "audio/ogg": ".ogg"}
_BY_EXTENSION = {extension: mime for mime, extension in _USUAL.items()}


def extension_of(mime: str) -> str:
    """The file extension for the MIME type of binary data."""
    plain = mime.partition(";")[0].strip().lower()
    extension = _USUAL.get(plain) or _TABLE.guess_extension(plain)
    # Never one of text: such a file would be read back as characters.
    return extension if extension and extension not in (TEXT, JSON) else _UNKNOWN[1]


def mime_of(filename: str) -> str | None:
    """The MIME type of a file by its name; None for text and JSON."""
    dot = filename.rfind(".")
    extension = filename[dot:] if dot >= 0 else TEXT
    if extension in (TEXT, JSON):
        return None
    return _BY_EXTENSION.get(extension) or _TABLE.guess_type(f"x{extension}")[0] or _UNKNOWN[0]


def media_content(data: str, *, mime: str, name: str) -> Content:
    """Base64 data as image, audio or resource content."""
    kinds: dict[str, Kind] = {"image": "image", "audio": "audio"}
    return Content(kinds.get(mime.partition("/")[0], "resource"), data=data, mime=mime, name=name)
