"""Tool names: qualification, hashes, provider-safe forms and normalised spellings."""

from __future__ import annotations

import hashlib
import re
import unicodedata

SEPARATOR = "__"
# Everything but the characters that all providers allow in a function's name.
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
# Where a word begins in camelCase, also after an acronym: read|File, HTTP|Server.
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_JOINTS = re.compile(r"[\s_\-./:~]+")
_HASH_SUFFIX = re.compile(r"--[0-9a-f]{8,64}\Z")


def digest(*parts: str, length: int = 8) -> str:
    """A short stable hash."""
    text = "\0".join(parts).encode(errors="surrogatepass")
    return hashlib.sha256(text).hexdigest()[:length]


def qualify_name(server: str, tool: str) -> str:
    """`server__tool`, unless the name already starts with the server."""
    if not server or tool.startswith(f"{server}{SEPARATOR}"):
        return tool
    return f"{server}{SEPARATOR}{tool}"


def add_hash_suffix(source: str, name: str, *, length: int = 8) -> str:
    """A name made unique by a hash of its source: `search--3fa1b2c4`."""
    return f"{name}--{digest(source, name, length=length)}"


def has_hash_suffix(name: str) -> bool:
    """Whether a name has the form that only `add_hash_suffix` may produce."""
    return "--" in name and _HASH_SUFFIX.search(name) is not None


def wire_name(name: str, *, limit: int = 64) -> str:
    """A name that every provider accepts; a changed name ends in a hash of the original."""
    safe = _UNSAFE.sub("_", name)
    if not safe or safe[0] in "0123456789-":
        safe = f"t_{safe}"
    if safe == name and len(name) <= limit:
        return name
    suffix = digest(name)
    return f"{safe[: limit - len(suffix) - 1]}_{suffix}"


def normalise_name(name: str) -> str:
    """One spelling for every case style: `readFile`, `read-file` and `ReadFile` are `read_file`."""
    if name.isascii():
        # Most names are snake_case already; skipping the regular expressions is much faster.
        if name.islower() and name.isidentifier() and SEPARATOR not in name:
            return name.strip("_")
        return _JOINTS.sub("_", _HUMP.sub("_", name)).strip("_").lower()
    # Case folding can undo NFKC, so normalise before and after it.
    folded = unicodedata.normalize("NFKC", _HUMP.sub("_", name)).casefold()
    return _JOINTS.sub("_", unicodedata.normalize("NFKC", folded)).strip("_")
