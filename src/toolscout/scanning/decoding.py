"""Text inside text: what base64, hexadecimal, escapes and other encodings in a string say.

Every decoder yields the place of what it decoded. Only text that reads as text is yielded.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from .findings import Span

_MIN_DECODED_CHARS = 8
_PRINTABLE_SHARE = 0.9
_BASE64_LETTER = r"(?:[A-Za-z0-9+/_-]|%(?:2[BbFf]|3[Dd]))"
_BASE64 = re.compile(rf"{_BASE64_LETTER}{{16,}}+(?:\s{_BASE64_LETTER}{{16,}}+)*+={{0,2}}")
_BASE32 = re.compile(r"\b[A-Z2-7]{24,}={0,6}")
_HEX = re.compile(r"(?:(?:\\x|0x|%|\b)?[0-9a-fA-F]{2}[\s,:;-]?){10,}")
_PERCENT = re.compile(r"(?:[^\s%]{0,24}%[0-9a-fA-F]{2}){4,}[^\s%]*")
_ESCAPES = re.compile(
    r"(?:\\u\{?[0-9a-fA-F]{4,6}\}?|\\x[0-9a-fA-F]{2}|\\[0-7]{3})"
    r"(?:.{0,12}?(?:\\u\{?[0-9a-fA-F]{4,6}\}?|\\x[0-9a-fA-F]{2}|\\[0-7]{3})){3,}"
)
_ENTITIES = re.compile(r"(?:&#(?:x[0-9a-fA-F]+|\d+);|&[a-z]{2,8};)(?:.{0,12}?&#?\w{1,8};){3,}")
_CODES = re.compile(r"\b(?:1?\d{2}[\s,;]+){9,}1?\d{2}\b")
_BINARY = re.compile(r"\b(?:[01]{8}[\s,]*){6,}")
_SPACED = re.compile(r"(?<![^\W_])[^\W\d_](?:[ .\-_*|]{1,3}[^\W\d_]){9,}(?![^\W_])")
_MORSE = re.compile(r"(?:[.\-·−]{1,6}[ /|]+){10,}[.\-·−]{1,6}")
_TAGS = re.compile("[\U000e0020-\U000e007e]{2,}")
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{4,}")
_ZERO_WIDTH = re.compile("[\u200b\u200c\u200d\u2060\u2062\u2063\u2064\ufeff]{8,}")
_LEET_WORD = re.compile(r"\b(?=\w*[a-zA-Z])(?=\w*[013457@$])[\w@$]{2,}")
_LEET = (str.maketrans("013457@$", "oieastas"), str.maketrans("013457@$", "oleastas"))
_ESCAPE = re.compile(r"\\u\{?([0-9a-fA-F]{4,6})\}?|\\x([0-9a-fA-F]{2})|\\([0-7]{3})")
_MORSE_CODES = """
.- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..-
-.-- --.. ----- .---- ..--- ...-- ....- ..... -.... --... ---.. ----.
"""
_MORSE_LETTERS: dict[str, str] = dict(
    zip(_MORSE_CODES.split(), "abcdefghijklmnopqrstuvwxyz0123456789", strict=True)
)


@dataclass(frozen=True, slots=True)
class DecodedText:
    """What an encoded part of a string says."""

    layer: str
    text: str
    span: Span


def decode_parts(text: str) -> Iterator[DecodedText]:
    """The parts of a string that are encoded text, and other readings of the whole string."""
    for layer, pattern, decode in _DECODERS:
        for match in pattern.finditer(text):
            decoded = decode(match[0])
            if decoded and _reads_as_text(decoded):
                yield DecodedText(layer, decoded, Span(*match.span()))


def read_backwards(text: str) -> Iterator[DecodedText]:
    """A whole string with its letters rotated by 13, and backwards."""
    whole = Span(0, len(text))
    yield DecodedText("rot13", codecs.encode(text, "rot13"), whole)
    yield DecodedText("reversed", text[::-1], whole)


def read_digits(text: str) -> Iterator[DecodedText]:
    """A whole string with digits in words taken for letters, if there are any."""
    if _LEET_WORD.search(text):
        for table in _LEET:
            plain = _LEET_WORD.sub(lambda match, t=table: match[0].translate(t), text)
            yield DecodedText("leet", plain, Span(0, len(text)))


def _reads_as_text(text: str) -> bool:
    stripped = text.strip("\x00")
    if len(stripped) < _MIN_DECODED_CHARS:
        return False
    good = sum(c.isprintable() or c in "\n\t\r" for c in stripped)
    letters = sum(c.isalpha() or c == " " for c in stripped)
    return good >= _PRINTABLE_SHARE * len(stripped) and letters >= len(stripped) / 2


def _from_bytes(data: bytes) -> str:
    for encoding in ("utf-8", "utf-16-le"):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        # Any bytes are Chinese in UTF-16, so there only ASCII counts.
        if _reads_as_text(text) and (encoding == "utf-8" or text.isascii()):
            return text
    return ""


def _base64(text: str) -> str:
    bare = "".join(unquote(text).split()).rstrip("=").replace("-", "+").replace("_", "/")
    # A word or a path is base64 too, but decodes to nothing readable.
    bare = bare[: len(bare) - 1] if len(bare) % 4 == 1 else bare
    try:
        data = base64.b64decode(bare + "=" * (-len(bare) % 4))
    except (binascii.Error, ValueError):
        return ""
    return _from_bytes(data)


def _base32(text: str) -> str:
    bare = text.rstrip("=")
    try:
        return _from_bytes(base64.b32decode(bare + "=" * (-len(bare) % 8)))
    except (binascii.Error, ValueError):
        return ""


def _hex(text: str) -> str:
    digits = re.sub(r"\\x|0x|[^0-9a-fA-F]", "", text)
    return _from_bytes(bytes.fromhex(digits[: len(digits) // 2 * 2]))


def _escapes(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = int(match[1] or match[2], 16) if match[1] or match[2] else int(match[3], 8)
        return chr(code) if code <= 0x10FFFF else ""

    return _ESCAPE.sub(character, text)


def _codes(text: str) -> str:
    numbers = [int(n) for n in re.findall(r"\d+", text)]
    return "".join(map(chr, numbers)) if all(9 <= n <= 126 for n in numbers) else ""


def _binary(text: str) -> str:
    bits = re.findall(r"[01]{8}", text)
    return _from_bytes(bytes(int(b, 2) for b in bits))


def _spaced(text: str) -> str:
    # Wider gaps separate the words.
    return re.sub(r"(?<=\w)[ .\-_*|](?=\w)", "", text)


def _morse(text: str) -> str:
    plain = text.replace("·", ".").replace("−", "-")
    words = re.split(r"\s*[/|]\s*|\s{3,}", plain)
    return " ".join("".join(_MORSE_LETTERS.get(c, "?") for c in word.split()) for word in words)


def _tags(text: str) -> str:
    return "".join(chr(ord(c) - 0xE0000) for c in text)


def _selectors(text: str) -> str:
    values = [ord(c) - 0xFE00 if c <= "\ufe0f" else ord(c) - 0xE0100 + 16 for c in text]
    return _from_bytes(bytes(values))


def _zero_width(text: str) -> str:
    """Zero-width characters as the digits of bytes, whichever of the two commonest is one."""
    kinds = sorted(set(text))
    if len(kinds) < 2:
        return ""
    for zero, one in ((kinds[0], kinds[1]), (kinds[1], kinds[0])):
        bits = "".join("0" if c == zero else "1" for c in text if c in (zero, one))
        data = bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits) // 8 * 8, 8))
        decoded = _from_bytes(data)
        if decoded:
            return decoded
    return ""


_Decoder = tuple[str, re.Pattern[str], Callable[[str], str]]
_DECODERS: tuple[_Decoder, ...] = (
    ("tag characters", _TAGS, _tags),
    ("variation selectors", _SELECTORS, _selectors),
    ("zero-width bits", _ZERO_WIDTH, _zero_width),
    ("base64", _BASE64, _base64),
    ("base32", _BASE32, _base32),
    ("hex", _HEX, _hex),
    ("percent", _PERCENT, unquote),
    ("escapes", _ESCAPES, _escapes),
    ("entities", _ENTITIES, html.unescape),
    ("character codes", _CODES, _codes),
    ("binary", _BINARY, _binary),
    ("spaced letters", _SPACED, _spaced),
    ("morse", _MORSE, _morse),
)
