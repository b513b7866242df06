"""Regular expressions from models and users: linear in time, limited in size, never silent."""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, Protocol, cast

from ..errors import QueryError

MAX_PATTERN_CHARS = 200
MAX_PROGRAM_SIZE = 4_000
_MAX_MEMORY_BYTES = 8 << 20
_BLOCK_BYTES = 256 << 10

# RE2 brings no types: its few members used here are declared by `_Machine`.
_re2: Any = import_module("re2")

_TOKEN = re.compile(
    r"""\\Q.*?(?:\\E|\Z) | \\. | \[\^?\]?(?:\\.|\[:\w*:\]|[^\]\\])*\] | \(\?[A-Za-z-]+[:)] | .""",
    re.DOTALL | re.VERBOSE,
)
_WHOLE = re.compile(r"^(missing \)|unexpected \)): .*", re.DOTALL)
_ANCHORS = {r"\A": "^", r"\z": "$", r"\Z": "$"}

_HINTS = (
    ("repetition operator", r"Put a backslash before a sign that stands for itself, as in \+."),
    ("repetition size", "Use a smaller count, or * for any number."),
    ("invalid perl operator: (?=", "Look-around is not available: give the words that must occur."),
    ("invalid perl operator: (?!", "Look-around is not available: exclude words with -word."),
    ("invalid perl operator: (?<", "Look-around is not available: give the words that must occur."),
    ("missing )", r"Close the group with ), or write \( for the sign itself."),
    ("unexpected )", r"Open the group with (, or write \) for the sign itself."),
    ("missing ]", r"Close the set with ], or write \[ for the sign itself."),
    ("invalid escape sequence", r"Back-references are not available; \\ stands for a backslash."),
    ("trailing \\", r"Write \\ for a backslash."),
    ("too large", "Use smaller counts and fewer Unicode classes."),
)
_ADVICE = "Mend the pattern, or ask in plain words."

# What a person would not type by chance in a single word: wildcards, alternatives, an anchor
# before a word, a class with a count, a flag group.
_LOOKS = re.compile(
    r"""\.[*+] | [\w)\]*+?]\|[\w(\[^.\\] | ^\^\w | \\[wdsWDS][*+?{] | ^\\b\w | \][*+?{]""",
    re.VERBOSE,
)
_FLAGGED = re.compile(r"\(\?[is]+\)\S")


class _Re2Match(Protocol):
    def start(self) -> int: ...
    def group(self) -> bytes: ...


class _Re2Regex(Protocol):
    programsize: int

    def search(self, text: bytes, pos: int = 0) -> _Re2Match | None: ...


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression that looks at each field of a tool as one line, whatever its case."""

    source: str
    regex: _Re2Regex

    @classmethod
    def of(cls, source: str) -> Pattern:
        """Read a pattern, or raise QueryError that says where it fails and what to write."""
        if not source:
            raise QueryError("The pattern is empty", hint="Write what to look for, as in /mail/.")
        if len(source) > MAX_PATTERN_CHARS:
            raise QueryError(
                f"The pattern has {len(source)} characters; at most {MAX_PATTERN_CHARS} are read",
                position=MAX_PATTERN_CHARS,
                hint="Shorten it, or ask in plain words.",
            )
        if (cause := _compile_error(source)) is not None:
            raise QueryError(
                f"Invalid regex pattern: {cause}",
                position=_error_position(source, cause),
                hint=next((hint for start, hint in _HINTS if start in cause), _ADVICE),
            )
        return cls(source, _compile(source))

    def find(self, text: str) -> str | None:
        """What the pattern matches first in one field."""
        match = self.regex.search(_encode_line(text))
        return None if match is None else match.group().decode(errors="replace")


@dataclass(frozen=True, slots=True)
class _TextBlock:
    """A run of tools as one text, a line a field, and where each tool begins."""

    first: int
    text: bytes
    starts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Haystack:
    """The fields of many tools joined, so that a pattern reads them in one pass."""

    blocks: tuple[_TextBlock, ...]

    @classmethod
    def of(cls, tools: Iterable[tuple[str, ...]]) -> Haystack:
        """Join the fields (a name, a description) of each tool."""
        return cls(tuple(_make_blocks(tools)))

    def find_matches(
        self,
        pattern: Pattern,
        *,
        limit: int | None = None,
        budget_seconds: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> list[int]:
        """Which tools have a field with a match, in their order.

        RE2 needs no more than time linear in the text, but a pattern like `a.{150}b` makes that
        slow over a large catalog, so the work is bounded as well.
        """
        found: list[int] = []
        deadline = clock() + budget_seconds
        for block in self.blocks:
            found += _search_block(pattern.regex, block)
            if limit is not None and len(found) >= limit:
                return found[:limit]
            if clock() > deadline:
                raise QueryError(
                    "The pattern takes too long over so many tools",
                    hint="Avoid counts such as .{100}, or narrow it with server:name.",
                )
        return found


def looks_like_pattern(text: str) -> bool:
    """Whether text with no operator around it was surely meant as a pattern, and is one."""
    if len(text) > MAX_PATTERN_CHARS:
        return False
    if _FLAGGED.match(text) is None and (_LOOKS.search(text) is None or len(text.split()) != 1):
        return False
    return _compile_error(text) is None


def _make_blocks(tools: Iterable[tuple[str, ...]]) -> Iterator[_TextBlock]:
    first, size = 0, 0
    lines: list[bytes] = []
    starts: list[int] = []
    for index, fields in enumerate(tools):
        if size >= _BLOCK_BYTES:
            yield _TextBlock(first, b"".join(lines), (*starts, size))
            first, size, lines, starts = index, 0, [], []
        starts.append(size)
        for field in fields:
            line = _encode_line(field)
            size += len(line) + 1
            lines += (line, b"\n")
    if starts:
        yield _TextBlock(first, b"".join(lines), (*starts, size))


def _encode_line(text: str) -> bytes:
    return text.replace("\n", " ").encode(errors="replace")


def _search_block(machine: _Re2Regex, block: _TextBlock) -> Iterator[int]:
    position, end = 0, block.starts[-1]
    while position < end:
        match = machine.search(block.text, position)
        if match is None or match.start() >= end:
            return
        index = bisect_right(block.starts, match.start()) - 1
        yield block.first + index
        position = block.starts[index + 1]


@lru_cache(maxsize=256)
def _compile_error(source: str) -> str | None:
    """Why a pattern cannot be used, in RE2's words, or nothing."""
    return _try_compile(source)


def _try_compile(source: str) -> str | None:
    try:
        machine = _compile(source)
    except UnicodeEncodeError:
        return "not valid Unicode text"
    except _re2.error as error:
        cause = str(error.args[0], "utf-8", "replace")
        return _WHOLE.sub(r"\1", cause)
    return None if machine.programsize <= MAX_PROGRAM_SIZE else "pattern too large"


def _compile(source: str) -> _Re2Regex:
    options = _re2.Options()
    options.case_sensitive = False
    options.never_nl = True
    options.never_capture = True
    options.log_errors = False
    options.max_mem = _MAX_MEMORY_BYTES
    return cast("_Re2Regex", _re2.compile(f"(?m){_translate_anchors(source)}", options))


def _translate_anchors(source: str) -> str:
    """Anchors of the whole text become anchors of a line, which is what a field is."""
    return _TOKEN.sub(lambda match: _translate_token(match.group()), source)


def _translate_token(part: str) -> str:
    if part in _ANCHORS:
        return _ANCHORS[part]
    if not part.startswith("(?"):
        return part
    on, _, off = part[2:-1].replace("m", "").partition("-")
    flags = f"{on}-{off}" if off else on
    return f"(?{flags}{part[-1]}" if flags or part[-1] == ":" else "(?:)"


def _error_position(source: str, cause: str) -> int:
    """The index of what RE2 stumbled over; it names the fragment but not the place."""
    kind, _, fragment = cause.partition(": ")
    if kind == "missing )":
        return _open_group_position(source)
    if kind == "missing ]":
        return max(0, len(source) - len(fragment))
    if not fragment and kind != "unexpected )":
        return len(source) - 1 if kind.startswith("trailing") else 0
    lengths = (n for n in range(1, len(source) + 1) if _try_compile(source[:n]) == cause)
    length = next(lengths, len(source))
    return max(0, source.rfind(fragment or ")", 0, length))


def _open_group_position(source: str) -> int:
    """Where the innermost group that never ends begins."""
    opened: list[int] = []
    for match in _TOKEN.finditer(source):
        part = match.group()
        if part.startswith("(") and not (part.startswith("(?") and part.endswith(")")):
            opened.append(match.start())
        elif part.startswith(")") and opened:
            opened.pop()
    return opened[-1] if opened else 0
