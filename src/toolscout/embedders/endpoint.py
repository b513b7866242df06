"""An embedder for any OpenAI-compatible embeddings endpoint, remote or local."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

import numpy as np

from ..errors import ConfigError, EmbedderError, require
from .arrays import Floats
from .embedder import Prompts, normalize_rows

OPENAI = "https://api.openai.com/v1"
KEY = "TOOLSCOUT_EMBEDDINGS_KEY"
OPENAI_KEY = "OPENAI_API_KEY"
BASE_URL = "OPENAI_BASE_URL"
MAX_TEXT_CHARS = 8_000  # OpenAI's models read at most 8,191 tokens, and refuse more

# Small enough for local servers, which often limit batches to 32.
_BATCH = 32
# Timeout, conflict, too early, too many requests: like 5xx these may succeed when sent again.
_TRANSIENT = frozenset({408, 409, 425, 429})
# Messages of these concern the key and the model. Other error messages may quote the texts that
# were sent, and not everyone who sees the error may see those.
_QUOTABLE_STATUSES = frozenset({401, 403, 404})
_CODE = re.compile(r"[\w.-]{1,60}")
_HINTS = {
    401: f"Check the key in {KEY} or {OPENAI_KEY}.",
    403: "The key may not use this model.",
    404: "Check the model's name and the base URL, which usually ends in /v1.",
    429: "Send fewer requests, or raise the limit of the account.",
}


@dataclass(frozen=True, slots=True)
class EndpointRetryPolicy:
    """Timeout, number of attempts, and the delays between them (exponential backoff)."""

    timeout_seconds: float
    max_attempts: int
    first_delay_seconds: float = 0.5
    max_delay_seconds: float = 8.0

    def delay_seconds(self, attempt: int, retry_after: str) -> float:
        """Seconds until the next attempt; a Retry-After header counts, up to the maximum."""
        try:
            delay = float(retry_after)
        except ValueError:  # absent, or an HTTP date
            delay = self.first_delay_seconds * 2 ** (attempt - 1)
        return min(max(delay, 0.0), self.max_delay_seconds)


@dataclass(frozen=True, slots=True)
class EndpointPolicy:
    """How requests are sent: patiently for tools, quickly for queries.

    Tools are encoded in the background, but a caller waits for a query, and keyword search answers
    at once. After a failed query no further ones are sent for `quiet_seconds` (circuit breaker).
    """

    tools: EndpointRetryPolicy = EndpointRetryPolicy(timeout_seconds=30, max_attempts=4)
    queries: EndpointRetryPolicy = EndpointRetryPolicy(
        timeout_seconds=5, max_attempts=2, max_delay_seconds=1
    )
    quiet_seconds: float = 15.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep


_NO_PROMPTS = Prompts()
_DEFAULT_POLICY = EndpointPolicy()


class EmbeddingsEndpoint:
    """A model behind `POST {base_url}/embeddings`; its first answer sets the dimensions.

    A service that is down does not slow down searches: after a failed query, further queries fail
    at once for a while. Requests for the vectors of tools are still sent.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        key: str | None = None,
        prompts: Prompts = _NO_PROMPTS,
        is_latin_only: bool = False,
        policy: EndpointPolicy = _DEFAULT_POLICY,
    ) -> None:
        self._http: Any = require("httpx2", extra="openai")
        self._model = model
        self._key = _require_sendable(key) if key else _find_key(base_url)
        self._base = (base_url or os.environ.get(BASE_URL) or OPENAI).rstrip("/")
        self._display_url = _redact_url(self._base)
        if not self._key and self._base == OPENAI:
            raise ConfigError("No key for OpenAI's embeddings.", hint=f"Set {OPENAI_KEY}.")
        self._query, self._passage = prompts.query or "", prompts.passage or ""
        self._policy = policy
        self._quiet_until = 0.0
        self._width = 0
        self._width_lock = Lock()
        self.is_latin_only = is_latin_only

    @property
    def id(self) -> str:
        """The service, the model and the prefixes."""
        prefixes = f"|{self._query}|{self._passage}" if self._query or self._passage else ""
        return f"{self._model}@{self._display_url}{prefixes}"

    @property
    def dimensions(self) -> int:
        """The length of a vector; sends a request if there has been none yet."""
        return self._width or self.encode([" "]).shape[1]

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row per text, with patient retries."""
        rows = self._embed_all([f"{self._passage}{t}" for t in texts], self._policy.tools)
        self._quiet_until = 0.0  # the service is back, so queries may be sent again
        return rows

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """One row per query, or a quick failure."""
        if self._policy.clock() < self._quiet_until:
            raise EmbedderError(
                f"{self._display_url} failed a moment ago.",
                hint="Toolscout tries it again shortly.",
            )
        try:
            return self._embed_all([f"{self._query}{t}" for t in texts], self._policy.queries)
        except EmbedderError:
            self._quiet_until = self._policy.clock() + self._policy.quiet_seconds
            raise

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    @cached_property
    def _client(self) -> Any:
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        return self._http.Client(headers=headers)

    def _embed_all(self, texts: Sequence[str], retry: EndpointRetryPolicy) -> Floats:
        # Services refuse empty texts, but every text needs a row.
        cut = [t[:MAX_TEXT_CHARS] if t.strip() else "-" for t in texts]
        starts = range(0, len(cut), _BATCH)
        rows = [self._embed_batch(cut[s : s + _BATCH], retry) for s in starts]
        return np.concatenate(rows) if rows else np.zeros((0, self._width), np.float32)

    def _embed_batch(self, texts: Sequence[str], retry: EndpointRetryPolicy) -> Floats:
        attempt = 1
        while True:
            try:
                return self._post(texts, retry.timeout_seconds)
            except _RetryableError as error:
                if attempt >= retry.max_attempts:
                    raise error.failure from error.__cause__
                self._policy.sleep(retry.delay_seconds(attempt, error.retry_after))
            attempt += 1

    def _post(self, texts: Sequence[str], timeout_seconds: float) -> Floats:
        payload = {"model": self._model, "input": texts, "encoding_format": "float"}
        try:
            response = self._client.post(
                f"{self._base}/embeddings", json=payload, timeout=timeout_seconds
            )
        except self._http.HTTPError as error:
            cause = f"no answer ({type(error).__name__})"
            raise _RetryableError(self._make_error(cause, is_transient=True)) from error
        except self._http.InvalidURL:
            raise self._make_error("the address is invalid") from None
        status = int(response.status_code)
        if status < 300:
            return self._parse_vectors(response, len(texts))
        failure = self._status_error(response, status)
        if failure.is_transient:
            retry_after = str(response.headers.get("retry-after", ""))
            raise _RetryableError(failure, retry_after=retry_after)
        raise failure

    def _parse_vectors(self, response: Any, count: int) -> Floats:
        """The unit vectors of an answer, in the order of the texts."""
        try:
            # The API promises an index per item, not an order.
            items = sorted(response.json()["data"], key=lambda item: int(item["index"]))
            rows = np.array([item["embedding"] for item in items], dtype=np.float32)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._make_error("the answer is not a list of embeddings") from error
        if rows.ndim != 2 or len(rows) != count or not np.isfinite(rows).all():
            raise self._make_error(f"the answer does not have one vector for each of {count} texts")
        if not rows.any(axis=1).all():
            raise self._make_error("the answer has a vector of zeros only")
        self._check_width(rows.shape[1])
        return normalize_rows(rows)

    def _check_width(self, width: int) -> None:
        with self._width_lock:
            self._width = self._width or width
        if width != self._width:
            raise self._make_error(f"vectors of {self._width} numbers became vectors of {width}")

    def _status_error(self, response: Any, status: int) -> EmbedderError:
        detail = self._error_detail(response, status)
        cause = f"answered {status}{f' ({detail})' if detail else ''}"
        is_transient = status in _TRANSIENT or status >= 500
        return self._make_error(cause, hint=_HINTS.get(status, ""), is_transient=is_transient)

    def _error_detail(self, response: Any, status: int) -> str:
        """The part of the service's error message that may be shown."""
        try:
            body: object = response.json()
        except ValueError:
            return ""
        error = cast("dict[str, Any]", body).get("error") if isinstance(body, dict) else None
        details = cast("dict[str, Any]", error) if isinstance(error, dict) else {"message": error}
        if status in _QUOTABLE_STATUSES:
            text = " ".join(str(details.get("message") or "").split())[:200]
            # A message about a wrong key may quote the key.
            return text.replace(self._key, "…") if self._key else text
        code = str(details.get("code") or details.get("type") or "")
        return code if _CODE.fullmatch(code) else ""

    def _make_error(
        self, cause: str, *, hint: str = "", is_transient: bool = False
    ) -> EmbedderError:
        return EmbedderError(
            f"The embeddings {self._model} at {self._display_url} are not available: {cause}.",
            hint=hint,
            is_transient=is_transient,
        )


class _RetryableError(Exception):
    """A failure that may be temporary, with the Retry-After header of the response."""

    def __init__(self, failure: EmbedderError, *, retry_after: str = "") -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.retry_after = retry_after


def _find_key(base_url: str | None) -> str:
    """The API key from the environment."""
    own = os.environ.get(KEY, "")
    # OPENAI_API_KEY is sent only where OpenAI's own settings point, never to a URL from our
    # setting: that may be any server.
    key = own if own or base_url else os.environ.get(OPENAI_KEY, "")
    return _require_sendable(key)


def _require_sendable(key: str) -> str:
    """Check that a key is valid in a header."""
    # Otherwise the HTTP library would fail later, with the key in its error message.
    key = key.strip()
    if not key.isascii() or not key.isprintable():
        raise ConfigError(
            "The key for embeddings has characters that cannot be sent.",
            hint=f"Set {KEY} or {OPENAI_KEY} to the key alone.",
        )
    return key


def _redact_url(url: str) -> str:
    """A URL without user name, password and query, which may be secret."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "an address that cannot be read"
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
