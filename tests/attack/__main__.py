"""Carry out attacks and print the table: `python -m tests.attack [--quick] [WORD ...]`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from tests.attack.table import FAMILIES, Attack, Row, carry_out, load_families, render


def read_arguments(arguments: Sequence[str]) -> list[Attack]:
    """The attacks that are asked for; exits with a message if there are none."""
    known = load_families()
    parser = argparse.ArgumentParser(
        prog="python -m tests.attack",
        description="Attack real gateways, and print a table of what they withstood.",
        epilog=f"Families: {', '.join(FAMILIES)}. Exit codes: 0 all was withstood, 1 not all,"
        " 2 usage.",
    )
    parser.add_argument("words", nargs="*", metavar="WORD", help="a family, or a part of a name")
    parser.add_argument("--quick", action="store_true", help="only those that are tests too")
    parser.add_argument("--list", action="store_true", help="print the attacks, and start none")
    options = parser.parse_args(arguments)
    chosen = dict.fromkeys(find_attacks(known, word) for word in options.words)
    if () in chosen:
        wrong = next(word for word in options.words if not find_attacks(known, word))
        parser.error(f"no attack has {wrong!r} in its name; families: {', '.join(FAMILIES)}")
    wanted = {each for found in chosen for each in found} or set(known)
    attacks = [each for each in known if each in wanted and (each.is_quick or not options.quick)]
    if not attacks:
        parser.error("none of these attacks is quick")
    if options.list:
        sys.stdout.write("".join(f"{each.family}: {each.name}\n" for each in attacks))
        parser.exit()
    return attacks


def find_attacks(known: Sequence[Attack], word: str) -> tuple[Attack, ...]:
    """Those of a family, or with a word in their names."""
    text = word.lower()
    return tuple(each for each in known if text in f"{each.family} {each.name}".lower())


async def run(attacks: Sequence[Attack]) -> list[Row]:
    """Carry out attacks, one after the other."""
    rows: list[Row] = []
    for each in attacks:
        row = await carry_out(each)
        rows.append(row)
        state = "held" if row.is_held else "NOT HELD"
        counts = f"{row.held} of {row.tried}"
        sys.stderr.write(f"{row.seconds:6.1f} s  {each.family}: {each.name}: {counts} {state}\n")
        sys.stderr.write(row.explanation)
    return rows


def main(arguments: Sequence[str]) -> int:
    attacks = read_arguments(arguments)
    rows = asyncio.run(run(attacks))
    sys.stdout.write(render(rows))
    held = sum(row.is_held for row in rows)
    sys.stdout.write(f"\n\n{held} of {len(rows)} attacks were withstood.\n")
    return 0 if held == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
