"""What an OpenID provider publishes: its endpoints and its keys, read from its issuer address."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import httpx2
from pydantic import BaseModel, ConfigDict, ValidationError

from ...errors import ConfigError
from ...sources.http_client import create_http_client, is_local

_MAX_BYTES = 512 * 1024
_TIMEOUT_SECONDS = 5.0
# Endpoints hardly ever change. They are also read again whenever the keys are.
_METADATA_SECONDS = 3_600.0
_PATHS = ("openid-configuration", "oauth-authorization-server")


class ProviderError(Exception):
    """The provider does not answer, or not as the standards say."""


class ProviderMetadata(BaseModel):
    """The discovery document (OpenID Connect Discovery, RFC 8414), as far as it is used."""

    model_config = ConfigDict(frozen=True)

    issuer: str
    jwks_uri: str
    authorization_endpoint: str = ""
    token_endpoint: str = ""
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class OpenIDProvider:
    """The provider behind a configured issuer."""

    def __init__(
        self,
        issuer: str,
        *,
        allows_private: bool,
        retry_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        check_address(issuer, "auth.issuer")
        self.issuer = issuer
        self._allows_private = allows_private
        self._retry_seconds = retry_seconds
        self._clock = clock
        self._metadata: ProviderMetadata | None = None
        self._read_at = self._failed_at = float("-inf")

    async def get_metadata(self) -> ProviderMetadata:
        """The endpoints; read again after an hour, and kept while the provider is down."""
        now = self._clock()
        if self._metadata is not None and now - self._read_at < _METADATA_SECONDS:
            return self._metadata
        # While it is down, not every visitor of the login page makes another attempt.
        if now - self._failed_at < self._retry_seconds:
            if self._metadata is not None:
                return self._metadata
            raise ProviderError("The issuer did not answer a moment ago.")
        return await self._read_metadata()

    async def fetch_keys(self) -> Any:
        """The key set, from the address that the discovery document has now."""
        metadata = await self._read_metadata()
        return await self._request("GET", metadata.jwks_uri)

    async def redeem_code(self, form: Mapping[str, str], auth: httpx2.Auth | None) -> Any:
        """The answer of the token endpoint to an authorization code."""
        metadata = await self.get_metadata()
        return await self._request("POST", metadata.token_endpoint, data=dict(form), auth=auth)

    async def _read_metadata(self) -> ProviderMetadata:
        try:
            self._metadata = await self._discover()
        except ProviderError:
            self._failed_at = self._clock()
            if self._metadata is None:
                raise
        else:
            self._read_at = self._clock()
        return self._metadata

    async def _discover(self) -> ProviderMetadata:
        problem = ProviderError("The issuer publishes no discovery document.")
        for url in _discovery_urls(self.issuer):
            try:
                return self._parse_metadata(await self._request("GET", url))
            except ProviderError as error:
                problem = error
        raise problem

    def _parse_metadata(self, document: Any) -> ProviderMetadata:
        try:
            metadata = ProviderMetadata.model_validate(document)
        except ValidationError as error:
            raise ProviderError("The discovery document cannot be used.") from error
        # Otherwise another issuer could put its own keys in the place of the configured one's.
        if metadata.issuer.rstrip("/") != self.issuer.rstrip("/"):
            raise ProviderError("The discovery document is of another issuer.")
        endpoints = (metadata.authorization_endpoint, metadata.token_endpoint)
        for url in (metadata.jwks_uri, *filter(None, endpoints)):
            if urlsplit(url).scheme != "https" and not (is_local(url) and is_local(self.issuer)):
                raise ProviderError("The discovery document has an address without HTTPS.")
        return metadata

    async def _request(self, method: str, url: str, **options: Any) -> Any:
        return await request_json(
            method, url, host_of=self.issuer, allows_private=self._allows_private, **options
        )


async def request_json(
    method: str, url: str, *, host_of: str, allows_private: bool, **options: Any
) -> Any:
    """The JSON that an address answers with, within limits on time and size.

    Only the host of the address `host_of`, which the configuration names, may be this machine.
    """
    client = create_http_client(
        host_of,
        headers={"accept": "application/json"},
        allows_private=allows_private,
        on_response=_ignore,
        max_response_bytes=_MAX_BYTES,
    )
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS), client:
            response = await client.request(method, url, **options)
            if response.status_code != HTTPStatus.OK:
                raise ProviderError(f"The issuer answered with status {response.status_code}.")
            return response.json()
    except (TimeoutError, httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL) as error:
        raise ProviderError(f"The issuer does not answer: {type(error).__name__}.") from error
    except (ValueError, RecursionError) as error:
        raise ProviderError("The issuer answered with something other than JSON.") from error


async def _ignore(_: httpx2.Response) -> None:
    """Do nothing with a response before it is read."""


def _discovery_urls(issuer: str) -> Iterator[str]:
    """OpenID Connect appends the path to the issuer; RFC 8414 puts it between host and path."""
    base, parts = issuer.rstrip("/"), urlsplit(issuer)
    yield f"{base}/.well-known/{_PATHS[0]}"
    yield f"{parts.scheme}://{parts.netloc}/.well-known/{_PATHS[1]}{parts.path.rstrip('/')}"


def check_address(url: str, setting: str) -> None:
    """Raise unless a URL has HTTPS, which only a provider on this machine does not need."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and is_local(url):
        return
    raise ConfigError(
        f"The setting {setting} is not an address with https.",
        hint="For example: https://login.example.com",
    )
