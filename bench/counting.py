"""How near the token estimate is to the true count, on real catalogs and queries.

python bench/counting.py [--data ../shared/data]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from toolscout.tokens import EstimatingCounter, TokenCounter, default_counter

DATA = Path(__file__).parents[2] / "shared" / "data"


class Quarter:
    """The usual rule of thumb: four characters a token."""

    name = "characters / 4"
    is_exact = False

    def count(self, text: str) -> int:
        return len(text) // 4


def texts(folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted(folder.glob("*/tools.jsonl")):
        found[f"{path.parent.name}, tools"] = path.read_text(encoding="utf-8")
    for path in sorted(folder.glob("*/queries.jsonl")):
        rows = path.read_text(encoding="utf-8").splitlines()
        found[f"{path.parent.name}, queries"] = "\n".join(json.loads(r)["query"] for r in rows)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()
    true = default_counter()
    if not true.is_exact or not options.data.is_dir():
        print("Skipped: needs the extra 'tokens' and a folder of data.", file=sys.stderr)
        return 0
    guesses: tuple[TokenCounter, ...] = (EstimatingCounter(), Quarter())
    print(f"text · {true.name} · " + " · ".join(g.name for g in guesses))
    for name, text in texts(options.data).items():
        count = true.count(text)
        ratios = " · ".join(f"{g.count(text) / count:.2f}" for g in guesses)
        print(f"{name} · {count:,} · {ratios}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
