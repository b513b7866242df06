"""The table of attacks: how one is added to its family, run and printed.

A family is a module of this package. An attack is a function in it that gets a `Lab` and returns
how many attempts it made and how many the gateway withstood:

    @attack("Forged tokens", is_quick=True)
    async def forge_tokens(lab: Lab) -> Outcome:
        ...
        return tried, held
"""

from __future__ import annotations

import asyncio
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from tests.attack.lab import Lab

Outcome = tuple[int, int]
AttackFunction = Callable[[Lab], Awaitable[Outcome]]
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
    """The result of one attack; `problem` says why it could not be carried out."""

    attack: Attack
    tried: int
    held: int
    seconds: float
    problem: str = ""

    @property
    def is_held(self) -> bool:
        return bool(self.tried) and self.tried == self.held and not self.problem


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
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                tried, held = await each.run(Lab(Path(folder)))
        except Exception:  # noqa: BLE001 -- the other attacks continue
            problem = traceback.format_exc()
    return Row(each, tried, held, time.monotonic() - started, problem)


def render(rows: Iterable[Row]) -> str:
    """The table as Markdown."""
    lines = ["| family | attack | tried | held |", "|---|---|---:|---:|"]
    for row in rows:
        mark = "" if row.is_held else " **not held**"
        each = row.attack
        lines.append(f"| {each.family} | {each.name} | {row.tried} | {row.held}{mark} |")
    return "\n".join(lines)
