"""Runs a jq program over a stored result in a worker process with a time limit."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from ..errors import require
from .limits import MEGABYTE, OffloadLimits

MAX_PROGRAM_CHARS = 10_000
# More output than this is cut to `answer_tokens` anyway.
_OUTPUT_BYTES_PER_TOKEN = 8
# `.a.b[]`, then more plain steps, then nothing or a pipe: such a program gives the same outputs if
# each element of the array is fed to the rest of it separately.
_TEXT = r'"(?:[^"\\]|\\["\\/bfnrtu])*"'
_KEY = rf"\.[A-Za-z_]\w*|\.{_TEXT}|\.?\[{_TEXT}\]"
_STREAMABLE = re.compile(
    rf"\s*(?:(?P<path>(?:{_KEY})+)\.?|\.)\[\](?P<steps>(?:{_KEY}|\[\d*\])*)\s*"
    r"(?:\|(?P<rest>.*))?",
    re.DOTALL,
)
_ONE_KEY = re.compile(_KEY)
_MODULE = re.compile(r"(?:\s|#[^\n]*\n)*(?:import|include|module)\b")


class JqError(ValueError):
    """The query failed; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class JqQuery:
    """A jq program and the format of its output."""

    program: str
    is_compact: bool = False
    is_raw: bool = False


@dataclass(frozen=True, slots=True)
class JqOutput:
    """What the program printed, and why it is incomplete, if it is."""

    text: str
    outputs: int
    stopped: str = ""


async def run_jq(stream: BinaryIO, query: JqQuery, *, limits: OffloadLimits) -> JqOutput:
    """Run a jq program over an open file, within the limits; JqError if it fails."""
    require("jq", extra="offload")
    _check_program(query.program)
    size = os.fstat(stream.fileno()).st_size
    request = json.dumps(_build_request(query, size=size, limits=limits))
    output, ending = await _run_worker(stream, request, seconds=limits.query_seconds)
    text = output.decode("utf-8", "replace").removesuffix("\n")
    if "error" in ending:
        raise JqError(f"jq: {ending['error']}")
    outputs = int(ending.get("outputs", text.count("\n") + bool(text)))
    if ending.get("is_late"):
        late = f"stopped after {limits.query_seconds:g} seconds"
        if not text:
            raise JqError(f"jq {late}. Write a program that does less, or use search.")
        return JqOutput(text, outputs, late)
    return JqOutput(text, outputs, "the output is longer than this" if ending["is_cut"] else "")


def _check_program(program: str) -> None:
    if "\0" in program:
        raise JqError("A query cannot hold a NUL character.")
    if not program.strip():
        raise JqError("The query is empty. Write a jq program, such as '.' or '.items[]'.")
    if len(program) > MAX_PROGRAM_CHARS:
        raise JqError(f"The query has more than {MAX_PROGRAM_CHARS:,} characters.")
    # The worker cannot open files, so this would fail anyway; here it gets a clear message.
    if _MODULE.match(program):
        raise JqError("A query cannot load modules or files.")


def _build_request(query: JqQuery, *, size: int, limits: OffloadLimits) -> dict[str, Any]:
    stream: list[str] | None = None
    program = query.program
    # jq needs about 18 times the size of a document in memory (docs/decisions/large-results.md).
    if size > limits.query_bytes:
        stream, program = _split_for_streaming(program, size=size, limits=limits)
    return {
        "program": program,
        "stream": stream,
        "compact": query.is_compact,
        "raw": query.is_raw,
        "seconds": limits.query_seconds,
        "memory_bytes": limits.query_memory_bytes,
        "output_bytes": limits.answer_tokens * _OUTPUT_BYTES_PER_TOKEN,
    }


def _split_for_streaming(
    program: str, *, size: int, limits: OffloadLimits
) -> tuple[list[str], str]:
    """Split a program into the path of an array and the program for each element."""
    parts = _STREAMABLE.fullmatch(program)
    if parts is None:
        raise JqError(
            f"This result has {size / MEGABYTE:,.1f} MB. jq holds a document whole, at many times "
            f"its size, so above {limits.query_bytes / MEGABYTE:,.1f} MB a query must begin with "
            "an array to go through, as in '.items[] | select(.id == 5)': that is streamed. "
            "Otherwise use search or read."
        )
    path = [_parse_key(step) for step in _ONE_KEY.findall(parts["path"] or "")]
    steps = parts["steps"]
    rest = f".{steps}" if steps.startswith("[") else steps or "."
    return path, f"{rest} | {parts['rest']}" if parts["rest"] is not None else rest


def _parse_key(step: str) -> str:
    text = step.removeprefix(".").removeprefix("[").removesuffix("]")
    return str(json.loads(text)) if text.startswith('"') else text


async def _run_worker(
    stream: BinaryIO, request: str, *, seconds: float
) -> tuple[bytes, dict[str, Any]]:
    stream.seek(0)
    process = await asyncio.create_subprocess_exec(
        # -P: a file called json.py in the working directory must not be imported.
        *(sys.executable, "-P", "-m", f"{__package__}.jq_worker", request),
        stdin=stream,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout
    assert process.stderr
    output, errors = bytearray(), bytearray()
    try:
        async with asyncio.timeout(seconds):
            await asyncio.gather(_drain(process.stdout, output), _drain(process.stderr, errors))
            await process.wait()
    except TimeoutError:
        return bytes(output), {"is_late": True}
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    return bytes(output), _parse_ending(bytes(errors), process.returncode)


async def _drain(stream: asyncio.StreamReader, buffer: bytearray) -> None:
    while piece := await stream.read(1 << 16):
        buffer += piece


def _parse_ending(errors: bytes, code: int | None) -> dict[str, Any]:
    # The worker writes its summary last; jq may have written to stderr before.
    with contextlib.suppress(ValueError, IndexError):
        ending: object = json.loads(errors.rsplit(b"\n", 1)[-1])
        if isinstance(ending, dict):
            return cast("dict[str, Any]", ending)
    return {"error": f"the process ended ({code}); the document or the program needs too much"}
