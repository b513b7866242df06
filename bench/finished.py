"""The parts of a run that are finished, so that an interrupted run goes on where it stopped."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from .work import FOLDER, ROOT


@dataclass(frozen=True)
class FinishedParts:
    """What earlier runs measured with exactly this code, a file for each part."""

    folder: Path

    @classmethod
    def of_this_code(
        cls, *, is_quick: bool, root: Path = ROOT, folder: Path = FOLDER
    ) -> FinishedParts:
        """The parts that were measured with the code as it is now."""
        code = sha256()
        for path in sorted((*root.glob("src/**/*.py"), *root.glob("bench/**/*.py"))):
            code.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
        return cls(folder / "parts" / ("quick" if is_quick else "full") / code.hexdigest()[:16])

    def read(self, name: str) -> tuple[Any, float] | None:
        """What was measured for a part, and how many seconds that took; None if it was not."""
        try:
            measured, seconds = json.loads((self.folder / f"{name}.json").read_bytes())
        except (OSError, ValueError):
            return None
        return measured, seconds

    def write(self, name: str, measured: Any, *, seconds: float) -> tuple[Any, float]:
        """Keep a part; returns it as `read` will."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps([measured, seconds], ensure_ascii=False)
        (self.folder / f"{name}.json").write_text(text, encoding="utf-8")
        return json.loads(text)[0], seconds
