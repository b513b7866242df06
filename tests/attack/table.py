"""The table of attacks: how one is added to its family, run and printed.

A family is a module of this package. An attack is a function in it that gets a `Lab` and returns
how many attempts it made and how many the gateway withstood:

    @attack("Forged tokens", is_quick=True)
    async def forge_tokens(lab: Lab) -> Outcome:
        held = sum(lab.note(is_refused(each), each) for each in forged)
        return len(forged), held

`lab.note` returns whether an attempt was withstood, and keeps what to print if it was not.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from tests.attack.lab import Lab

Outcome = tuple[int, int]
AttackFunction = Callable[[Lab], Awaitable[Outcome]]
_MAX_FAILURES = 20
TIMEOUT_SECONDS = 180.0


@dataclass(frozen=True)
class Attack:
    """One attack; the quick ones are part of the tests."""

    family: str
    name: str
    run: AttackFunction
    is_quick: bool = False


@dataclass(frozen=True)
class Row:
    """The result of one attack.

    `failures` are the attempts that were not withstood, and `problem` says why it could not be
    carried out.
    """

    attack: Attack
    tried: int
    held: int
    seconds: float
    problem: str = ""
    failures: tuple[str, ...] = ()

    @property
    def is_held(self) -> bool:
        return bool(self.tried) and self.tried == self.held and not self.problem

    @property
    def explanation(self) -> str:
        """What was not withstood, a line for each attempt; empty if all was."""
        if self.is_held:
            return ""
        shown = self.failures[:_MAX_FAILURES]
        more = len(self.failures) - len(shown)
        lines = [*shown, *([f"and {more} more"] if more else [])]
        return "".join(f"    not held: {line}\n" for line in lines) + self.problem


FAMILIES = ("faults", "overload", "fuzzing", "identity", "isolation", "audit")
ATTACKS: list[Attack] = []


def load_families() -> list[Attack]:
    """All attacks, in the order of their families."""
    for family in FAMILIES:
        import_module(f"tests.attack.{family}")
    return ATTACKS


def attack(name: str, *, is_quick: bool = False) -> Callable[[AttackFunction], AttackFunction]:
    """Add a function to the table, in the family of its module."""

    def register(function: AttackFunction) -> AttackFunction:
        family = function.__module__.rpartition(".")[2]
        ATTACKS.append(Attack(family, name, function, is_quick))
        return function

    return register


async def carry_out(each: Attack) -> Row:
    """Carry out one attack in a folder of its own; a failure of the attack counts as not held."""
    started = time.monotonic()
    tried, held, problem = 0, 0, ""
    with tempfile.TemporaryDirectory(prefix="attack-") as folder:
        lab = Lab(Path(folder))
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                tried, held = await each.run(lab)
        except Exception:  # noqa: BLE001 -- the other attacks continue
            problem = traceback.format_exc()
    took = time.monotonic() - started
    return Row(each, tried, held, took, problem, tuple(lab.failures))


def render(rows: Sequence[Row]) -> str:
    """The table as Markdown, and below it every attempt that was not withstood."""
    lines = ["| family | attack | tried | held |", "|---|---|---:|---:|"]
    for row in rows:
        mark = "" if row.is_held else " **not held**"
        each = row.attack
        lines.append(f"| {each.family} | {each.name} | {row.tried} | {row.held}{mark} |")
    for row in rows:
        if row.explanation:
            lines += ["", f"{row.attack.family}: {row.attack.name}", row.explanation.rstrip()]
    return "\n".join(lines)
