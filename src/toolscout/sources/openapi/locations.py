"""Where an OpenAPI document and its files may be read from: one folder, or one web host."""

from __future__ import annotations

import asyncio
import posixpath
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import httpx2

from ..http_client import create_http_client
from ..mcp.servers import is_http_url

_MAX_BYTES = 64 * 1024 * 1024
_SUFFIXES = (".json", ".yaml", ".yml")
_PORTS = {"http": 80, "https": 443}
_FIRST_FAILURE_STATUS = 300  # redirects too: only the document's own host is asked


class DocumentReadError(Exception):
    """Why a file cannot be read, as the end of a sentence."""


class ByteBudget:
    """The bytes left for a document and all its files together."""

    def __init__(self) -> None:
        self.left = _MAX_BYTES

    def spend(self, size: int) -> None:
        """Subtract what was read; raises if the budget is exceeded."""
        self.left -= size
        if self.left < 0:
            raise DocumentReadError(f"the document is larger than {_MAX_BYTES // 2**20} MB")


class DocumentLocation(Protocol):
    """Resolves references to files and reads them; the document's own address is empty."""

    verb: str

    def resolve_address(self, path: str, *, base: str) -> str:
        """The normalised address of the file that a reference in the file `base` means."""
        ...

    async def read_text(self, address: str, byte_budget: ByteBudget) -> str:
        """The text of a file."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...


class FolderLocation:
    """A document on disk; only files in its folder are read, also through links."""

    verb = "read"

    def __init__(self, path: Path) -> None:
        self._main = path.expanduser()
        self._real = self._main.resolve()
        self._folder = self._real.parent

    def resolve_address(self, path: str, *, base: str) -> str:
        """The path from the document's folder; a path that is not relative is unchanged."""
        if path.startswith("/") or ":" in path.partition("/")[0]:
            return path
        joined = posixpath.normpath(posixpath.join(posixpath.dirname(base), path))
        return "" if unquote(joined) == self._real.name else joined

    async def read_text(self, address: str, byte_budget: ByteBudget) -> str:
        """The text of a file in the folder."""
        try:
            path = self._resolve_path(address) if address else self._main
            with path.open("rb") as file:
                data = file.read(byte_budget.left + 1)
            byte_budget.spend(len(data))
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise DocumentReadError("it is not UTF-8") from error
        except (OSError, ValueError, RuntimeError) as error:
            raise DocumentReadError(getattr(error, "strerror", None) or str(error)) from error

    async def aclose(self) -> None:
        """Nothing to close."""

    def _resolve_path(self, address: str) -> Path:
        if address.startswith("/") or ":" in address.partition("/")[0]:
            raise DocumentReadError(
                "only files in the document's folder are read, by a relative path"
            )
        # Resolve links before the check: a link may lead out of the folder, and a document from
        # elsewhere must not read other files of this machine.
        path = (self._folder / unquote(address)).resolve()
        if not path.is_relative_to(self._folder):
            raise DocumentReadError("it is outside the document's folder")
        if path.suffix.lower() not in _SUFFIXES:
            raise DocumentReadError(f"it does not end in {', '.join(_SUFFIXES)}")
        if not path.is_file():
            raise DocumentReadError("there is no such file")
        return path


class WebLocation:
    """A document on the web; only URLs with its scheme, host and port are read."""

    verb = "fetch"

    def __init__(self, url: str, *, allows_private: bool, timeout_seconds: float) -> None:
        self._url = urldefrag(url).url if is_http_url(url) else url
        self._allows_private = allows_private
        self._timeout_seconds = timeout_seconds
        self._deadline: float | None = None
        self._http: httpx2.AsyncClient | None = None

    def resolve_address(self, path: str, *, base: str) -> str:
        """The absolute URL."""
        try:
            joined = urljoin(base or self._url, path)
        except ValueError:
            return path
        # The document may refer to itself without its query string.
        return "" if joined in (self._url, self._url.partition("?")[0]) else joined

    async def read_text(self, address: str, byte_budget: ByteBudget) -> str:
        """The response body of a URL on this host; one deadline holds for all files."""
        url = address or self._url
        if not is_http_url(url):
            raise DocumentReadError("it is not a valid URL")
        if _origin(url) != _origin(self._url):
            raise DocumentReadError("it is not on the document's own host; others are not allowed")
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + self._timeout_seconds
        try:
            async with asyncio.timeout_at(self._deadline):
                return await self._fetch(url, byte_budget)
        except TimeoutError as error:
            raise DocumentReadError(
                f"it took more than {self._timeout_seconds:g} seconds"
            ) from error
        except (httpx2.HTTPError, httpx2.InvalidURL, LookupError) as error:
            raise DocumentReadError(str(error).rstrip(".") or type(error).__name__) from error

    async def aclose(self) -> None:
        """Close connections."""
        if self._http is not None:
            await self._http.aclose()

    async def _fetch(self, url: str, byte_budget: ByteBudget) -> str:
        async def ignore_response(_: httpx2.Response) -> None:
            pass

        if self._http is None:
            self._http = create_http_client(
                self._url,
                headers={},
                allows_private=self._allows_private,
                on_response=ignore_response,
            )
        parts: list[bytes] = []
        async with self._http.stream("GET", url) as response:
            if response.status_code >= _FIRST_FAILURE_STATUS:
                raise DocumentReadError(f"HTTP {response.status_code} {response.reason_phrase}")
            async for part in response.aiter_bytes():
                byte_budget.spend(len(part))
                parts.append(part)
        charset = response.charset_encoding or "utf-8"
        return b"".join(parts).decode(charset, errors="replace").removeprefix("\ufeff")


def locate_document(
    text: str, *, allows_private: bool, timeout_seconds: float
) -> FolderLocation | WebLocation:
    """The location for a path or a URL."""
    if text.startswith(("http://", "https://")):
        return WebLocation(text, allows_private=allows_private, timeout_seconds=timeout_seconds)
    return FolderLocation(Path(text))


def _origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").rstrip("."), parts.port or _PORTS[parts.scheme]
