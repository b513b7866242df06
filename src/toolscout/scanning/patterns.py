"""Regular expressions over folded text, in linear time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

from ..errors import ConfigError
from .findings import Span

# RE2 and not `re`: the text comes from servers, and a backtracking engine can take exponential
# time. It has no type hints: the members used here are declared by `_Regex` and `_Match`.
_re2: Any = import_module("re2")
_MAX_MEMORY_BYTES = 256 << 20
_MAX_USER_MEMORY_BYTES = 8 << 20
MAX_PATTERN_CHARS = 2_000
MAX_MATCHES = 20
_MAX_INSERTIONS = 6


class _Match(Protocol):
    def span(self) -> tuple[int, int]: ...


class _Regex(Protocol):
    def search(self, text: str) -> _Match | None: ...
    def finditer(self, text: str) -> Iterator[_Match]: ...


class TextPattern:
    """One compiled regular expression; `learned_from` is the family that taught it, if any."""

    def __init__(
        self, source: str, *, max_memory: int = _MAX_MEMORY_BYTES, learned_from: str = ""
    ) -> None:
        self.source = source
        self.learned_from = learned_from
        self._regex = cast("_Regex", _re2.compile(_with_any_space(source), _options(max_memory)))

    def is_in(self, text: str) -> bool:
        """Whether the pattern occurs in folded text."""
        return self._regex.search(text) is not None

    def find(self, text: str) -> Iterator[Span]:
        """The first places of the pattern in folded text."""
        for number, match in enumerate(self._regex.finditer(text)):
            if number >= MAX_MATCHES:
                return
            yield Span(*match.span())


class PatternFilter:
    """Tells in one pass which of many patterns occur in a text."""

    def __init__(self, patterns: Sequence[TextPattern]) -> None:
        self._patterns = tuple(patterns)
        self._filter: Any = _re2.Filter()
        for pattern in self._patterns:
            self._filter.Add(_with_any_space(pattern.source), _options(_MAX_MEMORY_BYTES))
        self._filter.Compile()

    def find(self, text: str) -> frozenset[TextPattern]:
        """The patterns that occur in folded text."""
        found = cast("list[int]", self._filter.Match(text) or [])
        return frozenset(self._patterns[index] for index in found)


def _with_any_space(source: str) -> str:
    # Any white space may stand where the pattern has a space.
    return source.replace(" ", r"\s")


def _options(max_memory: int) -> Any:
    options: Any = _re2.Options()
    options.max_mem = max_memory
    options.log_errors = False
    return options


def insert_fragments(pattern: str, fragments: Mapping[str, str]) -> str:
    """A pattern with `%name%` replaced by the fragment of that name, also inside fragments."""
    for _ in range(_MAX_INSERTIONS):
        before = pattern
        for name, text in fragments.items():
            pattern = pattern.replace(f"%{name}%", text)
        if pattern == before:
            break
    return pattern


def compile_pattern(
    rule: str, pattern: str, *, is_own: bool, learned_from: str = ""
) -> TextPattern:
    """Compile the pattern of a rule; one of a user is limited in size."""
    if not is_own and len(pattern) > MAX_PATTERN_CHARS:
        raise ConfigError(
            f"A pattern of the scan rule {rule!r} is longer than {MAX_PATTERN_CHARS} characters.",
            hint="Split it into several patterns.",
        )
    memory = _MAX_MEMORY_BYTES if is_own else _MAX_USER_MEMORY_BYTES
    try:
        return TextPattern(pattern, max_memory=memory, learned_from=learned_from)
    except _re2.error as error:
        message = error.args[0] if error.args else error
        if isinstance(message, bytes):
            message = message.decode(errors="replace")
        raise ConfigError(
            f"A pattern of the scan rule {rule!r} is not a regular expression: {message}.",
            hint="The syntax is that of RE2, without look-around and back-references.",
        ) from error
