"""A source of tools from an OpenAPI document: lists operations and calls them over HTTP."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from ...catalog.result import Content, Result
from ...catalog.tool import Tool
from ...errors import SourceError
from ..http_client import create_http_client
from ..mcp.servers import is_http_url
from ..secret_forms import redact_secrets
from ..unclear_calls import MAY_HAVE_RUN_HINT, RETRY_HINT, is_refusal
from .document import Document
from .loader import DocumentLoader
from .locations import locate_document
from .operations import Operation, OperationFilter, iter_operations
from .requests import OperationRequest, build_request

_MAX_RESPONSE_BYTES = 10 * 1024 * 1024
_MAX_ERROR_CHARS = 2_000
_FIRST_FAILURE_STATUS = 300  # a redirect is reported, not followed
# After any other error, the API may have read the request.
_UNSENT_ERRORS = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.LocalProtocolError,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)


@dataclass(frozen=True, slots=True)
class API:
    """How to reach an API: document, base URL, credentials, and the operations to use."""

    name: str
    document: str
    base_url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    auth: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    filters: OperationFilter = field(default_factory=OperationFilter)
    timeout_seconds: float = 60.0
    allows_private: bool = False
    problem: str = ""
    """Why the configuration is invalid."""

    def redact(self, text: str) -> str:
        """Remove credentials from a text."""
        secrets = (*self.headers.values(), *self.auth.values(), *self._url_secrets())
        # "Bearer abc" may be quoted without its scheme, and "user:password" without its user.
        parts = (s.partition(mark)[2] for s in secrets for mark in " :")
        return redact_secrets(text, (*secrets, *parts))

    def _url_secrets(self) -> Iterator[str]:
        """Secrets in the URLs: passwords and query strings."""
        for url in (self.document, self.base_url):
            with suppress(ValueError):
                parts = urlsplit(url)
                yield from (parts.query, parts.password or "")


class OpenAPISource:
    """Lists the operations of a document and calls them over HTTP."""

    def __init__(self, api: API) -> None:
        self.name = api.name
        self._api = api
        self._is_loaded = False
        self._schemes: Mapping[str, Mapping[str, Any]] = {}
        self._operations: dict[str, Operation] = {}
        self._clients: dict[str, httpx2.AsyncClient] = {}
        self.problems: tuple[str, ...] = ()

    @classmethod
    def from_path(cls, path: str | Path) -> OpenAPISource:
        """An API without further settings, named after its document."""
        name = Path(urlsplit(str(path)).path).stem
        return cls(API(name="".join(c if c.isalnum() else "_" for c in name), document=str(path)))

    async def tools(self) -> Sequence[Tool]:
        """The operations as tools; the document is read on the first call."""
        if not self._is_loaded:
            api = self._api
            if api.problem:
                raise SourceError(api.problem)
            try:
                await self._read_document()
            except SourceError as error:
                raise SourceError(api.redact(error.message), hint=api.redact(error.hint)) from error
            self._is_loaded = True
        return tuple(o.tool for o in self._operations.values())

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:
        """Call an operation; an HTTP error is an error result, unless the call may have run."""
        await self.tools()
        operation = self._operations.get(tool.local_name)
        if operation is None:
            raise SourceError(f"{self.name} no longer has {tool.local_name!r}.")
        request = build_request(operation, arguments)
        try:
            return await self._send(operation, request)
        except httpx2.HTTPError as error:
            raise self._convert_error(error, request) from error

    async def close(self) -> None:
        """Close connections; a later call opens new ones."""
        clients, self._clients = self._clients, {}
        async with AsyncExitStack() as stack:  # closes all, even if one fails to close
            for client in clients.values():
                stack.push_async_callback(client.aclose)

    async def _read_document(self) -> None:
        """Read the document, and the files that its operations need."""
        api = self._api
        location = locate_document(
            api.document, allows_private=api.allows_private, timeout_seconds=api.timeout_seconds
        )
        async with aclosing(location):
            loader = DocumentLoader(api.document, location)
            await loader.read_main()
            # Building the operations finds out which files they need. A new file may refer to
            # others, so build again until nothing is missing.
            while True:
                document, problems = loader.document(), list[str]()
                operations = tuple(
                    iter_operations(
                        document, server=api.name, filters=api.filters, problems=problems
                    )
                )
                schemes = _security_schemes(document)
                if not await loader.read_files(document.wanted):
                    break
        self._operations = {o.tool.local_name: o for o in operations}
        self._schemes = schemes
        problems += [
            f"auth has a secret for {name!r}, which is not a security scheme of the document:"
            f" {', '.join(schemes) or 'there is none'}."
            for name in api.auth
            if name not in schemes
        ]
        self.problems = tuple(api.redact(p) for p in (*problems, *document.problems()))

    async def _send(self, operation: Operation, request: OperationRequest) -> Result:
        query, headers = list(request.query), {**request.headers}
        self._authenticate(operation, query, headers)
        base = self._base_url(operation)
        client = self._client(base)
        http_request = client.build_request(
            request.method,
            base + request.path,
            params=tuple(query),
            headers={**headers, **self._api.headers},
            content=request.content,
        )
        response = await client.send(http_request, stream=True, follow_redirects=False)
        try:
            is_complete = await _read_body(response)
        finally:
            await response.aclose()
        is_failure = response.status_code >= _FIRST_FAILURE_STATUS
        if is_complete and not is_failure:
            return _to_result(response)
        text = f"The answer is larger than {_MAX_RESPONSE_BYTES:,} bytes."
        if is_complete:
            text = self._api.redact(_error_message(response))
        if request.is_safe or is_refusal(response.status_code):
            return Result.error(text)
        raise SourceError(f"{text.rstrip('.')}.", hint=MAY_HAVE_RUN_HINT)

    def _convert_error(self, error: httpx2.HTTPError, request: OperationRequest) -> SourceError:
        """What a call that has no answer says: whether it was sent decides."""
        reason = self._api.redact(str(error)) or type(error).__name__
        if isinstance(error, _UNSENT_ERRORS):
            return SourceError(f"Cannot reach {self.name}: {reason}")
        hint = RETRY_HINT if request.is_safe else MAY_HAVE_RUN_HINT
        if isinstance(error, httpx2.TimeoutException):
            limit = self._api.timeout_seconds
            return SourceError(f"{self.name} did not answer within {limit:g} seconds.", hint=hint)
        return SourceError(
            f"{self.name} gave no answer that can be read: {reason.rstrip('.')}.", hint=hint
        )

    def _base_url(self, operation: Operation) -> str:
        base = (self._api.base_url or operation.base_url).rstrip("/")
        if not is_http_url(base):
            raise SourceError(
                f"The document of {self.name} does not name the URL of the API.",
                hint="Set base_url for it.",
            )
        return base

    def _client(self, base: str) -> httpx2.AsyncClient:
        async def ignore_response(_: httpx2.Response) -> None:
            pass

        if base not in self._clients:
            api = self._api
            client = create_http_client(
                base, headers={}, allows_private=api.allows_private, on_response=ignore_response
            )
            client.timeout = httpx2.Timeout(api.timeout_seconds)
            self._clients[base] = client
        return self._clients[base]

    def _authenticate(
        self, operation: Operation, query: list[tuple[str, str]], headers: dict[str, str]
    ) -> None:
        """Apply the first security requirement for which all secrets are configured."""
        # An empty requirement allows anonymous calls; a configured secret is still used.
        for requirement in filter(None, operation.security):
            if all(scheme in self._api.auth for scheme in requirement):
                for scheme in requirement:
                    table = self._schemes.get(scheme, {})
                    _apply_scheme(table, self._api.auth[scheme], query, headers)
                return


def _security_schemes(document: Document) -> Mapping[str, Mapping[str, Any]]:
    document.context = "the security schemes"
    schemes = document.resolve(
        document.resolve(document.value.get("components")).get("securitySchemes")
    )
    return {name: document.resolve(scheme) for name, scheme in schemes.items()}


def _apply_scheme(
    scheme: Mapping[str, Any], secret: str, query: list[tuple[str, str]], headers: dict[str, str]
) -> None:
    kind, name = scheme.get("type"), str(scheme.get("name", ""))
    match kind, scheme.get("in"), str(scheme.get("scheme", "")).lower():
        case "apiKey", "header", _:
            headers[name] = secret
        case "apiKey", "query", _:
            query.append((name, secret))
        case "apiKey", "cookie", _:
            headers["Cookie"] = "; ".join(filter(None, (headers.get("Cookie"), f"{name}={secret}")))
        case "http", _, "basic":
            headers["Authorization"] = f"Basic {base64.b64encode(secret.encode()).decode()}"
        case _:
            headers["Authorization"] = f"Bearer {secret}"


def _error_message(response: httpx2.Response) -> str:
    """The message for a response that is not a success."""
    head = f"HTTP {response.status_code} {response.reason_phrase}"
    if (redirect := response.next_request) is not None:
        url = str(redirect.url)[:_MAX_ERROR_CHARS]
        return f"{head}: it redirects to {url}, which is not followed."
    body = response.text[:_MAX_ERROR_CHARS].strip()
    return f"{head}: {body}" if body else head


async def _read_body(response: httpx2.Response) -> bool:
    """Read the body, unless it is too large; returns whether it was read."""
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > _MAX_RESPONSE_BYTES:
            return False
        parts.append(part)
    # `aread()` has no limit on the size. Setting what it sets keeps `content` and `text` usable.
    response._content = b"".join(parts)  # pyright: ignore[reportPrivateUsage]
    return True


def _to_result(response: httpx2.Response) -> Result:
    kind = response.headers.get("content-type", "").partition(";")[0].strip()
    if not response.content:
        return Result.of(f"HTTP {response.status_code} {response.reason_phrase}")
    if kind.endswith("json"):
        try:
            return Result.of(json.loads(response.content))
        except ValueError:
            return Result.of(response.text)
    if kind.startswith(("image/", "audio/")):
        data = base64.b64encode(response.content).decode()
        part = Content(type="image" if kind[0] == "i" else "audio", data=data, mime=kind)
        return Result(content=(part,))
    if kind.startswith("text/") or "xml" in kind or "yaml" in kind or not kind:
        return Result.of(response.text)
    data = base64.b64encode(response.content).decode()
    return Result(content=(Content(type="resource", data=data, mime=kind, uri=str(response.url)),))
