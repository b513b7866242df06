"""Which process wrote a row, and whether it is still running."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path

_PROC = Path("/proc")
# Fields 1 and 2 of `/proc/PID/stat` are the process id and the name of the program, which may
# contain spaces; the start time is field 22.
_START_TIME = 22 - 3


def current_process() -> str:
    """This process as `host:pid:token`; the token tells it from a later one with the same id."""
    return _describe(os.getpid())


def is_running(process: str) -> bool | None:
    """Whether a process is still running; None if it belongs to another machine."""
    host, _, rest = process.rpartition(":")[0].rpartition(":")
    token = process.rpartition(":")[2]
    if host != _host() or not rest.isdigit():
        return None
    return _start_token(int(rest)) == token if token else _exists(int(rest))


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)  # signal 0 only checks that the process exists
    except ProcessLookupError:
        return False
    except OSError:
        return True  # it belongs to somebody else
    return True


@cache
def _describe(pid: int) -> str:  # with the id, so that a forked child has its own
    return f"{_host()}:{pid}:{_start_token(pid)}"


@cache
def _host() -> str:
    return socket.gethostname()


def _start_token(pid: int) -> str:
    """When a process started, in ticks since a certain boot; empty where `/proc` is missing."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="utf-8")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    # A killed child that its parent has not collected yet runs no more.
    return "" if fields[0] in "ZX" else f"{fields[_START_TIME]}-{boot[:8]}"
