"""Redact secrets in texts, also in the encodings in which programs quote them."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import quote, quote_plus, unquote

_DOTS = "•••"
# Redacting shorter secrets would hide ordinary text.
_MIN_SECRET_CHARS = 4
_MIN_BASE64_CHARS = 6
_HEX = re.compile(r"%[0-9A-F]{2}")
# What encodeURIComponent() and encodeURI() of JavaScript leave alone.
_COMPONENT_SAFE = "!'()*"
_URI_SAFE = _COMPONENT_SAFE + ";/?:@&=+$,#"


def redact_secrets(text: str, secrets: tuple[str, ...]) -> str:
    """The text with every secret replaced by dots, whatever its form."""
    for form in _all_forms(secrets):
        text = text.replace(form, _DOTS)
    return text


@lru_cache(maxsize=1024)
def _all_forms(secrets: tuple[str, ...]) -> tuple[str, ...]:
    forms: set[str] = set()
    for secret in secrets:
        # A part of a URL is configured in its encoded form, and may be quoted in the decoded one.
        for plain in _long_enough(secret, unquote(secret)):
            forms.update(_base64_forms(plain), _written_forms(plain))
        # A secret of several lines, such as a private key, may be quoted in part.
        for line in _long_enough(*secret.splitlines()):
            forms.update(_written_forms(line))
    # Longest first: one secret may be part of another.
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def _long_enough(*texts: str) -> Iterator[str]:
    return (text for text in texts if len(text) >= _MIN_SECRET_CHARS)


def _written_forms(secret: str) -> Iterator[str]:
    yield secret
    yield from _escaped_forms(secret)
    yield from _percent_forms(secret)
    yield from _html_forms(secret)


def _escaped_forms(secret: str) -> Iterator[str]:
    """As JSON and Python write it between quotation marks."""
    for is_ascii in (True, False):
        text = json.dumps(secret, ensure_ascii=is_ascii)[1:-1]
        yield from (text, text.replace("/", "\\/"))
    for text in (repr(secret)[1:-1], ascii(secret)[1:-1], repr(_encode(secret))[2:-1]):
        yield text
        # Which quotation marks are escaped depends on the text around the secret.
        bare = text.replace("\\'", "'")
        yield from (bare, bare.replace("'", "\\'"))


def _percent_forms(secret: str) -> Iterator[str]:
    data = _encode(secret)
    texts = [quote(data, safe=safe) for safe in ("", "/", _COMPONENT_SAFE, _URI_SAFE)]
    for text in (*texts, quote_plus(data)):
        yield from (text, _HEX.sub(lambda match: match[0].lower(), text))


def _html_forms(secret: str) -> Iterator[str]:
    yield html.escape(secret, quote=False)
    text = html.escape(secret)
    yield from (text, text.replace("&#x27;", "'"))
    for apostrophe in ("&#39;", "&apos;"):
        other = text.replace("&#x27;", apostrophe)
        yield from (other, other.replace("&quot;", "&#34;"))


def _base64_forms(secret: str) -> Iterator[str]:
    """In base64, alone or inside of something longer, such as `user:password`."""
    data = _encode(secret)
    for offset in range(3):
        # Three bytes are four characters. The first characters depend on the bytes before, the
        # last one on the bytes after, unless the secret is the end.
        start = (offset * 8 + 5) // 6
        end = (offset + len(data)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            text = encode(bytes(offset) + data).decode()
            for form in (text[start:], text[start:].rstrip("="), text[start:end]):
                if len(form) >= _MIN_BASE64_CHARS:
                    yield form


def _encode(secret: str) -> bytes:
    return secret.encode(errors="surrogatepass")
