"""OTLP exporters of the OpenTelemetry SDK; needs the extra `otel`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import MeterProvider, NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider as SDKMeterProvider
from opentelemetry.sdk.metrics.export import (
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace import TracerProvider as SDKTracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace import NoOpTracerProvider, TracerProvider

from .otlp_settings import Signal, TelemetrySettings

log = logging.getLogger(__name__)
# The data left at the end gets this long. A collector that does not answer must not keep the
# program from ending.
_CLOSE_SECONDS = 3.0

Close = Callable[[], None]


def open_providers(
    settings: TelemetrySettings, signals: frozenset[Signal]
) -> tuple[TracerProvider, MeterProvider, Close]:
    """Providers that export the given signals in the background, and how to end both."""
    quiet_sdk_log()
    resource = telemetry_resource(settings)
    endings: list[Close] = []
    tracers: TracerProvider = NoOpTracerProvider()
    meters: MeterProvider = NoOpMeterProvider()
    if "traces" in signals:
        tracers = _tracer_provider(settings, resource)
        endings.append(tracers.shutdown)
    if "metrics" in signals:
        meters = _meter_provider(settings, resource)
        endings.append(meters.shutdown)
    return tracers, meters, lambda: _run_with_limit(endings)


def quiet_sdk_log() -> None:
    """Keep the SDK from logging every attempt: one line for each outage is logged here."""
    sdk_log = logging.getLogger("opentelemetry.exporter.otlp")
    if sdk_log.level == logging.NOTSET:
        sdk_log.setLevel(logging.CRITICAL)


def _tracer_provider(settings: TelemetrySettings, resource: Resource) -> SDKTracerProvider:
    exporter = _SpanExporter(
        endpoint=signal_endpoint(settings, "traces"), headers=settings.otlp_headers
    )
    # `shutdown_on_exit` would wait for a dead collector for half a minute.
    provider = SDKTracerProvider(
        resource=resource, sampler=_sampler(settings), shutdown_on_exit=False
    )
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _meter_provider(settings: TelemetrySettings, resource: Resource) -> SDKMeterProvider:
    exporter = _MetricExporter(
        endpoint=signal_endpoint(settings, "metrics"), headers=settings.otlp_headers
    )
    interval = settings.export_interval_seconds
    reader = PeriodicExportingMetricReader(
        exporter, export_interval_millis=interval * 1_000 if interval else None
    )
    return SDKMeterProvider(metric_readers=[reader], resource=resource, shutdown_on_exit=False)


def signal_endpoint(settings: TelemetrySettings, signal: Signal) -> str | None:
    """The address of a signal; None lets the SDK take it from the environment."""
    return f"{settings.otlp_endpoint}/v1/{signal}" if settings.otlp_endpoint else None


def _sampler(settings: TelemetrySettings) -> Sampler | None:
    """The sampler; None lets the SDK take it from the environment."""
    if settings.sample_ratio is None:
        return None
    return ParentBased(TraceIdRatioBased(settings.sample_ratio))


def telemetry_resource(settings: TelemetrySettings) -> Resource:
    """What all exported data says of this program."""
    # Includes OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.
    resource = Resource.create()
    known = str(resource.attributes.get(SERVICE_NAME, ""))
    own = {SERVICE_VERSION: version("toolscout")} | dict(resource.attributes)
    if settings.service_name or not known or known.startswith("unknown_service"):
        own[SERVICE_NAME] = settings.service_name or "toolscout"
    return Resource(own)


def _run_with_limit(actions: Sequence[Close]) -> None:
    """Run actions side by side, and wait for them no longer than the limit."""
    threads = [Thread(target=action, name="toolscout-otlp", daemon=True) for action in actions]
    for thread in threads:
        thread.start()
    # One limit for all of them: two collectors that hang must not take twice as long.
    end = time.monotonic() + _CLOSE_SECONDS
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))


class _OutageLog:
    """Logs when a collector stops taking data, once for each outage."""

    def __init__(self, signal: Signal, endpoint: str) -> None:
        self._signal = signal
        # Without a user and a password, which the address may have.
        self._host = urlsplit(endpoint).netloc.rpartition("@")[2]
        self._is_down = False

    def record(self, *, is_ok: bool) -> None:
        """Note the result of one export."""
        if not is_ok and not self._is_down:
            log.warning(
                "Cannot export %s to %s. Calls are not affected; the data is dropped.",
                self._signal,
                self._host,
            )
        self._is_down = not is_ok


class _SpanExporter(OTLPSpanExporter):
    """The SDK's exporter, which logs an outage once."""

    def __init__(self, *, endpoint: str | None, headers: Mapping[str, str]) -> None:
        super().__init__(endpoint=endpoint, headers=headers)
        self._outages = _OutageLog("traces", self._endpoint)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans."""
        result = super().export(spans)
        self._outages.record(is_ok=result is SpanExportResult.SUCCESS)
        return result


class _MetricExporter(OTLPMetricExporter):
    """The SDK's exporter, which logs an outage once."""

    def __init__(self, *, endpoint: str | None, headers: Mapping[str, str]) -> None:
        super().__init__(endpoint=endpoint, headers=headers)
        self._outages = _OutageLog("metrics", self._endpoint)

    def export(
        self, metrics_data: MetricsData, timeout_millis: float | None = 10_000, **kwargs: Any
    ) -> MetricExportResult:
        """Send metrics."""
        result = super().export(metrics_data, timeout_millis, **kwargs)  # pyright: ignore[reportUnknownMemberType] -- untyped keyword arguments in the SDK
        self._outages.record(is_ok=result is MetricExportResult.SUCCESS)
        return result
