"""What the gateway adds: runs the gateway's own benchmarks and takes over what they print."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from .progress import Progress
from .work import ROOT

QUICK = {"gateway_latency": ("40",), "gateway_load": ("10", "3")}
"""Smaller runs of the benchmarks that take long."""

_PATIENCE_SECONDS = 600


def measure(*, is_quick: bool, progress: Progress) -> dict[str, Any]:
    """The figures of every gateway benchmark by its name; a reason where there are none."""
    found: dict[str, Any] = {}
    for script in sorted((ROOT / "bench").glob("gateway*.py")):
        progress.say(f"gateway · {script.stem}")
        given = QUICK.get(script.stem, ()) if is_quick else ()
        found[script.stem] = _run([sys.executable, str(script), *given])
    return found


def _run(command: list[str]) -> dict[str, Any]:
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=_PATIENCE_SECONDS,
        )
        return json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {"reason": f"no answer within {_PATIENCE_SECONDS} s"}
    except subprocess.CalledProcessError as error:
        lines = str(error.stderr).strip().splitlines()
        return {"reason": (lines or [f"it ended with status {error.returncode}"])[-1][:300]}
    except ValueError:
        return {"reason": "it printed no JSON"}
