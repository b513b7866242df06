"""Planning tool: splits a task into steps with the categories of tools they need."""

from __future__ import annotations

import re
from typing import Any

from toolscout import tool

_CUTS = re.compile(r"[.;\n]+|,?\s+(?:and then|then|and|after that)\s+", re.I)
_SIGNS = {
    "images": ("image", "picture", "photo", "hero image"),
    "sections": ("section", "heading", "hero", "gallery", "text"),
    "posts": ("post", "article", "blog", "draft"),
    "navigation": ("menu", "navigation", "link"),
    "pages": ("page", "about", "home"),
    "entries": ("collection", "entry", "room", "team"),
    "research": ("research", "web", "find out"),
}


class Planning:
    @tool(
        name="plan_analyzeTask",
        category="planning",
        phrases=["plan a task", "analyse what has to be done", "break a task into steps"],
        risk="safe",
    )
    def analyse(self, task: str) -> dict[str, Any]:
        """Take a task apart into steps, each with the kind of tools it needs.

        Args:
            task: What has to be done, in the user's words.
        """
        parts = [part.strip() for part in _CUTS.split(task) if part.strip()]
        steps = [{"step": part, "categories": _categories(part)} for part in parts]
        return {"steps": steps, "isComplex": len(steps) > 1}

    @property
    def tools(self) -> tuple[Any, ...]:
        return (self.analyse,)


def _categories(text: str) -> list[str]:
    lower = text.lower()
    return [name for name, signs in _SIGNS.items() if any(sign in lower for sign in signs)]
