"""Programs that wait for an approval or an answer, as text in the stored conversation."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from pydantic import TypeAdapter, ValidationError

from ..catalog.sanitization import compact_json

MAX_PROGRAMS = 8
"""How many programs of a conversation may wait; the oldest is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLine:
    """One call of a program, by the sandbox's number, for the report of what ran."""

    call: int
    tool: str
    arguments: str
    result: str = ""
    is_error: bool = False
    is_waiting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedProgram:
    """A program that waits: `waiting` maps its calls to the approvals or questions they wait for.

    `state` is what the sandbox stored, compressed. `version` is that of the sandbox.
    """

    id: str
    principal: str
    version: str
    state: str
    waiting: Mapping[int, str]
    lines: tuple[CallLine, ...]
    printed: str = ""

    @property
    def data(self) -> bytes:
        """The state as the sandbox wrote it."""
        return zlib.decompress(base64.b64decode(self.state))


def pack_state(data: bytes) -> str:
    """The state of a sandbox as text."""
    return base64.b64encode(zlib.compress(data)).decode()


_ADAPTER: TypeAdapter[tuple[SavedProgram, ...]] = TypeAdapter(tuple[SavedProgram, ...])


def read_programs(section: str | None) -> tuple[SavedProgram, ...]:
    """The programs of a section; none if it is damaged, because it must not start anything."""
    if not section:
        return ()
    try:
        return _ADAPTER.validate_json(section)
    except ValidationError:
        return ()


def add_program(section: str | None, program: SavedProgram) -> str:
    """The section with one more program, or with a newer state of the same."""
    others = [known for known in read_programs(section) if known.id != program.id]
    return _write([*others, program][-MAX_PROGRAMS:])


def remove_program(section: str | None, id: str) -> str:  # noqa: A002 - as the record calls it
    """The section without a program."""
    return _write([known for known in read_programs(section) if known.id != id])


def find_waiting(section: str | None, need: str, *, principal: str) -> SavedProgram | None:
    """The program of a principal that waits for this approval or question."""
    return next(
        (
            program
            for program in read_programs(section)
            if need in program.waiting.values() and program.principal == principal
        ),
        None,
    )


def _write(programs: list[SavedProgram]) -> str:
    return compact_json([asdict(program) for program in programs])
