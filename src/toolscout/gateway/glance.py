"""A server's entry in one line that anybody may see: what runs or is called, without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from ..catalog.sources.mcp.secrecy import in_address, in_arguments, in_headers, in_table, is_secret
from .dialects import list_of, table_of

_BLOT = "•••"
_VARIABLE = re.compile(r"(?:\w+ )?\$\{[^}]+\}")
_SHORTEST_SECRET = 4


def glance(entry: Mapping[str, Any]) -> str:
    """A command with its arguments, or an address; whatever may be a secret is blotted out."""
    url = next((str(entry[k]) for k in ("url", "serverUrl", "httpUrl") if entry.get(k)), "")
    command = str(entry.get("command") or "")
    words = [command, *map(str, list_of(entry.get("args")))] if command else [url]
    shown = " ".join(_address(word) if "://" in word else word for word in words)
    for secret in sorted(set(_secrets(entry, words)), key=len, reverse=True):
        # A variable is no secret, only the place for one.
        if len(secret) >= _SHORTEST_SECRET and not _VARIABLE.fullmatch(secret):
            shown = shown.replace(secret, _BLOT)
    return shown


def _secrets(entry: Mapping[str, Any], words: list[str]) -> Iterator[str]:
    yield from in_arguments(words[1:])
    yield from in_table(_texts(entry.get("env")))
    yield from in_headers(_texts(entry.get("headers") or entry.get("http_headers")))
    for word in words:
        if "://" in word:
            yield from in_address(_whole(word))
        else:  # a header, as bridges to a remote server take it
            name, _, value = word.partition(":")
            yield value.strip() if is_secret(name, "") else ""


def _texts(table: object) -> dict[str, str]:
    return {name: str(value) for name, value in table_of(table).items()}


def _address(word: str) -> str:
    """An address without a login, and without what is after its path."""
    url = _whole(word)
    if not url:
        return _BLOT
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return word.removesuffix(url) + f"{parts.scheme}://{host}{parts.path}"


def _whole(word: str) -> str:
    """The address in a word like `--url=https://…`; nothing where it is none after all."""
    start = re.search(r"[A-Za-z][A-Za-z0-9+.-]*://", word)
    url = word[start.start() :] if start else ""
    try:
        urlsplit(url)
    except ValueError:
        return ""
    return url
