"""A problem in a catalog: its place, what is wrong and how to fix it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding; an `error` makes a tool unusable or a catalog invalid, a `warning` is advice."""

    where: str
    message: str
    remedy: str = ""
    severity: Severity = "error"
    code: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (f"{self.where}:", self.message, self.remedy) if part)
