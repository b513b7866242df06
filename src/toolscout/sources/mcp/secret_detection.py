"""What of a server's configuration is secret, so that it is blotted out wherever it comes back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from urllib.parse import parse_qsl, urlsplit

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_WORDS = frozenset(
    {
        *("apikey", "auth", "authorization", "bearer", "cookie", "credential", "credentials"),
        *("creds", "dsn", "jwt", "key", "keys", "pass", "passphrase", "passwd", "password"),
        *("pat", "private", "pwd", "secret", "secrets", "signature", "token"),
    }
)
_SECRET_SUFFIXES = (
    "auth",
    "credential",
    "credentials",
    "key",
    "passwd",
    "password",
    "secret",
    "token",
)
_RANDOM = re.compile(r"(?=[A-Za-z0-9]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{16,}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_URL_PASSWORD = re.compile(r"://[^/\s:@]*:([^@\s]+)@")
# What every server is given; named here, since the SDK that gives it takes a second to import.
_INHERITED_VARIABLES = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
_PATH_PREFIXES = ("/", "~", ".")
# What settings are full of, and messages too: whoever set it, nobody is given away by it.
_ORDINARY_VALUES = frozenset(
    {
        *("true", "false", "none", "null", "auto", "default", "enabled", "disabled"),
        *("trace", "debug", "info", "warn", "warning", "error", "verbose", "quiet"),
        *("production", "development", "staging", "test", "testing", "local", "localhost"),
        *("prod", "stage", "127.0.0.1"),
        *("http", "https", "stdio", "json", "text", "utf-8"),
    }
)


def is_secret(name: str, value: str) -> bool:
    """Whether a setting is a secret: its name says so, or it looks like a key or a login."""
    return _has_secret_name(name) or is_random(value) or _URL_PASSWORD.search(value) is not None


def is_random(value: str) -> bool:
    """Whether a value looks made by chance: letters and digits in one long run, or a UUID."""
    found = _RANDOM.search(value) or _UUID.search(value)
    return found is not None and not value.startswith(_PATH_PREFIXES)


def is_ordinary(value: str, variables: Mapping[str, str]) -> bool:
    """Whether a value is one that gives nothing away, or that every server is given."""
    common = (variables.get(name) for name in _INHERITED_VARIABLES)
    return value.lower() in _ORDINARY_VALUES or value in common


def secrets_in_table(table: Mapping[str, str]) -> Iterator[str]:
    """The secrets among variables."""
    for name, value in table.items():
        if is_secret(name, value):
            yield value
            yield from _URL_PASSWORD.findall(value)


def secrets_in_headers(headers: Mapping[str, str]) -> Iterator[str]:
    """All that headers say, and what one says after the word "Bearer", as a server may repeat."""
    for value in headers.values():
        yield from (value, value.partition(" ")[2])


def secrets_in_arguments(arguments: Sequence[str]) -> Iterator[str]:
    """The secrets of a command line: what follows an option that says so, and what looks so."""
    for before, argument in pairwise(("", *arguments)):
        option, _, value = argument.rpartition("=")
        said = option or (before if before.startswith("-") else "")
        if is_secret(said, value) and not (argument.startswith("-") and not option):
            yield value


def secrets_in_url(url: str) -> Iterator[str]:
    """The secrets of an address: its login, what looks so in its path, and its query."""
    parts = urlsplit(url)
    yield parts.password or parts.username or ""
    yield from filter(is_random, parts.path.split("/"))
    yield parts.query
    yield from (value for name, value in parse_qsl(parts.query) if is_secret(name, value))


def _has_secret_name(name: str) -> bool:
    words = [word.lower() for word in _WORD.findall(name)]
    return any(word in _SECRET_WORDS or word.endswith(_SECRET_SUFFIXES) for word in words)
