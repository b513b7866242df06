"""A gateway behind a pipe that is told to stop: it ends, and so does every server it started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.conftest import small

# Never answers, and does not let itself be asked to go.
STUBBORN = """
import os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
time.sleep(600)
"""


def said(process: subprocess.Popen[bytes], method: str, number: int = 0, **params: Any) -> None:
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    assert process.stdin is not None
    process.stdin.write(json.dumps({**message, **({"id": number} if number else {})}).encode())
    process.stdin.write(b"\n")
    process.stdin.flush()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows ends its processes in other ways")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, None])
def test_it_stops_on_request_or_when_left_and_no_server_stays(
    tmp_path: Path, how: signal.Signals | None
) -> None:
    os.mkfifo(tmp_path / "gate")
    pid = tmp_path / "pid"
    os.mkfifo(pid)
    servers = {
        "slow": small("gated", str(tmp_path)),
        "stubborn": {"command": sys.executable, "args": ["-c", STUBBORN, str(pid)]},
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    with subprocess.Popen(
        [sys.executable, "-m", "toolscout.cli", "serve", "--stdio", "--config", "mcp.json"],
        cwd=tmp_path,
        env={**os.environ, "TOOLSCOUT_HOME": str(tmp_path / "home"), "TOOLSCOUT_EMBEDDER": "none"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        who = {"name": "test", "version": "1"}
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who}
        said(process, "initialize", 1, **hello)
        assert process.stdout is not None
        assert b'"result"' in process.stdout.readline()
        said(process, "notifications/initialized")
        call = {"name": "slow__echo", "arguments": {"text": "x"}}
        said(process, "tools/call", 2, name="call_tool", arguments=call)
        stubborn = int(pid.read_text())
        if how is None:
            assert process.stdin is not None
            process.stdin.close()
        else:
            process.send_signal(how)
        assert process.wait(timeout=60) == 0
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
    with pytest.raises(ProcessLookupError):
        os.kill(stubborn, 0)
