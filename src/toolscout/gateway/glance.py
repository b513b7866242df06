"""A server's entry in one line that anybody may see: what runs or is called, without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

_BLOT = "•••"
_TELLING = re.compile(
    r"key|token|secret|passw|passwd|pwd|auth|credential|header|bearer|cookie|session", re.IGNORECASE
)
_VARIABLE = re.compile(r"^\W*\$\{[^}]+\}\W*$")
_MIXED = re.compile(r"(?=[^/]*[0-9])(?=[^/]*[A-Za-z])[A-Za-z0-9_.+=~-]{20,}")
_SHORTEST_SECRET = 4


def glance(entry: Mapping[str, Any]) -> str:
    """A command with its arguments, or an address; whatever may be a secret is blotted out."""
    address = next((entry[k] for k in ("url", "serverUrl", "httpUrl") if entry.get(k)), None)
    if address and not entry.get("command"):
        return _without(_secrets(entry), _address(str(address)))
    words = [str(entry.get("command", "")), *_arguments(entry.get("args") or ())]
    return _without(_secrets(entry), " ".join(words))


def _arguments(given: Any) -> Iterator[str]:
    is_secret = False
    for word in map(str, given):
        name, sign, value = word.partition("=")
        is_named = bool(sign) and _TELLING.search(name) is not None
        if is_secret and not word.startswith("-"):
            yield _blotted(word)
        elif is_named and "://" not in name:
            yield f"{name}={_blotted(value)}"
        elif "://" in word:
            yield _address(word)
        else:
            yield _blotted(word) if _MIXED.fullmatch(word) else word
        is_secret = word.startswith("-") and not sign and _TELLING.search(word) is not None


def _blotted(word: str) -> str:
    """A variable is no secret, only the place for one."""
    return word if _VARIABLE.match(word) else _BLOT


def _address(text: str) -> str:
    """An address without a password, and without what is after its path."""
    before, sign, rest = text.rpartition("=") if "=" in text.partition("://")[0] else ("", "", text)
    try:
        parts = urlsplit(rest)
    except ValueError:
        return _BLOT
    host = parts.netloc.rpartition("@")[2]
    return f"{before}{sign}{parts.scheme}://{host}{parts.path}"


def _secrets(entry: Mapping[str, Any]) -> Iterator[str]:
    for key in ("env", "headers", "http_headers"):
        table = entry.get(key)
        values = cast("dict[str, Any]", table).values() if isinstance(table, dict) else ()
        for value in map(str, values):
            yield from (value, value.partition(" ")[2])


def _without(secrets: Iterator[str], text: str) -> str:
    for secret in sorted(set(secrets), key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET and not _VARIABLE.match(secret):
            text = text.replace(secret, _BLOT)
    return text
