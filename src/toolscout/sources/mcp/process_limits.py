"""Limits on the process of a local server: memory, CPU time, files and processes."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ...errors import ConfigError
from .servers import Server

_LAUNCHER = Path(__file__).with_name("process_launcher.py")


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """What one process may use; 0 means no limit."""

    memory_mb: int = 0
    cpu_seconds: int = 0
    open_files: int = 0
    file_mb: int = 0
    processes: int = 0

    @classmethod
    def of(cls, server: Server) -> ProcessLimits:
        """The limits in a server's configuration."""
        limits = server.limits
        return cls(
            memory_mb=limits.memory_mb,
            cpu_seconds=limits.cpu_seconds,
            open_files=limits.open_files,
            file_mb=limits.file_mb,
            processes=limits.processes,
        )

    @property
    def is_set(self) -> bool:
        """Whether there is any limit."""
        return any(asdict(self).values())


def limit_command(command: Sequence[str], limits: ProcessLimits) -> list[str]:
    """The command that runs another one within limits; the same one if there are none."""
    if not limits.is_set:
        return list(command)
    if sys.platform == "win32":
        raise ConfigError(
            "Limits on the process of a server are not supported on Windows.",
            hint="Run the server in a container with such limits.",
        )
    # The launcher could only report a missing command when it is too late to say so plainly.
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(command[0])
    # Set by a program of its own, which then becomes the server. Code between fork and exec in
    # this process is not safe, because it has threads.
    given = [f"{name}={value}" for name, value in asdict(limits).items() if value]
    return [sys.executable, "-I", "-S", str(_LAUNCHER), *given, "--", *command]
