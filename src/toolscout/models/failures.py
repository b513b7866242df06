"""Translate failures of model services into ModelError: what happened, what to do, retry or not."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime

from ..errors import ConfigError, ModelError

# The SDKs of OpenAI and Anthropic retry 408, 409 (a lock timeout), 429 and 5xx. 425 ("too early")
# asks for a retry by definition, and 529 is Anthropic's "overloaded".
_TRANSIENT = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_HINTS = {
    400: "The request itself was refused; trying again will not help.",
    401: "Check the key in {variable}.",
    403: "The key in {variable} may not use this model.",
    404: "Check the model's name and the base URL.",
    413: "The request is too large: trim the history or load fewer tools.",
    422: "The request itself was refused; trying again will not help.",
    429: "Wait, send fewer requests, or raise the limit of the account.",
}
_MAX_DETAIL_CHARS = 500


def resolve_api_key(service: str, api_key: str | None, *variables: str) -> str:
    """The key of a service: the argument, or from the environment; else a ConfigError."""
    for value in (api_key, *(os.environ.get(name) for name in variables)):
        if value:
            return value
    raise ConfigError(
        f"No key for {service}.",
        hint=f"Set {variables[0]}, give the client its api_key, or play a script with the model "
        "scripted:FILE, which needs none.",
    )


def model_error(
    service: str,
    detail: object,
    *,
    status: int | None = None,
    variable: str = "",
    headers: Mapping[str, str] | None = None,
    is_final: bool = False,
) -> ModelError:
    """The error for a failed request; without a status the connection failed or broke off."""
    # Details may be a whole HTML page of a proxy, so they become one line and are cut.
    text = " ".join(str(detail or "no details").split())
    text = text if len(text) <= _MAX_DETAIL_CHARS else text[:_MAX_DETAIL_CHARS] + "…"
    is_transient = not is_final and (status is None or status in _TRANSIENT or status >= 500)
    what = f"answered {status}" if status else "could not be reached or broke off"
    fallback = "Try again later." if is_transient else "Trying again will not help."
    hint = fallback if is_final else _HINTS.get(status or 0, fallback)
    return ModelError(
        f"{service} {what}: {text.rstrip('.')}.",
        hint=hint.format(variable=variable or "the environment"),
        status=status,
        is_transient=is_transient,
        wait_seconds=retry_after_seconds(headers or {}),
    )


@contextmanager
def translate_request_errors(service: str) -> Generator[None]:
    """Turn errors of the SDK's own checks into a final ModelError."""
    # Before the request is sent, an exception means that the request itself is wrong. The same
    # types inside the stream mean an unreadable reply, which may be retried.
    try:
        yield
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"The request to {service} cannot be encoded: {error}.",
            hint="Fix the messages, the tools or the options; trying again will not help.",
        ) from error


def stream_cut_error(service: str) -> ModelError:
    """The error for a stream that ended in the middle of a reply."""
    return ModelError(
        f"{service} closed the stream before the reply was complete.",
        hint="Try again later.",
        is_transient=True,
    )


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """How long a service asks us to wait; None if it does not say, or the value is invalid."""
    # `retry-after-ms` is not standard, but more precise where a service sends it.
    try:
        if milliseconds := headers.get("retry-after-ms"):
            return max(0.0, float(milliseconds) / 1000)
        if seconds := headers.get("retry-after"):
            return max(0.0, _parse_retry_after(seconds, headers.get("date")))
    except (ValueError, TypeError):
        return None
    return None


def _parse_retry_after(value: str, now: str | None) -> float:
    """The seconds in a Retry-After header: a number, or a date relative to `now`."""
    # `now` is the service's own Date header, so that a wrong local clock does no harm.
    if value.strip().replace(".", "", 1).isdigit():
        return float(value)
    if now is None:
        raise ValueError(value)
    return (parsedate_to_datetime(value) - parsedate_to_datetime(now)).total_seconds()
