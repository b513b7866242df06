"""Lines reach real receivers, wait for those that are down, and never hold up the caller."""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from tests.telemetry.collector import attributes_of, collecting
from tests.upstreams.processes import free_port

from toolscout.errors import ConfigError
from toolscout.telemetry.forwarding import ForwardedLine, Forwarder, ForwardingStatus
from toolscout.telemetry.forwarding_targets import open_receiver, parse_target
from toolscout.telemetry.otlp_settings import TelemetrySettings

HOST = "127.0.0.1"
MESSAGE = re.compile(
    r"<(\d+)>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) (\S+) toolscout (\d+) (\w+) - (\{.*\})"
)
NO_TELEMETRY = TelemetrySettings()


def line(number: int, **facts: Any) -> ForwardedLine:
    outcome = facts.setdefault("outcome", "ok")
    return ForwardedLine(
        time=1_790_000_000.25, kind="call", is_ok=outcome == "ok", facts={"n": number, **facts}
    )


@pytest.fixture
def forward() -> Iterator[Callable[..., Forwarder]]:
    opened: list[Forwarder] = []

    def start(target: str, *, max_lines: int = 100, telemetry: Any = NO_TELEMETRY) -> Forwarder:
        receiver = open_receiver(target, telemetry)
        opened.append(Forwarder(target, receiver, max_lines=max_lines))
        return opened[-1]

    yield start
    for forwarder in opened:
        forwarder.close()


def wait_for(forwarder: Forwarder, condition: Callable[[ForwardingStatus], bool]) -> None:
    """Wait until the counters are as wanted; they change in another thread."""
    deadline = time.monotonic() + 30
    while not condition(forwarder.status):
        assert time.monotonic() < deadline, forwarder.status
        os.sched_yield()


def read_framed(connection: socket.socket, count: int) -> list[str]:
    """Messages with their lengths in front, as RFC 6587 has them."""
    stream = connection.makefile("rb")
    messages: list[str] = []
    for _ in range(count):
        length = b""
        while (char := stream.read(1)) != b" ":
            assert char.isdigit()
            length += char
        messages.append(stream.read(int(length)).decode())
    return messages


def test_udp_receives_messages_of_rfc_5424(forward):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind((HOST, 0))
        receiver.settimeout(30)
        forwarder = forward(f"syslog+udp://{HOST}:{receiver.getsockname()[1]}")
        forwarder.add(line(1))
        forwarder.add(line(2, outcome="timeout", tool="ünï\n"))
        first, second = (receiver.recv(65_536).decode() for _ in range(2))
    found = MESSAGE.fullmatch(first)
    assert found is not None, first
    priority, moment, _, process, kind, text = found.groups()
    # Facility 13 is the audit log; 6 is information and 4 a warning.
    assert (priority, moment, kind) == ("110", "2026-09-21T14:13:20.250Z", "call")
    assert process == str(os.getpid())
    assert json.loads(text) == {"n": 1, "outcome": "ok"}
    assert second.startswith("<108>1 ")
    assert second.isascii()
    assert "\n" not in second
    assert json.loads(second.partition(" - ")[2])["tool"] == "ünï\n"


def test_a_local_socket_receives_messages(forward):
    # A socket's path may have 107 characters, fewer than the folders of pytest.
    place = Path(mkdtemp(prefix="syslog")) / "log"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(place))
        receiver.settimeout(30)
        forward(f"syslog+unix://{place}").add(line(7))
        assert MESSAGE.fullmatch(receiver.recv(65_536).decode())
    place.unlink()
    place.parent.rmdir()


def test_a_line_that_is_too_long_for_syslog_loses_its_arguments_and_says_so(forward):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind((HOST, 0))
        receiver.settimeout(30)
        forwarder = forward(f"syslog+udp://{HOST}:{receiver.getsockname()[1]}")
        forwarder.add(line(1, arguments={"key": "x" * 70_000}))
        message = receiver.recv(65_536).decode()
    facts = json.loads(message.partition(" - ")[2])
    assert facts == {"n": 1, "outcome": "ok", "arguments": {}, "left_out": ["arguments"]}


def test_lines_wait_for_a_tcp_receiver_that_is_down_and_are_sent_once_in_order(forward):
    port = free_port()
    forwarder = forward(f"syslog+tcp://{HOST}:{port}")
    for number in range(5):
        forwarder.add(line(number))
    wait_for(forwarder, lambda status: status.problem != "")
    assert forwarder.status.queued == 5
    with socket.create_server((HOST, port)) as server:
        server.settimeout(30)
        connection, _ = server.accept()
        with connection:
            connection.settimeout(30)
            messages = read_framed(connection, 5)
    assert [json.loads(MESSAGE.fullmatch(m)[6])["n"] for m in messages] == [0, 1, 2, 3, 4]  # type: ignore[index]
    wait_for(forwarder, lambda status: status.sent == 5)
    assert forwarder.status.problem == ""
    assert forwarder.status.dropped == 0


def test_a_tcp_receiver_that_restarts_gets_the_next_line(forward):
    port = free_port()
    forwarder = forward(f"syslog+tcp://{HOST}:{port}")
    for number in (1, 2):
        with socket.create_server((HOST, port)) as server:
            server.settimeout(30)
            forwarder.add(line(number))
            connection, _ = server.accept()
            connection.settimeout(30)
            with connection:
                (message,) = read_framed(connection, 1)
        assert json.loads(message.partition(" - ")[2])["n"] == number


def test_a_full_queue_drops_lines_and_counts_them_without_waiting(forward):
    with socket.create_server((HOST, 0), backlog=1) as server:
        # Accepts nothing and reads nothing, so the kernel's buffers fill up.
        forwarder = forward(f"syslog+tcp://{HOST}:{server.getsockname()[1]}", max_lines=3)
        text = "x" * 7_000
        started = time.monotonic()
        for number in range(5_000):
            forwarder.add(line(number, text=text))
        took = time.monotonic() - started
        status = forwarder.status
    assert took < 5
    assert status.dropped > 0
    assert status.queued <= 3
    assert status.dropped + status.queued + status.sent == 5_000


def test_a_collector_receives_log_records_and_those_it_missed_while_it_was_down(forward):
    port = free_port()
    settings = TelemetrySettings(otlp_endpoint=f"http://{HOST}:{port}", service_name="tools")
    forwarder = forward("otlp", telemetry=settings)
    forwarder.add(line(1, arguments={"to": "text(3)"}))
    wait_for(forwarder, lambda status: status.problem != "")
    assert forwarder.status.sent == 0
    with collecting(port) as collector:
        forwarder.add(line(2, outcome="timeout"))
        wait_for(forwarder, lambda status: status.sent == 2)
        first, second = collector.logs
    assert first.time_unix_nano == 1_790_000_000_250_000_000
    assert (first.severity_text, second.severity_text) == ("INFO", "WARN")
    assert first.event_name == "toolscout.call"
    assert json.loads(first.body.string_value) == {
        "n": 1, "arguments": {"to": "text(3)"}, "outcome": "ok",
    }  # fmt: skip
    assert attributes_of(first)["toolscout.arguments"] == '{"to": "text(3)"}'
    assert attributes_of(second)["toolscout.outcome"] == "timeout"


def test_closing_does_not_wait_for_a_receiver_that_is_down(forward):
    forwarder = forward(f"syslog+tcp://{HOST}:{free_port()}")
    forwarder.add(line(1))
    started = time.monotonic()
    forwarder.close()
    assert time.monotonic() - started < 8
    forwarder.add(line(2))
    assert forwarder.status.dropped == 1


def test_closing_sends_what_is_queued():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind((HOST, 0))
        receiver.settimeout(30)
        target = f"syslog+udp://{HOST}:{receiver.getsockname()[1]}"
        forwarder = Forwarder(target, open_receiver(target, NO_TELEMETRY), max_lines=1_000)
        for number in range(50):
            forwarder.add(line(number))
        forwarder.close()
        assert forwarder.status.sent == 50
        assert [b'"n":%d,' % n in receiver.recv(65_536) for n in range(50)] == [True] * 50


@pytest.mark.parametrize(
    "target",
    [
        "",
        "syslog+udp://host",
        "syslog+udp://:514",
        "syslog+tcp://host:99999",
        "syslog+tcp://host:601/path",
        "syslog+tcp://user:password@host:601",
        "syslog+unix://",
        "syslog+unix://host/dev/log",
        "http://host:514",
        "otlp://host",
        "file:///tmp/audit",
    ],
)
def test_a_target_that_is_not_one_is_refused_with_the_forms_that_are(target: str):
    with pytest.raises(ValueError, match=r"is not a target: write syslog, .* or otlp"):
        parse_target(target)


def test_otlp_without_a_collector_is_refused(monkeypatch: pytest.MonkeyPatch):
    for name in list(os.environ):
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)
    with pytest.raises(ConfigError, match="no collector is configured"):
        open_receiver("otlp", NO_TELEMETRY)


def test_a_host_that_does_not_exist_is_reported_and_tried_again(forward):
    forwarder = forward(f"syslog+udp://{'x' * 70}.invalid:514")
    forwarder.add(line(1))
    wait_for(forwarder, lambda status: status.problem != "")
    assert forwarder.status.queued == 1
