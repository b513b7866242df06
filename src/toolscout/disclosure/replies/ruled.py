"""Names with the rules of their categories; schemas come by loading (the cms reply)."""

from __future__ import annotations

from ...catalog.result import Result
from .reply import Found, structured


def ruled(found: Found) -> Result:
    """What is available now, how it is to be used, and what to do when more is needed."""
    done = "These tools are now available. Search again if you need more."
    return structured(
        {
            "tools": [{"name": t.name, "description": t.description} for t in found.tools],
            "rules": found.rules,
            "instruction": done if found.tools else found.hint.message,
        }
    )
