"""What a report was measured on, without saying whose machine it is."""

from __future__ import annotations

import datetime as dt
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .peers.contestants import PEERS


def described() -> dict[str, Any]:
    """The day, the machine and the versions."""
    return {
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "memory_gb": round(_memory_gb()),
        "processor": _processor(),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "toolscout": version("toolscout"),
        "load_before": round(os.getloadavg()[0], 2),
        "peers": {peer.label: f"{peer.package} {peer.version}" for peer in PEERS},
    }


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)


def _processor() -> str:
    """The model as the kernel names it; the architecture where it does not."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.machine()
