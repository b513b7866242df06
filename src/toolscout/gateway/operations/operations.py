"""The operations side of a gateway: journal, audit, metrics, savings, problems, its process."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from ...config import Config
from ...events import Event, Sink, combine_sinks, guard_sink, ignore
from ...journal.journal import Journal
from ...store.processes import RUNNING_FOLDER
from ...telemetry.prometheus import PrometheusMetrics
from ...tokens import default_counter
from ..settings import audit_path
from ..setup import Setup
from .audit import AuditFile
from .audit_forwarding import AuditForwarding
from .definition_problems import KnownProblems
from .disk import DiskCheck
from .reload import GatewayProcesses, hash_fixed_settings, settings_needing_restart
from .rotation import RotationLimits
from .savings import Savings
from .savings_total import open_total
from .statistics import CallStatistics
from .statistics_store import StatisticsStore

log = logging.getLogger(__name__)
_BYTES_PER_MB = 1_000_000


class Operations:
    """What an operator sees of a gateway, and what is recorded of its calls."""

    def __init__(self, setup: Setup, *, sink: Sink) -> None:
        folder = setup.config.state_folder
        self._config = setup.config
        self._fixed_hashes = hash_fixed_settings(setup)
        self._processes = GatewayProcesses(folder / RUNNING_FOLDER)
        self.metrics = PrometheusMetrics()
        self.statistics = _open_statistics(setup.config)
        self.savings = Savings(
            open_total(setup.config, setup.path),
            default_counter(),
            on_change=self.statistics.add_tokens_saved if self.statistics else None,
        )
        self.forwarding = AuditForwarding(setup)
        path = audit_path(setup.options, folder)
        self._rotation = _rotation(setup)
        self.audit = self._open_audit(path)
        self.journal = Journal.open(setup.config, audit_file=str(path or ""))
        self.definition_problems = KnownProblems()
        self.problem = ""
        self.check_disk = DiskCheck(folder)
        # Each is guarded by itself, so that a failure of one does not affect the others. The
        # journal comes first: a kill between it and the audit file leaves a row, from which the
        # line is made.
        self._record = combine_sinks(
            guard_sink(lambda event: self.journal(event)),
            guard_sink(lambda event: self.audit(event)),
            guard_sink(self.metrics),
            guard_sink(self.statistics or ignore),
            guard_sink(sink),
        )

    def on_event(self, event: Event) -> None:
        """Record an event and pass it on."""
        self._record(event)

    async def start(self, setup: Setup) -> None:
        """Record that this process serves the configuration, and complete the audit file."""
        self._processes.register(setup)
        await asyncio.to_thread(self.savings.refresh)
        if self._config.record != "off":
            await asyncio.to_thread(self.audit.recover, self.journal.store)

    def close(self) -> None:
        """Write everything that is not on disk yet."""
        self.savings.close()
        if self.statistics is not None:
            self.statistics.close()
        self._processes.unregister()
        self.journal.close()
        self.forwarding.close()

    def apply(self, setup: Setup) -> tuple[str, ...]:
        """Use an edited configuration; returns the settings that need a restart."""
        late = settings_needing_restart(self._fixed_hashes, setup)
        self.problem = f"Edited, but used only after a restart: {', '.join(late)}." if late else ""
        if late:
            log.warning("%s", self.problem)
        path = audit_path(setup.options, setup.config.state_folder)
        before, is_moved = self.journal, path != self.audit.path
        if is_moved or self._rotation != _rotation(setup):
            self._rotation = _rotation(setup)
            self.audit = self._open_audit(path)
        if is_moved:
            # Its settings stay those of the start; only its rows name another audit file.
            self.journal = Journal.open(self._config, audit_file=str(path or ""))
            before.close()
        return late

    def problems(self) -> list[str]:
        """The problems that an operator should look at."""
        problems = [self.problem] if self.problem else []
        problems += ["The audit log cannot be written."] if self.audit.is_failing else []
        journal = self.journal.status
        if journal.status == "degraded":
            problems.append(f"The journal lacks {journal.missed} rows: {journal.reason}")
        return problems + self.forwarding.problems()

    def _open_audit(self, path: Path | None) -> AuditFile:
        forward = self.forwarding.add if self.forwarding else None
        return AuditFile(path, rotation=self._rotation, forward=forward)


def _rotation(setup: Setup) -> RotationLimits:
    options = setup.options
    return RotationLimits(
        max_bytes=int(options.audit_max_mb * _BYTES_PER_MB), max_files=options.audit_files
    )


def _open_statistics(config: Config) -> CallStatistics | None:
    """What counts calls by the hour; None if nothing is to be recorded."""
    if config.record == "off":
        return None
    return CallStatistics(lambda: StatisticsStore.open(config))
