"""A server's entry in one line that anybody may see: what runs or is called, without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from ...sources.mcp.secret_detection import (
    is_secret,
    secrets_in_arguments,
    secrets_in_headers,
    secrets_in_table,
    secrets_in_url,
)
from .formats import as_list, as_table

_REDACTED = "•••"
_VARIABLE = re.compile(r"(?:\w+ )?\$\{[^}]+\}")
_SHORTEST_SECRET = 4


def entry_summary(entry: Mapping[str, Any]) -> str:
    """A command with its arguments, or an address; whatever may be a secret is blotted out."""
    url = next((str(entry[k]) for k in ("url", "serverUrl", "httpUrl") if entry.get(k)), "")
    command = str(entry.get("command") or "")
    words = [command, *map(str, as_list(entry.get("args")))] if command else [url]
    shown = " ".join(_redact_url(word) if "://" in word else word for word in words)
    for secret in sorted(set(_secrets(entry, words)), key=len, reverse=True):
        # A variable is no secret, only the place for one.
        if len(secret) >= _SHORTEST_SECRET and not _VARIABLE.fullmatch(secret):
            shown = shown.replace(secret, _REDACTED)
    return shown


def _secrets(entry: Mapping[str, Any], words: list[str]) -> Iterator[str]:
    yield from secrets_in_arguments(words[1:])
    yield from secrets_in_table(_string_values(entry.get("env")))
    yield from secrets_in_headers(_string_values(entry.get("headers") or entry.get("http_headers")))
    for word in words:
        if "://" in word:
            yield from secrets_in_url(_find_url(word))
        else:  # a header, as bridges to a remote server take it
            name, _, value = word.partition(":")
            yield value.strip() if is_secret(name, "") else ""


def _string_values(table: object) -> dict[str, str]:
    return {name: str(value) for name, value in as_table(table).items()}


def _redact_url(word: str) -> str:
    """An address without a login, and without what is after its path."""
    url = _find_url(word)
    if not url:
        return _REDACTED
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return word.removesuffix(url) + f"{parts.scheme}://{host}{parts.path}"


def _find_url(word: str) -> str:
    """The address in a word like `--url=https://…`; nothing where it is none after all."""
    start = re.search(r"[A-Za-z][A-Za-z0-9+.-]*://", word)
    url = word[start.start() :] if start else ""
    try:
        urlsplit(url)
    except ValueError:
        return ""
    return url
