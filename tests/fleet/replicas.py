"""Several gateways on loopback that share one PostgreSQL, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp import Client
from mcp_types import CallToolResult, TextContent
from tests.store.postgres_server import shared_server

PROGRAM = [sys.executable, "-m", "toolscout.cli"]


@dataclass
class Replica:
    """One gateway: its address and its process."""

    url: str
    process: subprocess.Popen[str]

    def client(self, mode: str = "auto", **options: Any) -> Client:
        return Client(self.url, mode=mode, **options)


class Fleet:
    """One configuration and one database; every replica has an empty folder of its own."""

    def __init__(self, folder: Path, servers: dict[str, Any], **sections: Any) -> None:
        self._folder = folder
        self._config = folder / "mcp.json"
        self._config.write_text(json.dumps({"mcpServers": servers, **sections}))
        self.database = shared_server().new_database()

    @contextmanager
    def replicas(self, *names: str) -> Iterator[list[Replica]]:
        with ExitStack() as stack:
            processes = [stack.enter_context(self._start(name)) for name in names]
            yield [Replica(_read_address(process), process) for process in processes]

    def run(self, *command: str) -> str:
        """Run a command of the operator, as on another machine."""
        done = subprocess.run(
            [*PROGRAM, *command, "--config", str(self._config)],
            env=self._environment("operator"), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def _start(self, name: str) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(
            [*PROGRAM, "serve", "--config", str(self._config), "--http", "127.0.0.1:0"],
            env=self._environment(name), stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                process.kill()

    def _environment(self, name: str) -> dict[str, str]:
        home = str(self._folder / name)
        own = {"TOOLSCOUT_HOME": home, "TOOLSCOUT_STORE": self.database}
        return {**os.environ, **own, "TOOLSCOUT_EMBEDDER": "none"}


def _read_address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if "/mcp" in line:
            return line.split()[-1]
    raise AssertionError("The gateway ended before it listened.")


def text(result: CallToolResult) -> str:
    return "\n".join(c.text for c in result.content if isinstance(c, TextContent))


async def call(client: Client, tool: str, **arguments: Any) -> CallToolResult:
    """Call an upstream's tool."""
    result = await client.call_tool("call_tool", {"name": tool, "arguments": arguments})
    assert isinstance(result, CallToolResult)
    return result
