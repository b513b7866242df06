"""What a definition says about being deprecated, and about its replacement."""

from __future__ import annotations

import re

from .tool import Tool, normalise_name

# At the start of a sentence of the first line, in brackets there with what to use, in capitals, or
# as a statement: "List deprecated packages" says something else.
_MARK = re.compile(
    r"\A(?:[^\n]*[.!?])?\W{0,9}deprecated\b"
    r"(?=\W*(?:$|[.:,;!)\]-]|use\b|see\b|since\b|please\b|in favou?r\b))"
    r"|\A[^\n]*[(\[]deprecated(?=\W+(?:use|see|since|please|replaced by|in favou?r)\b)"
    r"|(?-i:\bDEPRECATED\b)|\bis (?:now )?deprecated\b",
    re.IGNORECASE,
)
# Words with the shape of a name, and others where a name is expected: "use the search tool".
_REPLACEMENT = re.compile(
    r"\b(?:use|see|by|to|of|prefer|or|with)\W+(?:(?:the|new|tool|function)\W+)*"
    r"([A-Za-z][\w./:-]*\w)"
    r"|\b([A-Za-z]\w*(?:[_./:-]\w+)+|(?-i:[a-z]\w*[A-Z]\w*))",
    re.IGNORECASE,
)


def is_deprecated(tool: Tool) -> bool:
    """Whether the name or the description of a tool says that it is deprecated."""
    words = normalise_name(tool.local_name).split("_")
    is_named = len(words) > 1 and "deprecated" in (words[0], words[-1])
    return is_named or _MARK.search(tool.description) is not None


def replacement_names(tool: Tool) -> list[str]:
    """The words of a description that may name the replacement of a deprecated tool, in order."""
    mark = _MARK.search(tool.description)
    text = tool.description[mark.end() if mark else 0 :]
    found = _REPLACEMENT.findall(text.replace('"', " ").replace("`", " "))
    return [expected or shaped for expected, shaped in found]
