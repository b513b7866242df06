"""Where traces and metrics are exported to: the `[telemetry]` table and the OTEL_* variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ..errors import ConfigError

Signal = Literal["traces", "metrics", "logs"]
ENDPOINT_VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"
_PROTOCOL = "http/protobuf"


def _check_endpoint(value: str) -> str:
    parts = urlsplit(value)
    if value and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError("it is not an http(s) address such as http://localhost:4318")
    return value.rstrip("/")


class TelemetrySettings(BaseModel):
    """The `[telemetry]` table; other values come from the OTEL_* variables."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    otlp_endpoint: Annotated[str, AfterValidator(_check_endpoint)] = ""
    """The collector's address, without `/v1/traces`; empty means OTEL_EXPORTER_OTLP_ENDPOINT."""

    otlp_protocol: Literal["http/protobuf"] = _PROTOCOL
    """The protocol of the collector."""

    # Left out of repr(), which may end up in a log: they hold keys.
    otlp_headers: Mapping[str, str] = Field(default_factory=dict[str, str], repr=False)
    """Headers of every export, besides those of OTEL_EXPORTER_OTLP_HEADERS."""

    service_name: str = ""
    """Empty means OTEL_SERVICE_NAME, or else `toolscout`."""

    traces: bool = True
    """Whether spans are exported."""

    metrics: bool = True
    """Whether metrics are exported."""

    content: bool = False
    """Whether arguments, queries and error messages are exported, not only their shapes."""

    sample_ratio: float | None = Field(default=None, ge=0, le=1)
    """The share of traces that is exported; a caller's own decision takes precedence."""

    export_interval_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """How often metrics are sent; unset means OTEL_METRIC_EXPORT_INTERVAL, or every minute."""


def enabled_signals(
    settings: TelemetrySettings, environment: Mapping[str, str]
) -> frozenset[Signal]:
    """The signals that have a collector and are not switched off."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return frozenset()
    signals: tuple[tuple[Signal, bool], ...] = (
        ("traces", settings.traces),
        ("metrics", settings.metrics),
    )
    return frozenset(
        signal
        for signal, is_wanted in signals
        if is_wanted and has_endpoint(settings, signal, environment)
    )


def has_endpoint(
    settings: TelemetrySettings, signal: Signal, environment: Mapping[str, str]
) -> bool:
    """Whether a signal has a collector."""
    return bool(settings.otlp_endpoint) or _is_in_environment(signal, environment)


def _is_in_environment(signal: Signal, environment: Mapping[str, str]) -> bool:
    name = signal.upper()
    exporters = environment.get(f"OTEL_{name}_EXPORTER") or "otlp"
    endpoint = environment.get(f"OTEL_EXPORTER_OTLP_{name}_ENDPOINT") or environment.get(
        ENDPOINT_VARIABLE
    )
    return bool(endpoint) and "otlp" in (each.strip() for each in exporters.split(","))


def check_protocol(signals: frozenset[Signal], environment: Mapping[str, str]) -> None:
    """Raise if the environment asks for a protocol that is not supported."""
    for signal in sorted(signals):
        name = f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL"
        name = name if environment.get(name) else "OTEL_EXPORTER_OTLP_PROTOCOL"
        protocol = environment.get(name) or _PROTOCOL
        if protocol != _PROTOCOL:
            raise ConfigError(
                f"{name} is {protocol!r}, which is not supported.",
                hint=f"Use {_PROTOCOL}; collectors accept it on port 4318.",
            )
