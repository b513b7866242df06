"""The operations side of a gateway: metrics, audit, savings, problems, the running process."""

from __future__ import annotations

import logging

from ...events import Event, Sink
from ...telemetry.prometheus import PrometheusMetrics
from ...tokens import default_counter
from ..settings import audit_path
from ..setup import Setup
from .audit import AuditLog
from .reload import GatewayProcesses, hash_fixed_settings, settings_needing_restart
from .savings import Savings

log = logging.getLogger(__name__)


class Operations:
    """What an operator sees of a gateway, and what is recorded of its calls."""

    def __init__(self, setup: Setup, *, sink: Sink) -> None:
        folder = setup.config.state_folder
        self._sink = sink
        self._fixed_hashes = hash_fixed_settings(setup)
        self._processes = GatewayProcesses(folder / "running")
        self.metrics = PrometheusMetrics()
        self.savings = Savings(folder / "savings.json", default_counter())
        self.audit = AuditLog(audit_path(setup.options, folder))
        self.problem = ""

    def on_event(self, event: Event) -> None:
        """Count an event and pass it on."""
        self.metrics(event)
        self._sink(event)

    def start(self, setup: Setup) -> None:
        """Record that this process serves the configuration."""
        self._processes.register(setup)

    def close(self) -> None:
        """Write what is not on disk yet."""
        self.savings.save()
        self._processes.unregister()

    def apply(self, setup: Setup) -> tuple[str, ...]:
        """Use an edited configuration; returns the settings that wait for a restart."""
        late = settings_needing_restart(self._fixed_hashes, setup)
        self.problem = f"Edited, but used only after a restart: {', '.join(late)}." if late else ""
        if late:
            log.warning("%s", self.problem)
        path = audit_path(setup.options, setup.config.state_folder)
        if path != self.audit.path:
            self.audit = AuditLog(path)
        return late
