"""Sinks for events: structured logs, metrics, OpenTelemetry, Prometheus."""
