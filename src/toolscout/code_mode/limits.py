"""Limits of one program in code mode."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ConfigError

MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLimits:
    """How much one program may use; waiting for a tool or a person counts for none of the times.

    `cpu_seconds` is the time in which the program itself computes, `sleep_seconds` what it sleeps.
    `state_bytes` is the size of a program that waits for an approval, as it is stored.
    """

    cpu_seconds: float = 5.0
    sleep_seconds: float = 30.0
    memory_bytes: int = 64 * MEGABYTE
    calls: int = 200
    parallel: int = 50
    code_chars: int = 100_000
    print_chars: int = 1_000_000
    state_bytes: int = MEGABYTE

    def __post_init__(self) -> None:
        numbers = (self.cpu_seconds, self.sleep_seconds, self.memory_bytes, self.calls)
        if min(*numbers, self.parallel, self.code_chars, self.print_chars, self.state_bytes) <= 0:
            raise ConfigError(f"{self} would allow no program.", hint="Use limits above zero.")
