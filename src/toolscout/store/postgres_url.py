"""URLs of PostgreSQL databases: how to recognise, check and print them without their password."""

from __future__ import annotations

import re
from urllib.parse import unquote

from ..config import POSTGRES_SCHEME
from ..errors import ConfigError, require

EXTRA = "postgres"
_PASSWORD_PARAMETER = re.compile(r"[?&]password=([^&#]*)", re.IGNORECASE)
_HIDDEN = "***"


def is_postgres_url(text: str) -> bool:
    """Whether the `store` setting names a PostgreSQL database rather than a file."""
    return POSTGRES_SCHEME.match(text) is not None


def check_url(url: str) -> None:
    """Raise ConfigError for a URL that the driver cannot parse."""
    psycopg = require("psycopg", extra=EXTRA)
    conninfo = require("psycopg.conninfo", extra=EXTRA)
    try:
        ports = str(conninfo.conninfo_to_dict(url).get("port", ""))
    except psycopg.Error:
        ports = "unreadable"
    if not all(port.isdigit() for port in ports.split(",") if port):
        # The driver's own message may quote the password, so it is not passed on.
        raise ConfigError(
            f"The store {describe_url(url)} is not a valid PostgreSQL URL.",
            hint="Write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with special characters of"
            " the password percent-encoded (@ as %40, / as %2F).",
        ) from None


def describe_url(url: str) -> str:
    """The URL without password and parameters, for messages and logs."""
    rest = POSTGRES_SCHEME.sub("", url, count=1)
    # From the last @, because people forget to encode one in a password.
    userinfo, at, place = rest.rpartition("@")
    place = re.split(r"[?#]", place, maxsplit=1)[0]
    user = userinfo.partition(":")[0] if at else ""
    # A word where a port should be may be a password that lost its host.
    place = re.sub(r":(?!\d+(?:[,/]|$))[^,/]*", f":{_HIDDEN}", place)
    return f"postgresql://{user}{at}{place}"


def hide_password(text: str, url: str) -> str:
    """The text with every form of the password of a URL replaced."""
    for secret in _find_secrets(url):
        text = text.replace(secret, _HIDDEN)
    return text


def _find_secrets(url: str) -> list[str]:
    userinfo = POSTGRES_SCHEME.sub("", url, count=1).rpartition("@")[0]
    found = [userinfo.partition(":")[2], *_PASSWORD_PARAMETER.findall(url)]
    return sorted({form for raw in found if raw for form in (raw, unquote(raw))}, key=len)[::-1]
