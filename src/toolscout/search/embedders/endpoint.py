"""Any OpenAI-compatible embeddings endpoint, remote or on one's own machine."""

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

from ...errors import ConfigError, EmbedderError, require
from .embedder import Floats, Prompts, normalize_rows

OPENAI = "https://api.openai.com/v1"
KEY = "TOOLSCOUT_EMBEDDINGS_KEY"
OPENAI_KEY = "OPENAI_API_KEY"
BASE_URL = "OPENAI_BASE_URL"
MAX_TEXT_CHARS = 8_000

_BATCH = 32
_TRANSIENT = frozenset({408, 409, 425, 429})
# These are about the caller and the model; other refusals may quote the texts that were sent, which
# not every reader of the message may see.
_QUOTABLE_STATUSES = frozenset({401, 403, 404})
_CODE = re.compile(r"[\w.-]{1,60}")
_HINTS = {
    401: f"Check the key in {KEY} or {OPENAI_KEY}.",
    403: "The key may not use this model.",
    404: "Check the model's name and the base URL, which usually ends in /v1.",
    429: "Ask less often, or raise the limit of the account.",
}


@dataclass(frozen=True, slots=True)
class EndpointRetryPolicy:
    """How long and how often to try; a pause the service asks for is kept up to the longest."""

    timeout_seconds: float
    tries: int
    first_seconds: float = 0.5
    longest_seconds: float = 8.0

    def delay_seconds(self, attempt: int, asked: str) -> float:
        """Seconds before the next try."""
        try:
            wanted = float(asked)
        except ValueError:
            wanted = self.first_seconds * 2 ** (attempt - 1)
        return min(max(wanted, 0.0), self.longest_seconds)


@dataclass(frozen=True, slots=True)
class EndpointPolicy:
    """How a service is asked: patiently for tools, in the background; briefly for queries.

    Somebody waits for a query, and search by words is there at once. After one that failed,
    further ones are not sent for `quiet_seconds`.
    """

    tools: EndpointRetryPolicy = EndpointRetryPolicy(timeout_seconds=30, tries=4)
    queries: EndpointRetryPolicy = EndpointRetryPolicy(
        timeout_seconds=5, tries=2, longest_seconds=1
    )
    quiet_seconds: float = 15.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep


_NO_PROMPTS = Prompts()
_DEFAULT_POLICY = EndpointPolicy()


class EmbeddingsEndpoint:
    """A model behind `POST {base_url}/embeddings`; its dimensions are learnt from what it sends.

    A service which is down slows no search: after a query that failed, further ones fail at once
    for a while. Vectors for tools are asked for all the same.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        key: str | None = None,
        prompts: Prompts = _NO_PROMPTS,
        is_latin_only: bool = False,
        pace: EndpointPolicy = _DEFAULT_POLICY,
    ) -> None:
        self._http: Any = require("httpx2", extra="openai")
        self._model = model
        self._key = _require_sendable(key) if key else _find_key(base_url)
        self._base = (base_url or os.environ.get(BASE_URL) or OPENAI).rstrip("/")
        self._shown = _redact_url(self._base)
        if not self._key and self._base == OPENAI:
            raise ConfigError("No key for OpenAI's embeddings.", hint=f"Set {OPENAI_KEY}.")
        self._query, self._passage = prompts.query or "", prompts.passage or ""
        self._pace = pace
        self._quiet_until = 0.0
        self._width = 0
        self._learning = Lock()
        self.is_latin_only = is_latin_only

    @property
    def id(self) -> str:
        """The service, the model and the prefixes."""
        prefixes = f"|{self._query}|{self._passage}" if self._query or self._passage else ""
        return f"{self._model}@{self._shown}{prefixes}"

    @property
    def dimensions(self) -> int:
        """How long a vector is; asks the service if it has sent none yet."""
        return self._width or self.encode([" "]).shape[1]

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row a text, patiently."""
        rows = self._embed_all([f"{self._passage}{t}" for t in texts], self._pace.tools)
        self._quiet_until = 0.0
        return rows

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """One row a question, or a quick refusal."""
        if self._pace.clock() < self._quiet_until:
            raise EmbedderError(
                f"{self._shown} failed a moment ago.", hint="It is asked again shortly."
            )
        try:
            return self._embed_all([f"{self._query}{t}" for t in texts], self._pace.queries)
        except EmbedderError:
            self._quiet_until = self._pace.clock() + self._pace.quiet_seconds
            raise

    def close(self) -> None:
        """Let go of connections."""
        self._client.close()

    @cached_property
    def _client(self) -> Any:
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        return self._http.Client(headers=headers)

    def _embed_all(self, texts: Sequence[str], patience: EndpointRetryPolicy) -> Floats:
        """Every text, in batches that small servers take as well; services refuse an empty one."""
        cut = [t[:MAX_TEXT_CHARS] if t.strip() else "-" for t in texts]
        starts = range(0, len(cut), _BATCH)
        rows = [self._embed_batch(cut[s : s + _BATCH], patience) for s in starts]
        return np.concatenate(rows) if rows else np.zeros((0, self._width), np.float32)

    def _embed_batch(self, texts: Sequence[str], patience: EndpointRetryPolicy) -> Floats:
        attempt = 1
        while True:
            try:
                return self._post(texts, patience.timeout_seconds)
            except _RetryableError as again:
                if attempt >= patience.tries:
                    raise again.failure from again.__cause__
                self._pace.sleep(patience.delay_seconds(attempt, again.wait))
            attempt += 1

    def _post(self, texts: Sequence[str], timeout_seconds: float) -> Floats:
        asked = {"model": self._model, "input": texts, "encoding_format": "float"}
        try:
            response = self._client.post(
                f"{self._base}/embeddings", json=asked, timeout=timeout_seconds
            )
        except self._http.HTTPError as error:
            what = f"no answer ({type(error).__name__})"
            raise _RetryableError(self._make_error(what, is_transient=True)) from error
        except self._http.InvalidURL:
            raise self._make_error("the address is not one") from None
        status = int(response.status_code)
        if status < 300:
            return self._parse_vectors(response, len(texts))
        failure = self._status_error(response, status)
        if failure.is_transient:
            raise _RetryableError(failure, wait=str(response.headers.get("retry-after", "")))
        raise failure

    def _parse_vectors(self, response: Any, count: int) -> Floats:
        """The rows of an answer, in the order of the texts and of length one."""
        try:
            found = sorted(response.json()["data"], key=lambda item: int(item["index"]))
            rows = np.array([item["embedding"] for item in found], dtype=np.float32)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._make_error("the answer is not a list of embeddings") from error
        if rows.ndim != 2 or len(rows) != count or not np.isfinite(rows).all():
            raise self._make_error(f"the answer has not one vector for each of {count} texts")
        if not rows.any(axis=1).all():
            raise self._make_error("the answer has a vector of nothing but zeros")
        self._check_width(rows.shape[1])
        return normalize_rows(rows)

    def _check_width(self, width: int) -> None:
        with self._learning:
            self._width = self._width or width
        if width != self._width:
            raise self._make_error(f"vectors of {self._width} numbers became vectors of {width}")

    def _status_error(self, response: Any, status: int) -> EmbedderError:
        detail = self._error_detail(response, status)
        what = f"answered {status}{f' ({detail})' if detail else ''}"
        is_transient = status in _TRANSIENT or status >= 500
        return self._make_error(what, hint=_HINTS.get(status, ""), is_transient=is_transient)

    def _error_detail(self, response: Any, status: int) -> str:
        """What the service says of a refusal, as far as it can be passed on."""
        try:
            body: object = response.json()
        except ValueError:
            return ""
        error = cast("dict[str, Any]", body).get("error") if isinstance(body, dict) else None
        said = cast("dict[str, Any]", error) if isinstance(error, dict) else {"message": error}
        if status in _QUOTABLE_STATUSES:
            text = " ".join(str(said.get("message") or "").split())[:200]
            return text.replace(self._key, "…") if self._key else text
        code = str(said.get("code") or said.get("type") or "")
        return code if _CODE.fullmatch(code) else ""

    def _make_error(
        self, what: str, *, hint: str = "", is_transient: bool = False
    ) -> EmbedderError:
        return EmbedderError(
            f"The embeddings {self._model} at {self._shown} cannot be had: {what}.",
            hint=hint,
            is_transient=is_transient,
        )


class _RetryableError(Exception):
    """A failure that may pass, and how long the service wants to be left alone."""

    def __init__(self, failure: EmbedderError, *, wait: str = "") -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.wait = wait


def _find_key(base_url: str | None) -> str:
    """The key for these embeddings; OpenAI's own goes only where OpenAI's settings point."""
    own = os.environ.get(KEY, "")
    key = own if own or base_url else os.environ.get(OPENAI_KEY, "")
    return _require_sendable(key)


def _require_sendable(key: str) -> str:
    """A key as a header takes it, so that no failure further down has to quote it."""
    key = key.strip()
    if not key.isascii() or not key.isprintable():
        raise ConfigError(
            "The key for embeddings has characters that cannot be sent.",
            hint=f"Set {KEY} or {OPENAI_KEY} to the key alone.",
        )
    return key


def _redact_url(url: str) -> str:
    """An address without what may be secret in it."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "an address that cannot be read"
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
