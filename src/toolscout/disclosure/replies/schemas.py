"""Every hit with its whole schema (the everruns reply)."""

from __future__ import annotations

from typing import Any

from ...catalog.result import Result
from .reply import Found, structured


def schemas(found: Found) -> Result:
    """The tools as they are called; with none, the names that exist."""
    answer: dict[str, Any] = {
        "query": found.query.strip(),
        "tools": [
            {"name": t.name, "description": t.description, "parameters": t.parameters.value}
            for t in found.tools
        ],
    }
    if not found.tools:
        answer["message"] = found.hint.message
        answer["available_tools"] = [*found.hint.names]
        if found.hint.unnamed:
            answer["more_tools"] = found.hint.unnamed
    elif found.loaded:
        answer["loaded"] = [*found.loaded]
        answer["message"] = "The schemas of these tools are in your tool list from the next step."
    return structured(answer)
