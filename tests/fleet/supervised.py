"""A gateway with several workers in processes of their own, and clients at a chosen worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

PROGRAM = [sys.executable, "-m", "toolscout.cli"]
WORKERS = 2
DEADLINE_SECONDS = 60.0
TOKEN = "t0ken-of-alice-0123456789"
ACCEPT = {"accept": "application/json, text/event-stream"}


def children(pid: int) -> list[int]:
    """The processes that a process has started and that run."""
    command = ["ps", "-A", "-o", "pid=,ppid=,stat="]
    rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = (row.split() for row in rows)
    return sorted(int(p) for p, parent, stat in found if int(parent) == pid and stat[0] != "Z")


def family(pid: int) -> list[int]:
    """A process and all that it has started, in turn."""
    return [pid, *(each for child in children(pid) for each in family(child))]


def is_running(pid: int) -> bool:
    return pid in _running()


def _running() -> set[int]:
    rows = subprocess.run(
        ["ps", "-A", "-o", "pid=,stat="], capture_output=True, text=True, check=True
    )
    found = (row.split() for row in rows.stdout.splitlines())
    return {int(pid) for pid, stat in found if stat[0] != "Z"}


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Supervised:
    """`toolscout serve --workers`; its output goes to a file."""

    def __init__(
        self, folder: Path, servers: dict[str, Any], *, store: str, **sections: Any
    ) -> None:
        folder.mkdir()
        self._log = folder / "log"
        config = folder / "mcp.json"
        auth = {"tokens": {"alice": TOKEN}}
        self._config = config
        config.write_text(json.dumps({"mcpServers": servers, "auth": auth, **sections}))
        self._command = [*PROGRAM, "serve", "--config", str(config), "--http", "127.0.0.1:0"]
        self.state = folder / "home" / "state"
        own = {"TOOLSCOUT_HOME": str(folder / "home"), "TOOLSCOUT_EMBEDDER": "none"}
        self._environment = {**os.environ, **own, "TOOLSCOUT_STORE": store}
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def base(self) -> str:
        (line,) = (line for line in self.log.splitlines() if line.startswith("Toolscout serves"))
        return line.split()[-1].removesuffix("/mcp")

    def start(self) -> None:
        """Start it with two workers, and wait until both answer."""
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*self._command, "--workers", str(WORKERS)], env=self._environment, stderr=log
            )
        wait_until(lambda: "/mcp" in self.log and len(self.workers) == WORKERS)
        for worker in self.workers:
            self.wait_for(worker)

    @property
    def workers(self) -> list[int]:
        return children(self.pid)

    def wait_for(self, worker: int) -> None:
        """Wait until a worker answers."""

        def answers() -> bool:
            try:
                with self._stop_others(worker):
                    return httpx2.get(f"{self.base}/health/live", trust_env=False).is_success
            except httpx2.HTTPError:
                return False

        wait_until(answers)

    def run(self, *command: str) -> None:
        """Run a command of the operator."""
        subprocess.run(
            [*PROGRAM, *command, "--config", str(self._config)],
            env=self._environment, capture_output=True, check=True,
        )  # fmt: skip

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(DEADLINE_SECONDS)

    @contextmanager
    def _stop_others(self, worker: int) -> Iterator[None]:
        """Let only one worker accept connections meanwhile."""
        others = [pid for pid in self.workers if pid != worker]
        for pid in others:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in others:
                os.kill(pid, signal.SIGCONT)

    @asynccontextmanager
    async def http_at(self, worker: int, token: str = TOKEN) -> AsyncIterator[httpx2.AsyncClient]:
        """An HTTP client whose only connection was accepted by this worker."""
        authorization = {"authorization": f"Bearer {token}"} if token else {}
        limits = httpx2.Limits(max_connections=1, keepalive_expiry=DEADLINE_SECONDS)
        async with httpx2.AsyncClient(
            base_url=self.base,
            limits=limits,
            trust_env=False,
            headers={**ACCEPT, **authorization},
            timeout=DEADLINE_SECONDS,
        ) as http:
            with self._stop_others(worker):
                assert (await http.get("/health/live")).is_success
            yield http

    @asynccontextmanager
    async def client_at(self, worker: int, **options: Any) -> AsyncIterator[Client]:
        """An MCP client without a handshake whose requests arrive at this worker."""
        async with self.http_at(worker) as http:
            transport = streamable_http_client(f"{self.base}/mcp", http_client=http)
            async with Client(transport, mode="2026-07-28", **options) as client:
                yield client
