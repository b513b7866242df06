"""Events made visible: structured logs, figures, OpenTelemetry."""
