"""Worker process that runs a jq program with no environment, no files and bounded resources.

A program written by a model may run forever, read the environment (`$ENV`) or load files
(`import`). Here the environment is empty, no file can be opened, and memory and time are limited.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from ..errors import require
from .json_cursor import Cursor, stream_items

# Elements are fed to jq in batches: one call each would be slow, all at once would need memory.
_BATCH_CHARS = 1 << 16


def main() -> None:
    """Run the program in the argument over standard input, and end stderr with a summary."""
    request: dict[str, Any] = json.loads(sys.argv[1])
    jq: Any = require("jq", extra="offload")
    stream = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace", newline="")
    # After the import and the stream, which need files; before the program is even compiled,
    # because compiling loads modules.
    _apply_limits(memory=request["memory_bytes"], seconds=request["seconds"])
    try:
        program = jq.compile(request["program"])
        ending = _print_outputs(_run_program(program, stream, request), request)
    except ValueError as error:
        ending = {"error": str(error).strip()}
    except MemoryError:
        ending = {"error": "out of memory"}
    sys.stderr.write("\n" + json.dumps(ending))


def _apply_limits(*, memory: int, seconds: float) -> None:
    os.environ.clear()
    with contextlib.suppress(ImportError):  # there is no such module on Windows
        import resource

        # The parent kills this process in time; the last limit is for a parent that died.
        limits = (
            (resource.RLIMIT_NOFILE, 0),
            (resource.RLIMIT_AS, memory),
            (resource.RLIMIT_CPU, int(seconds) + 2),
        )
        for kind, value in limits:
            # macOS refuses a limit of memory below what the process has mapped, which is much.
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(kind, (value, value))


def _run_program(program: Any, stream: TextIO, request: dict[str, Any]) -> Iterator[Any]:
    path: list[str] | None = request["stream"]
    if path is None:
        yield from program.input_text(stream.read())
        return
    batch: list[str] = []
    size = 0
    for item in stream_items(Cursor(stream.read), path):
        batch.append(item)
        size += len(item)
        if size >= _BATCH_CHARS:
            yield from program.input_text("\n".join(batch))
            batch, size = [], 0
    if batch:
        yield from program.input_text("\n".join(batch))


def _print_outputs(outputs: Iterator[Any], request: dict[str, Any]) -> dict[str, Any]:
    style: dict[str, Any] = {"separators": (",", ":")} if request["compact"] else {"indent": 2}
    room: int = request["output_bytes"]
    count = 0
    for count, value in enumerate(outputs, 1):
        is_raw = request["raw"] and isinstance(value, str)
        text = value if is_raw else json.dumps(value, ensure_ascii=False, **style)
        data = f"{text}\n".encode("utf-8", "replace")
        sys.stdout.buffer.write(data[:room])
        sys.stdout.buffer.flush()
        room -= len(data)
        if room <= 0:
            return {"outputs": count, "is_cut": True}
    return {"outputs": count, "is_cut": False}


if __name__ == "__main__":
    main()
