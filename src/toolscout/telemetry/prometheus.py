"""Sink that counts events and renders them in the Prometheus text format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from threading import Lock

from ..events import (
    DiscoveryResultEvent,
    Event,
    LearningFailureEvent,
    RankerTimeEvent,
    RequestRefusedEvent,
    ShadowRankEvent,
    ToolCallEvent,
    ToolHeldEvent,
    ToolNotFoundEvent,
    ToolRefusedEvent,
    UpstreamEvent,
)
from ..sources.server_status import UP_STATUSES

_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


_Series = tuple[str, tuple[tuple[str, str], ...]]
"""The name of a metric, and its labels in order."""


class PrometheusMetrics:
    """A thread-safe sink that counts events."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: Counter[_Series] = Counter()
        self._buckets: Counter[tuple[_Series, float]] = Counter()
        self._seconds: Counter[_Series] = Counter()
        self._observed: Counter[_Series] = Counter()

    def __call__(self, event: Event) -> None:
        """Count one event."""
        with self._lock:
            match event:
                case ToolCallEvent():
                    self._count("calls", server=event.server, outcome=_outcome(event))
                    self._observe("call", event.took_ms)
                case DiscoveryResultEvent():
                    self._count("searches", found="yes" if event.names else "no")
                    self._observe("search", event.took_ms)
                case RankerTimeEvent():
                    self._observe("ranker", event.took_ms, ranker=event.arm)
                case ToolRefusedEvent() | RequestRefusedEvent():
                    times = event.times if isinstance(event, RequestRefusedEvent) else 1
                    # Without a code the tool was not in view, which counts as unknown.
                    self._count("refusals", times, code=event.code or "unknown_tool")
                case ToolNotFoundEvent():
                    self._count("refusals", code="unknown_tool")
                case ToolHeldEvent():
                    self._count("held", server=event.server)
                case ShadowRankEvent():
                    self._count_ranks(event)
                case LearningFailureEvent():
                    self._count("learning_failures")
                case UpstreamEvent():
                    name = event.kind.removeprefix("upstream_")
                    self._count("upstream_events", server=event.server, event=name)
                case _:
                    pass

    def _count_ranks(self, event: ShadowRankEvent) -> None:
        self._count("shadow_calls")
        for ranking, rank in (("base", event.base), ("learned", event.learned)):
            for depth in (1, 5):
                if rank <= depth:
                    self._count("shadow_hits", ranking=ranking, within=str(depth))

    def _count(self, name: str, times: int = 1, /, **labels: str) -> None:
        self._counts[name, tuple(sorted(labels.items()))] += times

    def _observe(self, name: str, milliseconds: float, **labels: str) -> None:
        seconds = milliseconds / 1_000
        series = name, tuple(sorted(labels.items()))
        self._observed[series] += 1
        self._seconds[series] += seconds  # pyright: ignore[reportArgumentType] -- a Counter of floats
        # Buckets are cumulative: a value counts in every bucket that it fits in.
        for bound in _BOUNDS:
            if seconds <= bound:
                self._buckets[series, bound] += 1

    def render(
        self,
        servers: Iterable[tuple[str, str]],
        gauges: Mapping[str, float],
        *,
        only_servers: Collection[str] | None = None,
    ) -> str:
        """All metrics in the text format; `servers` are pairs of name and status.

        With `only_servers`, only what was counted for these servers.
        """
        with self._lock:
            lines = [*self._counters(only_servers)]
            lines += self._histograms() if only_servers is None else ()
        lines += _upstream_gauge(servers)
        for name, value in gauges.items():
            lines += [f"# TYPE toolscout_{name} gauge", f"toolscout_{name} {value:g}"]
        return "\n".join(lines) + "\n"

    def _counters(self, only_servers: Collection[str] | None) -> Iterator[str]:
        # The format wants one TYPE line before all samples of a metric.
        previous = ""
        for (name, labels), value in sorted(self._counts.items()):
            if only_servers is not None and dict(labels).get("server") not in only_servers:
                continue
            if name != previous:
                yield f"# TYPE toolscout_{name}_total counter"
                previous = name
            yield f"toolscout_{name}_total{_render_labels(dict(labels))} {value}"

    def _histograms(self) -> Iterator[str]:
        previous = ""
        for series, count in sorted(self._observed.items()):
            name, labels = series[0], dict(series[1])
            metric, end = f"toolscout_{name}_seconds", _render_labels(labels)
            if name != previous:
                yield f"# TYPE {metric} histogram"
                previous = name
            for bound in _BOUNDS:
                bucket = _render_labels({**labels, "le": f"{bound:g}"})
                yield f"{metric}_bucket{bucket} {self._buckets[series, bound]}"
            yield f"{metric}_bucket{_render_labels({**labels, 'le': '+Inf'})} {count}"
            yield f"{metric}_sum{end} {self._seconds[series]:g}"
            yield f"{metric}_count{end} {count}"


def _outcome(event: ToolCallEvent) -> str:
    if not event.is_error:
        return "ok"
    return "cancelled" if event.code == "cancelled" else "error"


def _upstream_gauge(servers: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield "# TYPE toolscout_upstream_up gauge"
    for server, status in servers:
        labels = _render_labels({"server": server, "status": status})
        yield f"toolscout_upstream_up{labels} {int(status in UP_STATUSES)}"


def _render_labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{k}="{_escape(v)}"' for k, v in labels.items()) + "}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
