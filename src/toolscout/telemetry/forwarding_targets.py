"""Where audit lines are forwarded to, by the names in the configuration."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from ..errors import ConfigError, require
from .forwarding import Receiver
from .otlp_settings import TelemetrySettings, check_protocol, has_endpoint
from .syslog import DEFAULT_SOCKET, SyslogAddress, SyslogReceiver

OTLP = "otlp"
_FORMS = "syslog, syslog+udp://HOST:PORT, syslog+tcp://HOST:PORT, syslog+unix:///PATH or otlp"


def parse_target(target: str) -> SyslogAddress | None:
    """The address of a syslog receiver; None for `otlp`. Raises ValueError for anything else."""
    if target == OTLP:
        return None
    if target == "syslog":
        return SyslogAddress(transport="unix", path=DEFAULT_SOCKET)
    parts = urlsplit(target)
    try:
        port = parts.port or 0
    except ValueError:
        port = 0
    is_bare = not (parts.query or parts.fragment or parts.username or parts.password)
    match parts.scheme:
        case "syslog+unix" if parts.path and not parts.netloc and is_bare:
            return SyslogAddress(transport="unix", path=parts.path)
        case "syslog+udp" if parts.hostname and port and not parts.path and is_bare:
            return SyslogAddress(transport="udp", host=parts.hostname, port=port)
        case "syslog+tcp" if parts.hostname and port and not parts.path and is_bare:
            return SyslogAddress(transport="tcp", host=parts.hostname, port=port)
        case _:
            raise ValueError(f"{target!r} is not a target: write {_FORMS}")


def open_receiver(target: str, telemetry: TelemetrySettings) -> Receiver:
    """The receiver of a target; `otlp` uses the collector of the telemetry."""
    address = parse_target(target)
    if address is not None:
        return SyslogReceiver(address)
    if not has_endpoint(telemetry, "logs", os.environ):
        raise ConfigError(
            "audit_forward has otlp, but no collector is configured.",
            hint="Set otlp_endpoint under [telemetry], or OTEL_EXPORTER_OTLP_ENDPOINT.",
        )
    check_protocol(frozenset({"logs"}), os.environ)
    require("opentelemetry.exporter.otlp.proto.http", extra="otel")
    from .otlp_logs import OTLPLogReceiver

    return OTLPLogReceiver(telemetry)
