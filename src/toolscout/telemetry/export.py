"""Open the export of traces and metrics, for every program that has a toolbox."""

from __future__ import annotations

import logging
import os

from ..errors import ConfigError, MissingExtraError, require
from .otel import OpenTelemetry
from .otlp_settings import ENDPOINT_VARIABLE, TelemetrySettings, check_protocol, enabled_signals

log = logging.getLogger(__name__)


def open_telemetry(settings: TelemetrySettings | None = None) -> OpenTelemetry | None:
    """A sink that exports to the collector of the settings or environment; None without one.

    Close it at the end. Nothing of OpenTelemetry is imported while there is no collector.
    """
    settings = settings or TelemetrySettings()
    signals = enabled_signals(settings, os.environ)
    if not signals:
        return None
    try:
        check_protocol(signals, os.environ)
        require("opentelemetry.exporter.otlp.proto.http", extra="otel")
        from .otlp import open_providers

        tracers, meters, close = open_providers(settings, signals)
        return OpenTelemetry(
            tracer_provider=tracers,
            meter_provider=meters,
            with_content=settings.content,
            on_close=close,
        )
    except (MissingExtraError, ConfigError) as error:
        if settings.otlp_endpoint:
            raise
        # The variables may be meant for the program that started this one. They must not stop it
        # from starting.
        log.warning("%s is set, but nothing is exported: %s", ENDPOINT_VARIABLE, error)
        return None
