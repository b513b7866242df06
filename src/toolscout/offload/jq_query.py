"""Asking a JSON file with jq, in a child process that is ended when it takes too long."""

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

PROGRAM_CAP = 10_000
_BYTES_PER_TOKEN = 8
# `.a.b[]`, then more plain steps, then nothing or a pipe: what can be fed one element at a time.
_TEXT = r'"(?:[^"\\]|\\["\\/bfnrtu])*"'
_KEY = rf"\.[A-Za-z_]\w*|\.{_TEXT}|\.?\[{_TEXT}\]"
_STREAMABLE = re.compile(
    rf"\s*(?:(?P<path>(?:{_KEY})+)\.?|\.)\[\](?P<steps>(?:{_KEY}|\[\d*\])*)\s*"
    r"(?:\|(?P<rest>.*))?",
    re.DOTALL,
)
_ONE_KEY = re.compile(_KEY)
_MODULE = re.compile(r"(?:\s|#[^\n]*\n)*(?:import|include|module)\b")


class BadQuery(ValueError):
    """The query cannot be answered; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class JqQuery:
    """One question: a jq program and how its answers are to be written."""

    program: str
    is_compact: bool = False
    is_raw: bool = False


@dataclass(frozen=True, slots=True)
class JqOutput:
    """What the program printed, and a word on why that is not all, if it is not."""

    text: str
    outputs: int
    stopped: str = ""


async def run_jq(stream: BinaryIO, question: JqQuery, *, limits: OffloadLimits) -> JqOutput:
    """Run a jq program over an open file, within the limits; BadQuery if it fails."""
    require("jq", extra="offload")
    _check_program(question.program)
    size = os.fstat(stream.fileno()).st_size
    request = json.dumps(_build_request(question, size=size, limits=limits))
    printed, ending = await _run_worker(stream, request, seconds=limits.query_seconds)
    text = printed.decode("utf-8", "replace").removesuffix("\n")
    if "error" in ending:
        raise BadQuery(f"jq: {ending['error']}")
    outputs = int(ending.get("outputs", text.count("\n") + bool(text)))
    if ending.get("is_late"):
        late = f"stopped after {limits.query_seconds:g} seconds"
        if not text:
            raise BadQuery(f"jq {late}. Write a program that does less, or use search.")
        return JqOutput(text, outputs, late)
    return JqOutput(text, outputs, "the output is longer than this" if ending["is_cut"] else "")


def _check_program(program: str) -> None:
    if "\0" in program:
        raise BadQuery("A query cannot hold a NUL character.")
    if not program.strip():
        raise BadQuery("The query is empty. Write a jq program, such as '.' or '.items[]'.")
    if len(program) > PROGRAM_CAP:
        raise BadQuery(f"The query has more than {PROGRAM_CAP:,} characters.")
    if _MODULE.match(program):
        raise BadQuery("A query cannot load modules or files.")


def _build_request(question: JqQuery, *, size: int, limits: OffloadLimits) -> dict[str, Any]:
    stream: list[str] | None = None
    program = question.program
    if size > limits.query_bytes:
        stream, program = _split_for_streaming(program, size=size, limits=limits)
    return {
        "program": program,
        "stream": stream,
        "compact": question.is_compact,
        "raw": question.is_raw,
        "seconds": limits.query_seconds,
        "memory_bytes": limits.query_memory_bytes,
        "output_bytes": limits.answer_tokens * _BYTES_PER_TOKEN,
    }


def _split_for_streaming(
    program: str, *, size: int, limits: OffloadLimits
) -> tuple[list[str], str]:
    """Split a program into the array to walk through and what to do with each element."""
    parts = _STREAMABLE.fullmatch(program)
    if parts is None:
        raise BadQuery(
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
        *(sys.executable, "-P", "-m", f"{__package__}.jq_worker", request),
        stdin=stream,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout
    assert process.stderr
    printed, told = bytearray(), bytearray()
    try:
        async with asyncio.timeout(seconds):
            await asyncio.gather(_drain(process.stdout, printed), _drain(process.stderr, told))
            await process.wait()
    except TimeoutError:
        return bytes(printed), {"is_late": True}
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    return bytes(printed), _parse_ending(bytes(told), process.returncode)


async def _drain(stream: asyncio.StreamReader, into: bytearray) -> None:
    while piece := await stream.read(1 << 16):
        into += piece


def _parse_ending(told: bytes, code: int | None) -> dict[str, Any]:
    with contextlib.suppress(ValueError, IndexError):
        ending: object = json.loads(told.rsplit(b"\n", 1)[-1])
        if isinstance(ending, dict):
            return cast("dict[str, Any]", ending)
    return {"error": f"the process ended ({code}); the document or the program needs too much"}
