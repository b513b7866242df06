"""Compare resource URIs by what servers may take them for.

A server may ignore a fragment, a query or parameters (`/a;b` for `/a`), decode `%2F`, or strip
white space. Two URIs denote the same resource here if some server could read them so: this decides
what to refuse.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import unquote

# Decoding ends when the text no longer changes; nobody encodes a URI more often.
_MAX_DECODINGS = 4
_HIERARCHY = re.compile(r"([a-z][a-z0-9+.-]*):(?://([^/]*))?(.*)")
_PARENT_SEGMENT = re.compile(r"(?:^|[/?&=#:;,])\.\.(?:$|[/?&=#:;,])")
_PARAMETERS = re.compile(r";[^/\\]*")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_LOCAL_HOSTS = ("", ".", "localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class _Form:
    """One reading of a URI: its address without a fragment, and the parts of its query."""

    address: str
    query: frozenset[str]

    def covers(self, other: _Form) -> bool:
        """Whether the other one is the same, perhaps with more in its query."""
        return self.address == other.address and self.query <= other.query


def denotes(uri: str, listed: str) -> bool:
    """Whether a server may take a URI for a resource that it lists."""
    asked = _read_forms(uri)
    return any(known.covers(form) for known in _read_forms(listed) for form in asked)


def is_same_uri(first: str, second: str) -> bool:
    """Whether two URIs differ only in how their characters are written."""
    return first == second or unquote(first).casefold() == unquote(second).casefold()


def matches_uri(uri: str, patterns: Iterable[str]) -> bool:
    """Whether one of the readings of a URI matches a pattern of a policy."""
    folded = _fold(uri)
    addresses = {form.address for form in _read_forms(uri)}
    texts = {folded, *addresses, *(f"{address}/" for address in addresses)}
    return any(
        fnmatchcase(uri, pattern) or any(fnmatchcase(text, _fold(pattern)) for text in texts)
        for pattern in patterns
    )


def has_parent_segment(uri: str) -> bool:
    """Whether a URI has a `..` segment, whose meaning depends on the folders of the server."""
    return _PARENT_SEGMENT.search(_fold(uri)) is not None


def _read_forms(uri: str) -> frozenset[_Form]:
    # `%23` may be a part of a name, or a server decodes it before it looks for a fragment.
    texts = (uri, _decode(uri))
    return frozenset(_read_form(text, cuts=cuts) for text in texts for cuts in (False, True))


def _read_form(uri: str, *, cuts: bool) -> _Form:
    """The form of a URI; with `cuts`, as for a server that ignores parameters of segments."""
    body = uri.partition("#")[0]
    path, _, query = body.partition("?")
    path = _PARAMETERS.sub("", path) if cuts else path
    parts = frozenset(part for part in _fold(query).split("&") if part)
    return _Form(_resolve_address(_fold(path)), parts)


def _resolve_address(text: str) -> str:
    """An address with a plain host, and without empty and `.` segments."""
    found = _HIERARCHY.fullmatch(text)
    if found is None:
        return text.rstrip("/")
    scheme, authority, path = found[1], found[2] or "", found[3]
    host = authority.rpartition("@")[2].removesuffix(_DEFAULT_PORTS.get(scheme, ":")).rstrip(".")
    if scheme == "file" and host in _LOCAL_HOSTS:
        host = ""
    segments = [segment for segment in path.split("/") if segment not in ("", ".")]
    # `scheme:path` and `scheme:/path` are other ways to write `scheme:///path`.
    return "/".join((f"{scheme}://{host}", *segments))


def _fold(text: str) -> str:
    """Decoded text without white space and invisible characters, case and compatibility forms."""
    # Folded before and after: case folding makes characters that have a compatibility form.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", _decode(text)).casefold())
    visible = (
        character
        for character in folded
        if not character.isspace() and unicodedata.category(character) not in ("Cc", "Cf")
    )
    return "".join(visible).replace("\\", "/")


def _decode(text: str) -> str:
    for _ in range(_MAX_DECODINGS):
        decoded = unquote(text)
        if decoded == text:
            break
        text = decoded
    return text
