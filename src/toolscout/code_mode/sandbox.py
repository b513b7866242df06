"""The seam of sandboxes: something that runs a program whose only door is its host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from .limits import CodeLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program to run: `prelude` runs first, and `code` is checked by `stubs`."""

    code: str
    stubs: str = ""
    prelude: str = ""


@dataclass(frozen=True, slots=True)
class SavedState:
    """A program that waits, as a sandbox stored it, and the answers to some of its calls."""

    data: bytes
    answers: Mapping[int, CallAnswer] = field(default_factory=dict[int, "CallAnswer"])


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """What a call of a program returns, or the message of the error that it raises."""

    value: Any = None
    error: str = ""


class Host(Protocol):
    """The only door of a program."""

    async def call(self, id: int, name: str, arguments: Mapping[str, Any]) -> CallAnswer | None:  # noqa: A002
        """Run a tool; None if its answer comes later, with a saved state."""
        ...

    async def look_up(
        self, function: str, values: tuple[Any, ...], named: Mapping[str, Any]
    ) -> CallAnswer:
        """CallAnswer `search` or `describe`."""
        ...


@dataclass(frozen=True, slots=True)
class Finished:
    """The value of the last expression, and what was printed."""

    value: Any
    printed: str


@dataclass(frozen=True, slots=True)
class TypeProblem:
    """A mistake that was found before anything ran."""

    line: int
    column: int
    message: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """The program was not run: it does not fit the stubs."""

    problems: tuple[TypeProblem, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """The program ended with an error; `is_crash` says that the sandbox itself ended."""

    message: str
    printed: str
    is_crash: bool = False


@dataclass(frozen=True, slots=True)
class Waiting:
    """All that the program can do now waits for these calls; `state` continues it later."""

    calls: tuple[int, ...]
    state: bytes
    printed: str


Outcome = Finished | Rejected | Failed | Waiting


class Sandbox(Protocol):
    """Runs programs that reach nothing but their host."""

    @property
    def version(self) -> str:
        """The program and version that writes and reads its states."""
        ...

    async def run(self, program: Program | SavedState, host: Host, limits: CodeLimits) -> Outcome:
        """Run a program, or continue one, until it ends or only waits. Never raises for a program's
        mistake; cancelling it stops the program and its calls."""
        ...

    async def close(self) -> None:
        """Stop all workers."""
        ...
