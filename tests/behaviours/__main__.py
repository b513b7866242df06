"""Print every behaviour with the tests that prove it, and leave with 1 if there is a gap.

Below it: how many acceptance conversations each section of each design has through each door.

`python -m tests.behaviours` prints all of them, `python -m tests.behaviours B81 E` some.
"""

import sys

from .sections import matrix_lines, read_sections
from .table import Table, read


def lines(table: Table, wanted: list[str]) -> list[str]:
    told = []
    for row, words in table.rows.items():
        if wanted and row not in wanted and row[0] not in wanted:
            continue
        told.append(f"{row:5} {words}")
        told += [f"      {test}" for test in table.proofs.get(row, ())]
        told += [f"      differs: {table.differs[row]}"] if row in table.differs else []
        told += [f"      exempt: {table.exempt[row]}"] if row in table.exempt else []
        told += ["      OPEN: no test proves it, and nothing explains why"] * (row in table.open)
    return told


def summary(table: Table) -> str:
    proven = sum(row in table.proofs for row in table.rows)
    return (
        f"{len(table.rows)} behaviours: {proven} proven by {table.tests} tests"
        f" ({len(table.differs)} of them in a way of our own),"
        f" {len(table.exempt)} exempt with a reason, {len(table.open)} open"
    )


def main(wanted: list[str]) -> int:
    table = read()
    print(*lines(table, wanted), "", *matrix_lines(read_sections()), "", summary(table), sep="\n")
    for complaint, rows in (("unknown", table.unknown), ("stale", table.stale)):
        if rows:
            print(f"{complaint}: {', '.join(rows)}")
    return 1 if table.open or table.unknown or table.stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
