"""Find the secrets in a server's configuration, so that they can be redacted from messages."""

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
# Sixteen letters and digits in one run, with both among them: long enough that words and version
# numbers do not match, short enough for most API keys.
_RANDOM = re.compile(r"(?=[A-Za-z0-9]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{16,}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_URL_PASSWORD = re.compile(r"://[^/\s:@]*:([^@\s]+)@")
# The variables that the MCP SDK passes to every server. Repeated here, because importing the SDK
# takes a second.
_INHERITED_VARIABLES = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
_PATH_PREFIXES = ("/", "~", ".")
# Values that reveal nothing, but occur in settings and in messages: redacting them would make
# messages unreadable.
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
    """Whether a setting is a secret: by its name, or because it looks like a key or a login."""
    return _has_secret_name(name) or is_random(value) or _URL_PASSWORD.search(value) is not None


def is_random(value: str) -> bool:
    """Whether a value looks random: letters and digits in one long run, or a UUID."""
    match = _RANDOM.search(value) or _UUID.search(value)
    return match is not None and not value.startswith(_PATH_PREFIXES)


def is_ordinary(value: str, variables: Mapping[str, str]) -> bool:
    """Whether a value reveals nothing, or every server gets it anyway."""
    common = (variables.get(name) for name in _INHERITED_VARIABLES)
    return value.lower() in _ORDINARY_VALUES or value in common


def secrets_in_table(table: Mapping[str, str]) -> Iterator[str]:
    """The secrets among environment variables."""
    for name, value in table.items():
        if is_secret(name, value):
            yield value
            yield from _URL_PASSWORD.findall(value)


def secrets_in_headers(headers: Mapping[str, str]) -> Iterator[str]:
    """All header values; of `Bearer TOKEN` also the token alone, as a server may repeat it."""
    for value in headers.values():
        yield from (value, value.partition(" ")[2])


def secrets_in_arguments(arguments: Sequence[str]) -> Iterator[str]:
    """The secrets of a command line: values of secret options, and values that look random."""
    for before, argument in pairwise(("", *arguments)):
        option, _, value = argument.rpartition("=")
        name = option or (before if before.startswith("-") else "")
        # An option without `=` is a name itself, regardless of the option before it.
        if is_secret(name, value) and not (argument.startswith("-") and not option):
            yield value


def secrets_in_url(url: str) -> Iterator[str]:
    """The secrets of a URL: its login, random parts of its path, and its query."""
    parts = urlsplit(url)
    yield parts.password or parts.username or ""
    yield from filter(is_random, parts.path.split("/"))
    yield parts.query
    yield from (value for name, value in parse_qsl(parts.query) if is_secret(name, value))


def _has_secret_name(name: str) -> bool:
    words = [word.lower() for word in _WORD.findall(name)]
    return any(word in _SECRET_WORDS or word.endswith(_SECRET_SUFFIXES) for word in words)
