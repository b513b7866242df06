"""Shared by both OpenAI clients: the SDK client, the translation of its errors, token counts."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast
from urllib.parse import urlsplit

from ..disclosure.target import ModelTransport
from ..errors import ModelError, require
from .deltas import Usage
from .failures import model_error, resolve_api_key
from .model import default_transport

_KEY_VARIABLE = "OPENAI_API_KEY"
_URL_VARIABLE = "OPENAI_BASE_URL"
# Errors inside a stream have no status. Their code tells which one it would have been.
_STATUSES = {
    "rate_limit_exceeded": 429,
    "server_error": 500,
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
    "insufficient_quota": 429,
    "invalid_api_key": 401,
}
# An exhausted account gets 429 like a busy one, but waiting does not help.
_FINAL_CODES = frozenset({"insufficient_quota"})


class OpenAIEndpoint:
    """A connection to OpenAI, or to a compatible service at another base URL."""

    def __init__(
        self, *, api_key: str | None, base_url: str | None, timeout_seconds: float
    ) -> None:
        self.sdk: Any = require("openai", extra="openai")
        self._http: Any = require("httpx2", extra="openai")
        other_url = base_url or os.environ.get(_URL_VARIABLE)
        # Local servers need no key, but the SDK insists on one.
        key = api_key or os.environ.get(_KEY_VARIABLE) or ("unused" if other_url else None)
        self.is_compatible = bool(other_url)
        self.service = urlsplit(other_url).netloc if other_url else "OpenAI"
        self.client = self.sdk.AsyncOpenAI(
            api_key=resolve_api_key(self.service, key, _KEY_VARIABLE),
            base_url=other_url,
            # We retry ourselves (retry.py), so that all services behave alike.
            max_retries=0,
            timeout=timeout_seconds,
        )

    @asynccontextmanager
    async def translate_errors(self) -> AsyncGenerator[None]:
        """Turn everything that the SDK raises inside into a ModelError."""
        # The order matters: the first two are subclasses of APIError.
        try:
            yield
        except self.sdk.APIStatusError as error:
            raise model_error(
                self.service,
                _error_message(error),
                status=error.status_code,
                variable=_KEY_VARIABLE,
                headers=dict(error.response.headers),
                is_final=error.code in _FINAL_CODES,
            ) from error
        except (self.sdk.APIConnectionError, self._http.HTTPError) as error:
            raise model_error(self.service, error.__cause__ or error) from error
        except self.sdk.APIError as error:
            raise self.stream_error(error.code or error.type, error.message) from error
        except ValueError as error:
            raise model_error(self.service, f"the stream is not readable ({error})") from error

    def stream_error(self, code: str | None, message: str) -> ModelError:
        """The error for a failure reported inside a stream."""
        return model_error(
            self.service,
            message,
            status=_STATUSES.get(code or "", 500),
            variable=_KEY_VARIABLE,
            is_final=code in _FINAL_CODES,
        )


class OpenAIClient:
    """A model at OpenAI, or at a compatible service at another base URL.

    `options` are added to every request unchanged.
    """

    def __init__(
        self,
        name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout_seconds: float = 600.0,
        transport: ModelTransport | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.transport: ModelTransport = transport or default_transport(
            base_url, variable=_URL_VARIABLE
        )
        self._endpoint = OpenAIEndpoint(
            api_key=api_key, base_url=base_url, timeout_seconds=timeout_seconds
        )
        self._options = dict(options or {})

    async def close(self) -> None:
        """Close the connections."""
        await self._endpoint.client.close()


def token_usage(input_tokens: int | None, output_tokens: int | None, details: Any) -> Usage:
    """The tokens of a reply; `details` describe the input, and older SDKs lack some of them."""
    return Usage(
        input_tokens=input_tokens or 0,
        output_tokens=output_tokens or 0,
        cached_tokens=(details and details.cached_tokens) or 0,
        written_tokens=(details and getattr(details, "cache_write_tokens", 0)) or 0,
    )


def _error_message(error: Any) -> str:
    """The message of the service, without the text that the SDK adds."""
    body: object = error.body
    message = cast("dict[str, object]", body).get("message") if isinstance(body, dict) else body
    return str(message or error.message)
