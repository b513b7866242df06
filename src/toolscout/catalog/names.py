"""Names that are unique, readable and the same every time."""

from __future__ import annotations

import hashlib
import re

SEPARATOR = "__"
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_JOINTS = re.compile(r"[\s_\-./:~]+")


def digest(*parts: str, length: int = 8) -> str:
    """A short stable hash that tells two names apart."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:length]


def qualified(server: str, tool: str) -> str:
    """`server__tool`, unless the name already says so."""
    if not server or tool.startswith(f"{server}{SEPARATOR}"):
        return tool
    return f"{server}{SEPARATOR}{tool}"


def wire_name(name: str, *, limit: int = 64) -> str:
    """A name every provider accepts; one that had to change carries a hash of the original."""
    safe = _UNSAFE.sub("_", name) or "tool"
    if safe == name and len(name) <= limit:
        return name
    mark = digest(name)
    return f"{safe[: limit - len(mark) - 1]}_{mark}"


def normalised(name: str) -> str:
    """One spelling for every case style: `readFile`, `read-file` and `ReadFile` are `read_file`."""
    return _JOINTS.sub("_", _HUMP.sub("_", name)).strip("_").lower()
