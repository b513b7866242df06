"""`toolscout serve` forwards the lines of its audit log, and says when it cannot."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.attack.lab import Lab, Target, bad
from tests.telemetry.collector import collecting
from tests.upstreams.processes import free_port

from toolscout.events import ToolCallEvent, stamp
from toolscout.gateway.operations.audit import AuditFile
from toolscout.gateway.operations.rotation import RotationLimits

SERVERS = {"ok": bad("ok")}


class Syslog:
    """A receiver of syslog over TCP, which can go away and come back."""

    def __init__(self) -> None:
        self.port = free_port()
        self.received: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.closed = asyncio.Event()

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                length = await reader.readuntil(b" ")
                message = (await reader.readexactly(int(length))).decode()
                self.received.put_nowait(json.loads(message.partition(" - ")[2]))
        except asyncio.IncompleteReadError:
            pass  # the gateway has ended
        finally:
            writer.close()
            self.closed.set()

    async def start(self) -> asyncio.Server:
        return await asyncio.start_server(self._read, "127.0.0.1", self.port)

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(30):
            return await self.received.get()


async def metrics(target: Target) -> str:
    async with httpx2.AsyncClient() as http:
        return (await http.get(f"{target.base}/metrics")).text


async def test_calls_reach_a_receiver_also_those_made_while_it_was_down(tmp_path: Path):
    syslog = Syslog()
    name = f"syslog+tcp://127.0.0.1:{syslog.port}"
    async with Lab(tmp_path).gateway(SERVERS, gateway={"audit_forward": [name]}) as target:
        assert await target.call("ok__echo", text="secret-text") == "secret-text"
        async with asyncio.timeout(30):
            while not (problems := (await target.health()).get("problems")):  # noqa: ASYNC110 -- no event
                await asyncio.sleep(0.05)
        assert any(name in problem for problem in problems)
        assert (await target.health())["status"] == "degraded"
        server = await syslog.start()
        first = await syslog.next()
        assert (first["tool"], first["outcome"], first["server"]) == ("ok__echo", "ok", "ok")
        assert first["arguments"] == {"text": "text(11)"}
        await target.call("ok__echo", text="again")
        second = await syslog.next()
        assert second["arguments"] == {"text": "text(5)"}
        assert second["id"] != first["id"]
        health = await target.health()
        assert health["status"] == "ready"
        (state,) = health["audit_forwarding"]
        assert (state["target"], state["dropped"], state["problem"]) == (name, 0, "")
        text = await metrics(target)
        assert f'toolscout_audit_dropped_total{{target="{name}"}} 0' in text
        assert f'toolscout_audit_sent_total{{target="{name}"}} 2' in text
    async with asyncio.timeout(30):
        await syslog.closed.wait()
    server.close()


async def test_calls_reach_a_collector_without_an_audit_file(tmp_path: Path):
    options = {"audit_forward": ["otlp"], "audit": "off"}
    with collecting() as collector:
        telemetry = {"otlp_endpoint": collector.url, "traces": False, "metrics": False}
        lab = Lab(tmp_path)
        async with lab.gateway(SERVERS, gateway=options, telemetry=telemetry) as target:
            await target.call("ok__echo", text="x")
            target.process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(target.process.wait, 30)
            # Sent at the end at the latest.
            (record,) = collector.logs
    assert json.loads(record.body.string_value)["tool"] == "ok__echo"
    assert not (tmp_path / "home" / "state" / "audit.jsonl").exists()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("syslog+udp://nowhere", "is not a target: write syslog, syslog+udp://HOST:PORT"),
        ("otlp", "no collector is configured"),
    ],
)
def test_a_bad_target_stops_the_start_with_the_reason(tmp_path: Path, target: str, message: str):
    config = {"mcpServers": SERVERS, "gateway": {"audit_forward": [target]}}
    (tmp_path / "mcp.json").write_text(json.dumps(config))
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-m", "toolscout.cli", "serve", "--config", "mcp.json", "--http", "0"],
        cwd=tmp_path,
        env={**inherited, "TOOLSCOUT_HOME": str(tmp_path), "TOOLSCOUT_EMBEDDER": "none"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_full_audit_file_is_rotated_and_the_oldest_one_dropped(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    limits = RotationLimits(max_bytes=1_000, max_files=3)
    # Two gateways that share the file.
    audits = [AuditFile(path, rotation=limits) for _ in range(2)]
    for number in range(60):
        audits[number % 2](stamp(ToolCallEvent(id=str(number), tool=f"tool-{number}")))
    files = [path, *(tmp_path / f"audit.jsonl.{n}" for n in (1, 2))]
    assert not (tmp_path / "audit.jsonl.3").exists()
    lines = [line for file in reversed(files) for line in file.read_text().splitlines()]
    tools = [json.loads(line)["tool"] for line in lines]
    assert tools == [f"tool-{n}" for n in range(60 - len(tools), 60)]
    assert 10 < len(tools) < 30
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert all(file.stat().st_size < 1_300 for file in files)
