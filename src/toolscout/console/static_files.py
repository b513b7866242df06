"""The style and the scripts of the console, served from the package itself."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

STATIC_PATH: Final = "/console/static"
_FOLDER = Path(__file__).parent / "static"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_NOT_FOUND = 404
_ONE_YEAR = "public, max-age=31536000, immutable"


@cache
def _files() -> dict[str, bytes]:
    # Read once, so that no name of a request ever becomes a path.
    return {path.name: path.read_bytes() for path in _FOLDER.iterdir() if path.suffix in _TYPES}


@cache
def static_url(name: str) -> str:
    """The address of a file, which changes with its content."""
    return f"{STATIC_PATH}/{name}?v={_version(name)}"


@cache
def _version(name: str) -> str:
    return hashlib.sha256(_files()[name]).hexdigest()[:12]


async def get_static_file(request: Request) -> Response:
    """A file of the console; it holds nothing of the gateway, so it needs no login."""
    name = request.path_params["name"]
    content = _files().get(name)
    if content is None:
        return PlainTextResponse("The console has no such file.\n", _NOT_FOUND)
    is_current = request.query_params.get("v") == _version(name)
    headers = {
        "Cache-Control": _ONE_YEAR if is_current else "no-cache",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
    return Response(content, headers=headers, media_type=_TYPES[Path(name).suffix])
