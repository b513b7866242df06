"""What the last `toolscout check` found for each server, so that `toolscout list` can show it."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from ...config import Config
from ...errors import ConfigError
from ...sources.mcp.servers import Server
from ...sources.server_status import ServerStatus
from ...store.user_files import write_atomically

# Only these servers were started. The configuration decides the status of the others.
_TRIED: tuple[ServerStatus, ...] = ("ready", "failing", "needs login")


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """The status of a server at its last check, why, and when, in seconds since the epoch."""

    status: ServerStatus
    reason: str
    time: float


class CheckOutcomes:
    """A folder of outcomes, one file for each server and configuration of it."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock = clock

    @classmethod
    def of(cls, config: Config) -> CheckOutcomes:
        """The outcomes of a user's checks."""
        return cls(config.cache_folder / "checks")

    def load(self, server: Server) -> CheckOutcome | None:
        """The last outcome for a server as it is configured now; None without one."""
        try:
            row = json.loads(self._path(server).read_text(encoding="utf-8"))
            outcome = CheckOutcome(row["status"], str(row["reason"]), float(row["time"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return outcome if outcome.status in _TRIED else None

    def save(self, server: Server, status: ServerStatus, reason: str) -> None:
        """Remember an outcome; a disk that is full must not fail the check."""
        if status in _TRIED:
            outcome = CheckOutcome(status, reason, self._clock())
            with contextlib.suppress(OSError, ConfigError):
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                write_atomically(self._path(server), json.dumps(asdict(outcome)))

    def _path(self, server: Server) -> Path:
        return self._folder / f"{server.name}-{server.digest}.json"
