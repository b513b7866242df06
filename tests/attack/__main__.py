"""Carry out attacks and print the table: `python -m tests.attack [--quick] [WORD ...]`."""

from __future__ import annotations

import asyncio
import sys

from tests.attack.table import ATTACKS, Row, carry_out, load_families, render


async def run(words: list[str], *, is_quick: bool) -> list[Row]:
    """Carry out the attacks that match a word, by their family or name."""
    rows: list[Row] = []
    for each in ATTACKS:
        text = f"{each.family} {each.name}".lower()
        is_chosen = not words or any(word.lower() in text for word in words)
        if not is_chosen or (is_quick and not each.is_quick):
            continue
        row = await carry_out(each)
        rows.append(row)
        state = "held" if row.is_held else "NOT HELD"
        counts = f"{row.held} of {row.tried}"
        sys.stderr.write(f"{row.seconds:6.1f} s  {each.family}: {each.name}: {counts} {state}\n")
        sys.stderr.write(row.problem)
    return rows


def main(arguments: list[str]) -> int:
    load_families()
    words = [each for each in arguments if not each.startswith("--")]
    rows = asyncio.run(run(words, is_quick="--quick" in arguments))
    sys.stdout.write(render(rows))
    held = sum(row.is_held for row in rows)
    sys.stdout.write(f"\n\n{held} of {len(rows)} attacks were withstood.\n")
    return 0 if rows and held == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
