"""The near end of a comparison: a contestant as a child process, asked in JSON lines."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .contestants import LIMIT, Contestant
from .environments import python

_WORKER = Path(__file__).with_name("worker.py")
_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1"
)
PATIENCE_SECONDS = 900.0


class PeerError(Exception):
    """A contestant could not do what it was asked; the message is the reason, for the table."""


class Child:
    """One contestant in a process of its own, on one thread."""

    def __init__(self, contestant: Contestant, **options: Any) -> None:
        given = {"limit": LIMIT, **contestant.options, **options}
        interpreter = python(contestant)
        if not interpreter.is_file():
            raise PeerError("its environment could not be made")
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [interpreter, "-I", _WORKER, contestant.script, json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=os.environ | _ONE_THREAD,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def ask(
        self, operation: str, *, patience_seconds: float = PATIENCE_SECONDS, **asked: Any
    ) -> dict[str, Any]:
        """What it answers; raises PeerError with its reason, or when it takes too long."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"op": operation, **asked}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise PeerError(self._last_words()) from None
        said = json.loads(self._line(patience_seconds))
        if "error" in said:
            raise PeerError(said["error"])
        return said

    def _line(self, patience_seconds: float) -> bytes:
        out = self._process.stdout
        assert out is not None
        with selectors.DefaultSelector() as ready:
            ready.register(out, selectors.EVENT_READ)
            if not ready.select(patience_seconds):
                raise PeerError(f"no answer within {patience_seconds:.0f} s")
        line = out.readline()
        if not line:
            raise PeerError(self._last_words())
        return line

    def _last_words(self) -> str:
        self._process.wait()
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").split("\n")
        told = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return told[:300] or f"it ended with status {self._process.returncode}"
