"""What both OpenAI clients share: the SDK's client, and its failures in our words."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast
from urllib.parse import urlsplit

from ..disclosure.target import Transport
from ..errors import ModelError, require
from .failures import model_error, resolve_api_key
from .model import default_transport

_KEY = "OPENAI_API_KEY"
_BASE = "OPENAI_BASE_URL"
# Errors inside a stream have no status; the code tells what it would have been.
_STATUSES = {
    "rate_limit_exceeded": 429,
    "server_error": 500,
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
    "insufficient_quota": 429,
    "invalid_api_key": 401,
}
# A spent account answers 429 like a busy one, but waiting does not help.
_FINAL = frozenset({"insufficient_quota"})


class OpenAIEndpoint:
    """A connection to OpenAI, or to anything that speaks like it at another base URL."""

    def __init__(
        self, *, api_key: str | None, base_url: str | None, timeout_seconds: float
    ) -> None:
        self.sdk: Any = require("openai", extra="openai")
        self._http: Any = require("httpx2", extra="openai")
        elsewhere = base_url or os.environ.get(_BASE)
        # Servers on one's own machine want no key, but the SDK insists on one.
        given = api_key or os.environ.get(_KEY) or ("unused" if elsewhere else None)
        self.is_elsewhere = bool(elsewhere)
        self.service = urlsplit(elsewhere).netloc if elsewhere else "OpenAI"
        self.client = self.sdk.AsyncOpenAI(
            api_key=resolve_api_key(self.service, given, _KEY),
            base_url=elsewhere,
            max_retries=0,
            timeout=timeout_seconds,
        )

    @asynccontextmanager
    async def translate_errors(self) -> AsyncGenerator[None]:
        """Whatever the SDK raises inside leaves as a ModelError."""
        try:
            yield
        except self.sdk.APIStatusError as error:
            raise model_error(
                self.service,
                _error_message(error),
                status=error.status_code,
                variable=_KEY,
                headers=dict(error.response.headers),
                is_final=error.code in _FINAL,
            ) from error
        except (self.sdk.APIConnectionError, self._http.HTTPError) as error:
            raise model_error(self.service, error.__cause__ or error) from error
        except self.sdk.APIError as error:
            raise self.stream_error(error.code or error.type, error.message) from error
        except ValueError as error:
            raise model_error(self.service, f"the stream is not readable ({error})") from error

    def stream_error(self, code: str | None, message: str) -> ModelError:
        """A failure reported inside a stream that had begun well."""
        status = _STATUSES.get(code or "", 500)
        is_final = code in _FINAL
        return model_error(self.service, message, status=status, variable=_KEY, is_final=is_final)


class OpenAIClient:
    """A model at OpenAI, or at anything that speaks like it at another base URL.

    `options` go into every request as they are.
    """

    def __init__(
        self,
        name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout_seconds: float = 600.0,
        transport: Transport | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.transport: Transport = transport or default_transport(base_url, variable=_BASE)
        self._endpoint = OpenAIEndpoint(
            api_key=api_key, base_url=base_url, timeout_seconds=timeout_seconds
        )
        self._options = dict(options or {})

    async def close(self) -> None:
        """Let go of connections."""
        await self._endpoint.client.close()


def _error_message(error: Any) -> str:
    """The service's own sentence, without the SDK's wrapping."""
    body: object = error.body
    said = cast("dict[str, object]", body).get("message") if isinstance(body, dict) else body
    return str(said or error.message)
