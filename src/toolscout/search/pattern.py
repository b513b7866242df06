"""Regular expressions from models and users: linear time, limited size, precise errors."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, Protocol, cast

from ..errors import QueryError

# RE2 and not `re`: patterns come from models and clients, and a backtracking engine can take
# exponential time. RE2 takes linear time, but counted repetitions such as `(.{100}){100}` compile
# to large programs, so their size is limited too.
MAX_PATTERN_CHARS = 200
MAX_PROGRAM_SIZE = 4_000
_MAX_MEMORY_BYTES = 8 << 20
# How often the time budget is checked.
_TOOLS_PER_CHECK = 100

# RE2 has no type hints: the members used here are declared by `_Re2Regex` and `_Re2Match`.
_re2: Any = import_module("re2")

_TOKEN = re.compile(
    r"""\\Q.*?(?:\\E|\Z) | \\. | \[\^?\]?(?:\\.|\[:\w*:\]|[^\]\\])*\] | \(\?[A-Za-z-]+[:)] | .""",
    re.DOTALL | re.VERBOSE,
)
# These two messages quote the whole pattern, which does not help.
_WITH_WHOLE_PATTERN = re.compile(r"^(missing \)|unexpected \)): .*", re.DOTALL)
_ANCHORS = {r"\A": "^", r"\z": "$", r"\Z": "$"}

_HINTS = (
    ("repetition operator", r"Put a backslash before a literal character, as in \+."),
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
_ADVICE = "Fix the pattern, or search with plain words."

# Signs that are never typed by accident in a single word: wildcards, alternatives, an anchor before
# a word,
# a class with a repetition, a group of flags.
_PATTERN_SIGNS = re.compile(
    r"""\.[*+] | [\w)\]*+?]\|[\w(\[^.\\] | ^\^\w | \\[wdsWDS][*+?{] | ^\\b\w | \][*+?{]""",
    re.VERBOSE,
)
_FLAGGED = re.compile(r"\(\?[is]+\)\S")


class _Re2Match(Protocol):
    def group(self) -> bytes: ...


class _Re2Regex(Protocol):
    programsize: int

    def search(self, text: bytes) -> _Re2Match | None: ...


@dataclass(frozen=True, slots=True)
class Pattern:
    """A case-insensitive regular expression that sees each field of a tool as one line."""

    source: str
    regex: _Re2Regex

    @classmethod
    def of(cls, source: str) -> Pattern:
        """Compile a pattern; raises QueryError with the position and a hint if it is invalid."""
        if not source:
            raise QueryError("The pattern is empty", hint="Write what to look for, as in /mail/.")
        if len(source) > MAX_PATTERN_CHARS:
            raise QueryError(
                f"The pattern has {len(source)} characters; at most {MAX_PATTERN_CHARS} are "
                f"allowed",
                position=MAX_PATTERN_CHARS,
                hint="Shorten it, or search with plain words.",
            )
        if (cause := _compile_error(source)) is not None:
            raise QueryError(
                f"Invalid regex pattern: {cause}",
                position=_error_position(source, cause),
                hint=next((hint for start, hint in _HINTS if start in cause), _ADVICE),
            )
        return cls(source, _compile(source))

    def find(self, text: str) -> str | None:
        """The first match in one field, if any."""
        match = self.regex.search(_encode_line(text))
        return None if match is None else match.group().decode(errors="replace")

    def find_tools(
        self,
        tools: Iterable[tuple[str, ...]],
        *,
        budget_seconds: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> list[int]:
        """The tools with a match in any of their fields, by their position in the input."""
        # Linear time can still be slow: `a.{150}b` over a large catalog. So there is a budget.
        found: list[int] = []
        deadline = clock() + budget_seconds
        for place, fields in enumerate(tools):
            if self.regex.search(b"\n".join(map(_encode_line, fields))) is not None:
                found.append(place)
            if place % _TOOLS_PER_CHECK == 0 and clock() > deadline:
                raise QueryError(
                    "The pattern takes too long over so many tools",
                    hint="Avoid counts such as .{100}, or narrow it with server:name.",
                )
        return found


def looks_like_pattern(text: str) -> bool:
    """Whether a text without operators was certainly meant as a pattern, and is a valid one."""
    if len(text) > MAX_PATTERN_CHARS:
        return False
    has_signs = _PATTERN_SIGNS.search(text) is not None and len(text.split()) == 1
    if _FLAGGED.match(text) is None and not has_signs:
        return False
    return _compile_error(text) is None


def _encode_line(text: str) -> bytes:
    return text.replace("\n", " ").encode(errors="replace")


@lru_cache(maxsize=256)
def _compile_error(source: str) -> str | None:
    """RE2's message about an invalid pattern; None if it is valid."""
    try:
        regex = _compile(source)
    except UnicodeEncodeError:
        return "not valid Unicode text"
    except _re2.error as error:
        cause = str(error.args[0], "utf-8", "replace")
        return _WITH_WHOLE_PATTERN.sub(r"\1", cause)
    return None if regex.programsize <= MAX_PROGRAM_SIZE else "pattern too large"


def _compile(source: str) -> _Re2Regex:
    options = _re2.Options()
    options.case_sensitive = False
    options.never_nl = True  # no match across lines, that is across fields or tools
    options.never_capture = True
    options.log_errors = False
    options.max_mem = _MAX_MEMORY_BYTES
    return cast("_Re2Regex", _re2.compile(f"(?m){_TOKEN.sub(_translate_token, source)}", options))


def _translate_token(match: re.Match[str]) -> str:
    """Replace an anchor of the whole text by one of a line, since a field is a line."""
    part = match.group()
    if part in _ANCHORS:
        return _ANCHORS[part]
    if not part.startswith("(?"):
        return part
    # A group of flags: `m` is dropped, because the anchors rely on multi-line mode.
    on, _, off = part[2:-1].replace("m", "").partition("-")
    flags = f"{on}-{off}" if off else on
    return f"(?{flags}{part[-1]}" if flags or part[-1] == ":" else "(?:)"


def _error_position(source: str, cause: str) -> int:
    """The position of an error; RE2 reports the fragment but not its position."""
    kind, _, fragment = cause.partition(": ")
    if kind == "missing )":
        return _open_group_position(source)
    if kind == "missing ]":
        return max(0, len(source) - len(fragment))
    if not fragment and kind != "unexpected )":
        return len(source) - 1 if kind.startswith("trailing") else 0
    # The shortest prefix with the same error ends at the fragment. Prefixes are not worth caching.
    ends = (n for n in range(1, len(source) + 1) if _compile_error.__wrapped__(source[:n]) == cause)
    return max(0, source.rfind(fragment or ")", 0, next(ends, len(source))))


def _open_group_position(source: str) -> int:
    """The position of the innermost group that is not closed."""
    opened: list[int] = []
    for match in _TOKEN.finditer(source):
        part = match.group()
        if part.startswith("(") and not (part.startswith("(?") and part.endswith(")")):
            opened.append(match.start())
        elif part.startswith(")") and opened:
            opened.pop()
    return opened[-1] if opened else 0
