"""The metrics: those of the GenAI conventions, and our own for discovery."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TOKEN_BOUNDS = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304]
_SECOND_BOUNDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96]
_MS_BOUNDS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 1000]


class Meters:
    """Every instrument of one meter, and what is recorded with it."""

    def __init__(self, meter: Any) -> None:
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            explicit_bucket_boundaries_advisory=_TOKEN_BOUNDS,
        )
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            explicit_bucket_boundaries_advisory=_SECOND_BOUNDS,
        )
        self._latency = meter.create_histogram(
            "toolscout.discovery.duration",
            unit="ms",
            explicit_bucket_boundaries_advisory=_MS_BOUNDS,
        )
        self._per_run = meter.create_histogram(
            "toolscout.run.tokens",
            unit="{token}",
            explicit_bucket_boundaries_advisory=_TOKEN_BOUNDS,
        )
        self._searches = meter.create_counter("toolscout.discovery.searches", unit="{search}")
        self._misses = meter.create_counter("toolscout.discovery.misses", unit="{search}")
        self.hits = meter.create_counter("toolscout.discovery.hits", unit="{search}")
        self._calls = meter.create_counter("toolscout.tool.calls", unit="{call}")

    def model(self, facts: Mapping[str, Any], attributes: Mapping[str, Any]) -> None:
        """One request of a model."""
        for kind, fact in (("input", "input_tokens"), ("output", "output_tokens")):
            if fact in facts:
                self._tokens.record(facts[fact], {**attributes, "gen_ai.token.type": kind})
        self._duration.record(float(facts.get("took_ms", 0.0)) / 1000, dict(attributes))

    def run(self, facts: Mapping[str, Any], kind: str) -> None:
        """A whole run, by its kind."""
        spent = int(facts.get("input_tokens", 0)) + int(facts.get("output_tokens", 0))
        self._per_run.record(spent, {"toolscout.request_type": kind})

    def discovery(self, facts: Mapping[str, Any]) -> None:
        """One search."""
        self._searches.add(1)
        if not facts.get("names"):
            self._misses.add(1)
        self.arm("all", float(facts.get("took_ms", 0.0)))

    def arm(self, name: str, milliseconds: float) -> None:
        """How long one arm of the search took, or `all` of it."""
        self._latency.record(milliseconds, {"toolscout.arm": name})

    def call(self, facts: Mapping[str, Any]) -> None:
        """One call of a tool."""
        attributes = {"gen_ai.tool.name": facts.get("tool"), "error.type": facts.get("code")}
        self._calls.add(1, {k: v for k, v in attributes.items() if v})
