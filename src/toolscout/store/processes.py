"""Which process wrote a row or serves a state folder, and whether it is still running."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

RUNNING_FOLDER = "running"
"""Where gateways leave a record of themselves, in the state folder."""

_PROC = Path("/proc")
# Fields 1 and 2 of `/proc/PID/stat` are the process id and the name of the program, which may
# contain spaces; the start time is field 22.
_START_TIME = 22 - 3
# Constants of the Windows API.
_QUERY_LIMITED_INFORMATION = 0x1000
_STILL_ACTIVE = 259
_ACCESS_DENIED = 5


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


def list_running(folder: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    """The process id and the record of every gateway that still runs, by its record's file."""
    for path in sorted(folder.glob("*.json")):
        record = _read_record(path)
        # A process that was killed leaves its record behind.
        if path.stem.isdigit() and _is_alive(int(path.stem), record):
            yield int(path.stem), record


def _read_record(path: Path) -> Mapping[str, object]:
    try:
        record: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return cast("Mapping[str, object]", record) if isinstance(record, dict) else {}


def _is_alive(pid: int, record: Mapping[str, object]) -> bool:
    process = record.get("process")  # records of 0.1 have only the process id
    return is_running(process) is True if isinstance(process, str) else _exists(pid)


def _exists(pid: int) -> bool:
    if sys.platform == "win32":
        return _exists_on_windows(pid)
    try:
        os.kill(pid, 0)  # signal 0 only checks that the process exists
    except ProcessLookupError:
        return False
    except OSError:
        return True  # it belongs to another user
    return True


def _exists_on_windows(pid: int) -> bool:
    # There, os.kill(pid, 0) sends Ctrl-C instead of checking.
    import ctypes

    kernel: Any = getattr(ctypes, "windll").kernel32  # noqa: B009 - other systems have none
    handle = kernel.OpenProcess(_QUERY_LIMITED_INFORMATION, 0, pid)
    if not handle:
        return kernel.GetLastError() == _ACCESS_DENIED  # it belongs to another user
    code = ctypes.c_ulong()
    kernel.GetExitCodeProcess(handle, ctypes.byref(code))
    kernel.CloseHandle(handle)
    return code.value == _STILL_ACTIVE


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
    # A killed child that its parent has not collected yet no longer runs.
    return "" if fields[0] in "ZX" else f"{fields[_START_TIME]}-{boot[:8]}"
