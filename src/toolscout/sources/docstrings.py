"""Parse docstrings into prose and parameter descriptions: Google, NumPy and Sphinx style."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field

_SECTION = re.compile(
    r"(?P<title>Args?|Arguments?|Param(?:eter)?s?|(?:Keyword|Other) (?:Args?|Arguments?|Parameters)"
    r"|Attributes|Returns?|Yields?|Raises|Warns?|Warnings?|Examples?|Notes?|References|See Also"
    r"|Todo)(?P<colon>:?)",
    re.IGNORECASE,
)
# The beginnings of section titles that describe parameters; other sections are dropped.
_PARAMETER_SECTIONS = ("arg", "param", "keyword", "other", "attributes")
_UNDERLINE = re.compile(r"-{3,}|={3,}")
_PARAMETER_KINDS = frozenset({"param", "parameter", "arg", "argument", "key", "keyword"})
_OTHER_KINDS = (
    "type|returns?|rtype|yields?|ytype|raises?|except|exception|i?var|cvar|vartype|meta|kwtype"
    "|kwarg|kwparam"
)
# A Sphinx field, `:param str name: text`. A role in the text, `:class:`Tool``, is not one.
_FIELD = re.compile(
    rf":(?P<kind>{'|'.join(sorted(_PARAMETER_KINDS))}|{_OTHER_KINDS})\b"
    r"(?P<words>[^:`]*):(?!`)(?P<text>.*)"
)
_ENTRY = re.compile(r"\*{0,2}(?P<name>\w+)\s*(?:\(.*?\))?\s*:\s*(?P<text>.*)")
_NUMPY_ENTRY = re.compile(r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?")


@dataclass(frozen=True, slots=True)
class Docstring:
    """The prose of a docstring, and the description of each parameter."""

    text: str = ""
    parameters: dict[str, str] = field(default_factory=dict[str, str])


def parse_docstring(docstring: str | None) -> Docstring:
    """Parse a docstring; text in no known form stays prose."""
    parser = _DocstringParser()
    lines = inspect.cleandoc(docstring or "").split("\n")
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        parser.add_line(line, following.strip())
    return parser.finish()


class _DocstringParser:
    """Parses line by line, and keeps track of the current section."""

    def __init__(self) -> None:
        self._prose: list[str] = []
        self._descriptions: dict[str, list[str]] = {}
        # The text that the next line continues. In other sections, it is not used.
        self._current: list[str] = []
        self._style = "prose"
        self._indent: int | None = None
        self._has_parameters = False

    def finish(self) -> Docstring:
        described = {
            n: " ".join(" ".join(parts).split()) for n, parts in self._descriptions.items()
        }
        text = "\n".join(self._prose).strip()
        return Docstring(text, {name: words for name, words in described.items() if words})

    def add_line(self, line: str, following: str) -> None:
        bare = line.strip()
        indent = len(line) - len(line.lstrip())
        # NumPy underlines its section titles, so the title must be checked with the line after it.
        if self._try_section(bare, indent, following) or _UNDERLINE.fullmatch(bare):
            return
        if indent == 0 and (match := _FIELD.match(bare)):
            self._add_sphinx_field(match)
        elif self._style == "numpy":
            self._add_numpy_line(bare, indent)
        elif self._style == "prose" or (bare and indent == 0):
            self._style = "prose"
            self._prose.append(line)
        elif self._style == "google":
            self._add_google_line(bare, indent)
        elif bare:
            self._current.append(bare)

    def _try_section(self, bare: str, indent: int, following: str) -> bool:
        match = _SECTION.fullmatch(bare)
        if match is None or indent:
            return False
        is_numpy = _UNDERLINE.fullmatch(following) is not None
        if not is_numpy and not match["colon"]:
            return False
        self._style = "numpy" if is_numpy else "google"
        self._has_parameters = match["title"].lower().startswith(_PARAMETER_SECTIONS)
        self._current = []
        self._indent = None
        return True

    def _add_sphinx_field(self, match: re.Match[str]) -> None:
        self._style = "sphinx"
        words = match["words"].split()
        self._current = [match["text"]]
        if match["kind"] in _PARAMETER_KINDS and words:
            self._descriptions[words[-1].lstrip("*")] = self._current

    def _add_google_line(self, bare: str, indent: int) -> None:
        if self._indent is None and bare:
            self._indent = indent
        match = _ENTRY.fullmatch(bare) if indent == self._indent else None
        if match is not None and self._has_parameters:
            self._current = self._descriptions.setdefault(match["name"], [])
            bare = match["text"]
        self._current.append(bare)

    def _add_numpy_line(self, bare: str, indent: int) -> None:
        match = _NUMPY_ENTRY.fullmatch(bare) if indent == 0 else None
        if match is None or not self._has_parameters:
            self._current.append(bare)
            return
        self._current = []
        # `x, y : int` describes both.
        for name in match["names"].split(","):
            self._descriptions[name.strip().lstrip("*")] = self._current
