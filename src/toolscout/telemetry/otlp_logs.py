"""Send lines to an OpenTelemetry collector as log records; needs the extra `otel`."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

# The SDK has no other name for logs yet.
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from .forwarding import ForwardedLine
from .otlp import quiet_sdk_log, signal_endpoint, telemetry_resource
from .otlp_settings import TelemetrySettings

# The SDK tries again for this long; then the line waits in the queue.
_TIMEOUT_SECONDS = 2.0
_SCOPE = InstrumentationScope("toolscout.audit")


class OTLPLogReceiver:
    """Exports lines; the collector confirms each batch."""

    def __init__(self, settings: TelemetrySettings) -> None:
        quiet_sdk_log()
        self._resource = telemetry_resource(settings)
        self._exporter = OTLPLogExporter(
            endpoint=signal_endpoint(settings, "logs"),
            headers=dict(settings.otlp_headers),
            timeout=_TIMEOUT_SECONDS,
        )

    def send(self, lines: Sequence[ForwardedLine]) -> int:
        """Send all lines as one batch."""
        batch = [
            ReadableLogRecord(_record(line), self._resource, instrumentation_scope=_SCOPE)
            for line in lines
        ]
        if self._exporter.export(batch) is not LogRecordExportResult.SUCCESS:
            raise OSError("the collector did not take the records")
        return len(lines)

    def close(self) -> None:
        """Close the connection."""
        self._exporter.shutdown()


def _record(line: ForwardedLine) -> LogRecord:
    severity = SeverityNumber.INFO if line.is_ok else SeverityNumber.WARN
    attributes = {
        f"toolscout.{name}": value if isinstance(value, str | int | float) else json.dumps(value)
        for name, value in line.facts.items()
    }
    return LogRecord(
        timestamp=round(line.time * 1_000) * 1_000_000,
        observed_timestamp=time.time_ns(),
        severity_number=severity,
        severity_text=severity.name,
        body=json.dumps(dict(line.facts), separators=(",", ":")),
        attributes=attributes,
        event_name=f"toolscout.{line.kind}",
    )
