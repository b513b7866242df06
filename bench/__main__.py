"""All benchmarks in one go: `python -m bench [--quick] [--only PART] [--resume] [--to FOLDER]`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import learning, machine, manipulation, retrieval, serving, speed, tokencost
from .catalogs import DATA, available
from .finished import FinishedParts
from .peers.contestants import PEERS
from .peers.environments import install
from .progress import Progress
from .report import write
from .sets import labelled_sets, packaged_sets, written_sets
from .targets import judged
from .work import FOLDER, ROOT

FEW = 25
ATTACKED = ("azure_mcp", "bfcl")
LOOKED_UP = "azure_mcp"


def parts(options: argparse.Namespace, progress: Progress) -> dict[str, Callable[[], Any]]:
    """What a run consists of, in its order."""
    is_quick: bool = options.quick
    at_most = FEW if is_quick else None
    sets = labelled_sets(at_most=at_most)
    effort = speed.QUICK if is_quick else speed.Effort()
    observed = labelled_sets(at_most=4 * FEW if is_quick else None)
    attacked = [s for s in labelled_sets() if s.name in ATTACKED[: 1 if is_quick else 2]]

    def tokens() -> dict[str, Any]:
        chosen = next(s for s in sets if s.name == LOOKED_UP)
        return tokencost.measure(is_quick=is_quick, progress=progress) | {
            "lookup": tokencost.lookups(chosen, progress=progress)
        }

    def retrieved() -> list[dict[str, Any]]:
        asked = [*sets, *packaged_sets(at_most=at_most, say=progress.say)]
        asked += written_sets(at_most=at_most)
        return retrieval.measure(asked, specs=options.embedder, progress=progress)

    return {
        "retrieval": retrieved,
        "speed": lambda: speed.measure(effort, progress=progress),
        "tokens": tokens,
        "gateway": lambda: serving.measure(is_quick=is_quick, progress=progress),
        "learning": lambda: learning.measure(observed, progress=progress),
        "manipulation": lambda: {
            "tools": manipulation.measure(
                attacked, targets=10 if is_quick else 100, progress=progress
            ),
            "calls": learning.measure_hostile(observed, progress=progress),
        },
    }


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure everything asked for."""
    progress = Progress()
    report: dict[str, Any] = {"machine": machine.described(), "is_quick": options.quick}
    for name, reason in install(PEERS, say=progress.say).items():
        progress.say(f"{name} could not be installed: {reason}")
    finished = FinishedParts.of_this_code(is_quick=options.quick)
    report["parts_s"] = {}
    for name, measure in parts(options, progress).items():
        if not options.only or name in options.only:
            part = finished.read(name) if options.resume else None
            if part is None:
                started = time.monotonic()
                part = finished.write(name, measure(), seconds=time.monotonic() - started)
            report[name], report["parts_s"][name] = part
    report["took_s"] = sum(report["parts_s"].values())
    return report


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    asked.add_argument("--quick", action="store_true", help="a part of the queries and sizes")
    asked.add_argument("--only", action="append", default=[], help="this part; may be repeated")
    asked.add_argument("--resume", action="store_true", help="keep what this code measured before")
    asked.add_argument("--embedder", action="append", default=[], help="one more embedder")
    asked.add_argument("--to", type=Path, help="the folder to write to")
    options = asked.parse_args()
    if not available():
        sys.exit(f"The public sets are not at {DATA}: set TOOLSCOUT_DATA to their folder.")
    partial = options.quick or options.only
    folder = options.to or (FOLDER / "report" if partial else ROOT / "docs")
    report = run(options)
    for target in judged(report):
        print(f"{target.verdict:14} {target.promise}: {target.measured}")
    print(f"Report: {write(report, folder)}")


if __name__ == "__main__":
    main()
