"""An OTLP collector on loopback that decodes what it receives."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span


def value_of(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(each) for each in value.array_value.values]
    return getattr(value, kind) if kind else None


def attributes_of(item: Any) -> dict[str, Any]:
    return {each.key: value_of(each.value) for each in item.attributes}


@dataclass
class Collector:
    """All requests so far, raw and decoded."""

    url: str = ""
    bodies: list[tuple[str, bytes]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def raw(self) -> bytes:
        return b"".join(body for _, body in self.bodies)

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for path, body in self.bodies
            if path == "/v1/traces"
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def span(self, name: str) -> Span:
        (span,) = [each for each in self.spans if each.name == name]
        return span

    @property
    def resource(self) -> dict[str, Any]:
        body = next(body for path, body in self.bodies if path == "/v1/traces")
        return attributes_of(ExportTraceServiceRequest.FromString(body).resource_spans[0].resource)

    @property
    def logs(self) -> list[LogRecord]:
        return [
            record
            for path, body in self.bodies
            if path == "/v1/logs"
            for resource in ExportLogsServiceRequest.FromString(body).resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]

    @property
    def metrics(self) -> dict[str, list[dict[str, Any]]]:
        """The attributes of all points by metric, of the last export."""
        body = [body for path, body in self.bodies if path == "/v1/metrics"][-1]
        found: dict[str, list[dict[str, Any]]] = {}
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points = getattr(metric, metric.WhichOneof("data") or "sum").data_points
                    found[metric.name] = [attributes_of(point) for point in points]
        return found


@contextmanager
def collecting(port: int = 0) -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.headers["content-type"] == "application/x-protobuf"
            collector.headers.append({k.lower(): v for k, v in self.headers.items()})
            collector.bodies.append((self.path, body))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- http.server's name
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    collector.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
