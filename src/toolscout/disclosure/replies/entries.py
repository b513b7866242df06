"""Catalog entries with their parameters, usage and skill in words (the solaris reply)."""

from __future__ import annotations

import json
from typing import Any

from ...catalog.card import arguments
from ...catalog.result import Result
from ...catalog.tool import Tool
from .reply import Found, structured


def entries(found: Found) -> Result:
    """Every hit as one entry; with none, the categories to try instead."""
    if found.tools:
        return structured({"query": found.query, "results": [_entry(t) for t in found.tools]})
    empty: dict[str, Any] = {"query": found.query, "results": []}
    if found.hint.categories:
        empty["allCategories"] = [*found.hint.categories]
    if found.hint.message:
        empty["message"] = found.hint.message
    return structured(empty)


def _entry(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "category": tool.category,
        "description": tool.description,
        "parameters": arguments(tool),
        "usage": tool.usage or usage_text(tool),
        "relatedSkill": f"Load the skill '{tool.skill}' with readSkill to use it well."
        if tool.skill
        else None,
    }


def usage_text(tool: Tool) -> str:
    """A call with what is required, as an example."""
    needed = {p.name: p.values[0] if p.values else "…" for p in tool.parameters.top() if p.required}
    return f"{tool.name}({json.dumps(needed, ensure_ascii=False) if needed else ''})"
