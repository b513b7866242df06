"""Sanitise text from outside: remove hidden characters, cap lengths, encode compact JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import cast

# Characters. Text of a server ends up in prompts, so no single field may fill a context window.
NAME_CAP = 512
LINE_CAP = 2_000
SENTENCE_CAP = 200
TEXT_CAP = 20_000
# How many phrases a server or an overlay may add to a tool.
PHRASES_CAP = 50

# A model reads characters that a person cannot see, so they can hide instructions: controls but
# tab and newline; soft hyphen; grapheme joiner; Hangul, Khmer and Mongolian fillers;
# zero-width and bidi marks, embeddings, overrides, isolates; invisible operators; variation
# selectors; the byte-order mark; interlinear, hieroglyph, shorthand and musical format marks; tag
# characters; lone surrogates; non-characters. Joiners depend on the characters around them.
_HIDDEN_SET = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\ufffe\uffff\ud800-\udfff\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_HIDDEN = re.compile(f"[{_HIDDEN_SET}]")
_BREAKS = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_JOINERS = "\u200c\u200d"
# Scripts that write with joiners: Arabic to Sinhala, Tibetan and Myanmar, Khmer and Mongolian,
# the later Brahmi scripts. A word may end in a virama and a joiner. Emoji are joined as well.
_SCRIPT = "\u0600-\u0dff\u0f00-\u109f\u1780-\u18af\u1b00-\u1b7f\ua840-\ua8ff\U00011000-\U0001137f"
_VIRAMA = "\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca"
_EMOJI = "\u2190-\u2bff\u3030\u303d\U0001f000-\U0001faff"
_LOOSE_JOINER = re.compile(
    f"(?![{_JOINERS}](?<=[{_SCRIPT}].)(?=[{_SCRIPT}]))"
    f"(?!\u200d(?<=[{_VIRAMA}].))"
    f"(?!\u200d(?<=[{_EMOJI}].)(?=[{_EMOJI}]))"
    f"[{_JOINERS}]"
)
# A person must see more than a model, to whom these are ordinary characters: separators of lines,
# and the empty Braille pattern, note head and Khitan filler, which are blank. After a character
# that it can change, one variation selector only chooses its look.
_BLANK = "\u2800\U0001d159\U00016fe4"
_VARIED = f"#*0-9\u00a9\u00ae\u203c\u2049\u2122\u2139{_EMOJI}"
_UNSEEN = re.compile(
    f"(?![\ufe0e\ufe0f](?<=[{_VARIED}].)(?<!\u2800.))[{_HIDDEN_SET}\u2028\u2029{_BLANK}]"
    f"|{_LOOSE_JOINER.pattern}"
)

# Escaped backslashes and complete pairs match first, so that group 1 is always a lone surrogate.
_ESCAPED_HALF = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
# A sentence ends at punctuation before a space, at CJK punctuation, or at an empty line.
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|[。！？]|\n\s*\n")
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_ERROR = re.compile("error", re.IGNORECASE)
_EPILOGUE = re.compile(
    r"^Node\.js v\d|complete log of this run|^\s+at |^\s+For further information visit"
)
# A frame of a Python traceback. In that of an exception group, lines begin with a margin of bars.
_FRAME = re.compile(r'[\s|]*File ".*", line \d+')
_GROUP_MARGIN = re.compile(r"\s*[|+]")
_MARGIN = " \t|+-"
_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|incl|approx|no|fig|\w))\Z", re.IGNORECASE)


def replace_surrogates(text: str) -> str:
    """Text that UTF-8 can encode: surrogate pairs are joined, lone surrogates become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def replace_json_surrogates(text: str) -> str:
    """The same for JSON text, where a surrogate may also be written as an escape."""
    text = replace_surrogates(text)
    if r"\ud" not in text and r"\uD" not in text:
        return text
    return _ESCAPED_HALF.sub(lambda m: r"\ufffd" if m[1] else m[0], text)


def strip_hidden(text: str) -> str:
    """Remove characters that a reader cannot see; joiners stay where a script needs them."""
    if text.isascii() and text.replace("\n", " ").isprintable():
        return text
    text = _HIDDEN.sub("", _BREAKS.sub("\n", text))
    return text if text.isascii() else _LOOSE_JOINER.sub("", text)


def clean(text: str, *, cap: int = TEXT_CAP) -> str:
    """Remove hidden characters and outer whitespace, and truncate at the cap."""
    text = strip_hidden(text).strip()
    return text if len(text) <= cap else _truncate(text, cap)


def clean_line(text: str, *, cap: int = LINE_CAP) -> str:
    """The same, with all whitespace collapsed to one line."""
    text = " ".join(strip_hidden(text).split())
    return text if len(text) <= cap else _truncate(text, cap)


def reveal_hidden(text: str) -> str:
    """Text for a person, with hidden characters as codes such as `<U+001B>`; lines stay lines."""
    # Shown, not removed: a reader should see an attempt to send terminal commands.
    if text.isascii() and text.replace("\n", " ").isprintable():
        return text
    return _UNSEEN.sub(lambda match: show_code(match[0]), text)


def reveal_line(text: str) -> str:
    """The same as one line: tabs and line breaks become codes too."""
    return reveal_hidden(text).replace("\t", show_code("\t")).replace("\n", show_code("\n"))


def escape_hidden(text: str, *, cap: int = LINE_CAP) -> str:
    """One line for a log, with all whitespace collapsed and hidden characters as codes."""
    text = reveal_hidden(" ".join(_BREAKS.sub("\n", text).split()))
    return text if len(text) <= cap else _truncate(text, cap)


def show_code(character: str) -> str:
    """A character as its code point, such as `<U+001B>`."""
    return f"<U+{ord(character):04X}>"


def escape_json(text: str) -> str:
    """JSON text with the same value, in which hidden characters are escaped as JSON does it."""
    return text if text.isascii() else _UNSEEN.sub(_escape_in_json, text)


def _escape_in_json(match: re.Match[str]) -> str:
    # No reader of JSON takes half of a character, not even as an escape.
    is_half = "\ud800" <= match[0] <= "\udfff"
    return match[0] if is_half else json.dumps(match[0])[1:-1]


def strip_colours(text: str) -> str:
    """Text without the escape sequences that colour it on a terminal."""
    return _COLOUR.sub("", text)


def error_line(output: str) -> str:
    """The line of a program's error output that explains best why it ended, or its last one."""
    lines = [line for line in strip_colours(output).splitlines() if line.strip(_MARGIN)]
    # Node ends with its version, and npm with the path of a log.
    telling = [line for line in _after_traceback(lines) if not _EPILOGUE.search(line)]
    errors = [line for line in telling if _ERROR.search(line)]
    best = (errors or telling or lines or [""])[-1]
    return escape_hidden(best.lstrip(_MARGIN) if _GROUP_MARGIN.match(best) else best)


def _after_traceback(lines: Sequence[str]) -> Sequence[str]:
    """The lines from the exception of the last Python traceback on; all without a traceback."""
    frames = [number for number, line in enumerate(lines) if _FRAME.match(line)]
    if not frames:
        return lines
    # The exception stands further left than the frames and their source lines.
    margin = len(lines[frames[-1]].partition("File")[0])
    for number in range(frames[-1] + 1, len(lines)):
        text = lines[number]
        if len(text) - len(text.lstrip(_MARGIN)) < margin:
            return lines[number:]
    return ()


def first_sentence(text: str, *, cap: int = SENTENCE_CAP) -> str:
    """The first sentence, on one line; an abbreviation does not end it."""
    for match in _SENTENCE_END.finditer(text):
        head = text[: match.start()]
        if match.group().isspace():
            return clean_line(head, cap=cap)
        if not (match.group() == "." and _ABBREVIATION.search(head)):
            return clean_line(text[: match.end()], cap=cap)
    return clean_line(text, cap=cap)


def _truncate(text: str, cap: int) -> str:
    return text[: max(cap - 1, 0)].rstrip().rstrip(_JOINERS) + "…"[:cap]


NESTING_CAP = 200
# What could be a hidden character in encoded JSON; without a match there is nothing to clean.
_SUSPECT = re.compile(r"\\[ubfr]|[^\x00-\x7e]")
_PROSE = frozenset({"description", "title", "$comment"})
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class JSONEncodeError(Exception):
    """A value that cannot be encoded as JSON; `remedy` says what to do."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


def encode_json(value: object) -> str:
    """Encode a value as compact JSON, with all strings in it cleaned."""
    text = _dump(value)
    # Fewer brackets than this cannot be nested too deeply.
    if text.count("{") + text.count("[") > NESTING_CAP:
        _check_nesting(text)
    if len(text) > TEXT_CAP or _SUSPECT.search(text):
        text = _dump(_clean_value(json.loads(text)))
    return text


def compact_json(value: object, *, sort_keys: bool = False) -> str:
    """Encode a value as compact JSON, neither checked nor cleaned."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)


def decode_json(text: str) -> object:
    """Decode JSON text that a model wrote, with lone surrogates replaced.

    Raises ValueError for NaN and infinite numbers: JSON has neither, and no tool accepts them.
    """
    return json.loads(
        replace_json_surrogates(text), parse_constant=_parse_finite, parse_float=_parse_finite
    )


def _parse_finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a number in JSON")
    return value


def _dump(value: object) -> str:
    try:
        return _encode(value)
    except (ValueError, TypeError) as error:
        raise JSONEncodeError(
            f"is not plain JSON: {error}", "Remove cycles, NaN and objects JSON does not know."
        ) from error
    except RecursionError as error:
        raise _depth_error() from error


def _depth_error() -> JSONEncodeError:
    return JSONEncodeError(
        f"is nested more than {NESTING_CAP} levels deep", "Use $ref for parts that repeat."
    )


def _check_nesting(text: str) -> None:
    """Refuse nesting that would overflow the stack of a program that reads it later."""
    try:
        level: list[object] = [json.loads(text)]
    except RecursionError as error:
        raise _depth_error() from error
    for _ in range(NESTING_CAP):
        level = [child for node in level for child in _children(node)]
        if not level:
            return
    raise _depth_error()


def _children(node: object) -> Iterable[object]:
    if isinstance(node, dict):
        return cast("dict[str, object]", node).values()
    return cast("list[object]", node) if isinstance(node, list) else ()


def _clean_value(value: object, key: str = "") -> object:
    """Remove hidden characters everywhere, and cap descriptions and titles."""
    if isinstance(value, str):
        is_long = key in _PROSE and len(value) > TEXT_CAP
        return clean(value) if is_long else strip_hidden(value)
    if isinstance(value, list):
        return [_clean_value(item) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value).items()
        return {strip_hidden(name): _clean_value(item, name) for name, item in pairs}
    return value
