"""Example server with tools for text."""

from __future__ import annotations

import base64
import hashlib
import re
import uuid

from ..sources.functions import tool


@tool(category="text", risk="safe", phrases=["how long is this text", "word count"])
def count_words(text: str) -> dict[str, int]:
    """Count the words, characters and lines of a text."""
    return {"words": len(text.split()), "characters": len(text), "lines": len(text.splitlines())}


@tool(category="text", risk="safe", phrases=["make a url from this title"])
def make_slug(text: str) -> str:
    """Turn a title into the part of a web address: lower case, words joined by dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


@tool(category="text", risk="safe", phrases=["checksum", "fingerprint of a text"])
def hash_text(text: str) -> str:
    """Compute the SHA-256 hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


@tool(category="text", risk="safe", phrases=["base64"])
def encode_base64(text: str) -> str:
    """Encode a text as Base64."""
    return base64.b64encode(text.encode()).decode()


@tool(category="text", risk="safe", phrases=["random id", "guid"])
def new_uuid() -> str:
    """Make a new random UUID."""
    return str(uuid.uuid4())


FUNCTIONS = (count_words, make_slug, hash_text, encode_base64, new_uuid)
