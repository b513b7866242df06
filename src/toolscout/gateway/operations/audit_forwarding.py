"""Forward lines of the audit log to the receivers that the configuration names."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ...telemetry.forwarding import ForwardedLine, Forwarder
from ...telemetry.forwarding_targets import open_receiver
from ..setup import Setup


class AuditForwarding:
    """All receivers; each has a queue of its own, so that one that is down affects no other."""

    def __init__(self, setup: Setup) -> None:
        options = setup.options
        receivers = [
            (target, open_receiver(target, setup.settings.telemetry))
            for target in dict.fromkeys(options.audit_forward)
        ]
        self._forwarders = [
            Forwarder(target, receiver, max_lines=options.audit_queue)
            for target, receiver in receivers
        ]

    def __bool__(self) -> bool:
        return bool(self._forwarders)

    def add(self, line: ForwardedLine) -> None:
        """Queue a line for every receiver."""
        for forwarder in self._forwarders:
            forwarder.add(line)

    def report(self) -> list[dict[str, Any]]:
        """The state of each receiver, for `/health`."""
        return [asdict(forwarder.status) for forwarder in self._forwarders]

    def problems(self) -> list[str]:
        """The receivers that do not take lines."""
        return [
            f"Audit lines cannot be forwarded to {status.target}: {status.problem}"
            f" ({status.queued} wait, {status.dropped} dropped)."
            for status in (forwarder.status for forwarder in self._forwarders)
            if status.problem
        ]

    def metrics(self) -> str:
        """Counters in Prometheus' text format."""
        statuses = [forwarder.status for forwarder in self._forwarders]
        lines: list[str] = []
        for name, kind in (("sent", "counter"), ("dropped", "counter"), ("queued", "gauge")):
            metric = f"toolscout_audit_{name}" + ("_total" if kind == "counter" else "")
            lines.append(f"# TYPE {metric} {kind}")
            lines += [f'{metric}{{target="{s.target}"}} {getattr(s, name)}' for s in statuses]
        return "\n".join(lines) + "\n" if statuses else ""

    def close(self) -> None:
        """Send what is queued, for a limited time."""
        for forwarder in self._forwarders:
            forwarder.close()
