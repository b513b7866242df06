"""Replaces the large parts of a result with notices that say how to read them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from ..catalog.result import Content, Result
from ..errors import StoreError
from ..events import (
    Event,
    LargeOutputDetectedEvent,
    LargeOutputFailureEvent,
    LargeOutputKeptEvent,
)
from ..tokens import TokenCounter
from .json_cursor import Reader
from .json_shape import Shape, infer_shape, render_shape
from .limits import OffloadLimits, TokenEstimate, estimate_data_tokens, estimate_tokens
from .media_types import JSON, TEXT, extension_of
from .output_tools import LARGE_OUTPUT_TOOL
from .passages import CHUNK, ERRORS
from .result_files import UNAVAILABLE, FileReference, NewResult, ResultFiles

_END_CHARACTERS = 1_500


def render_text_notice(
    tool: str,
    text: str,
    reference: FileReference,
    *,
    estimate: TokenEstimate,
    shape: Shape | None,
    preview: int,
) -> str:
    """The notice for text: its name, shape and beginning, and how to read the rest."""
    size = f"{estimate}, {len(text):,} characters"
    parts = [f"The result of {tool} is large ({size}); it was saved as {reference.filename}."]
    if shape is not None:
        parts.append(f"Its shape:\n{render_shape(shape)}")
    if end := min(preview, len(text)):
        parts.append(f"It begins (characters 1 to {end:,} of {len(text):,}):\n{text[:end]}")
    parts.append(_usage_help(reference, is_json=shape is not None))
    return "\n\n".join(parts)


def render_data_notice(tool: str, reference: FileReference, *, mime: str, size: int) -> str:
    """The notice for an image or other binary data: its type and size, and how to see it."""
    return (
        f"{tool} returned {mime or 'binary data'} of {size:,} bytes; it was saved as "
        f"{reference.filename}. To see it, call {LARGE_OUTPUT_TOOL} with this filename and "
        "operation 'read', start 1, end 1."
    )


def render_overflow_notice(
    tool: str, text: str, *, estimate: TokenEstimate, cap: int, is_error: bool, why: str
) -> str:
    """The notice for a result above the cap that was not stored: both its ends, and advice."""
    # A large result is not an error: a model that believes a delivery failed delivers twice
    # (docs/decisions/large-results.md).
    outcome = "failed" if is_error else "succeeded"
    head, tail = text[:_END_CHARACTERS], text[_END_CHARACTERS:][-_END_CHARACTERS:]
    parts = [
        f"The result of {tool} is too large to show: {estimate}; the limit is {cap:,}{why}.",
        f"The call itself {outcome}. Ask for less: filter, name fields, or page with a limit.",
        f"It begins:\n{head}",
        *([f"It ends:\n{tail}"] if tail else []),
    ]
    return "\n\n".join(parts)


def _usage_help(reference: FileReference, *, is_json: bool) -> str:
    names = f"{reference.filename!r} (or {reference.relative_path!r})"
    lines = [
        f"To read more, call {LARGE_OUTPUT_TOOL} with filename {names} and an operation:",
        "- read, with start and end: characters counted from 1, both included",
        "- search, with pattern: a regular expression; returns numbered lines with context",
    ]
    if is_json:
        lines.append("- query, with query: a jq program over the paths above")
    return "\n".join(lines)


ChunkSource = Callable[[], Iterable[bytes]]


@dataclass(slots=True)
class OffloadJob:
    """One result to process: its session, tool and threshold, and the events so far."""

    session: str
    tool: str
    threshold: int | None
    events: list[Event] = field(default_factory=list[Event])
    failure: str = ""

    def record_event(self, event: Event) -> None:
        """Collect an event; the store emits it on the event loop when the work is done."""
        self.events.append(event)

    def record_failure(self, reason: str, *, shown: str) -> None:
        """Collect a failure to store; the model is shown less than operators are."""
        self.failure = f"; it could not be saved ({shown})"
        self.record_event(LargeOutputFailureEvent(tool=self.tool, error=reason))


class Offloader:
    """Measures and stores results; it blocks, so it runs in a thread."""

    def __init__(
        self,
        files: ResultFiles | None,
        *,
        limits: OffloadLimits,
        counter: TokenCounter,
        clock: Callable[[], float],
    ) -> None:
        self._files = files
        self._limits = limits
        self._counter = counter
        self._clock = clock

    def offload(self, result: Result, job: OffloadJob) -> Result:
        """The result with its large parts replaced; the same object if there are none."""
        content = tuple(self._replace_data(piece, job) for piece in result.content)
        text = "\n".join(c.text for c in content if c.text) or result.structured or ""
        notice = self._replace_text(text, job, is_error=result.is_error)
        if notice is not None:
            others = (c for c in content if c.data or c.type == "link")
            return _replace_content(result, (notice, *others))
        # A short text may summarise structured data that is large itself.
        if result.structured and not _looks_like_json(text):
            notice = self._replace_text(result.structured, job, is_error=result.is_error)
            if notice is not None:
                return _replace_content(result, (*content, notice))
        return result if content == result.content else replace(result, content=content, raw=None)

    def _replace_text(self, text: str, job: OffloadJob, *, is_error: bool) -> Content | None:
        """The notice for a text that is too large; None if it may stay."""
        cap = self._limits.cap_tokens
        threshold = cap if job.threshold is None else min(cap, job.threshold)
        estimate = estimate_tokens(text, threshold=threshold, counter=self._counter)
        if estimate.tokens <= threshold:
            return None
        job.record_event(LargeOutputDetectedEvent(tool=job.tool, tokens=estimate.tokens))
        if job.threshold is not None:
            notice = self._store_text(text, estimate, job)
            if notice is not None:
                return notice
        # It was not stored. The estimate was made for the lower threshold; only the cap counts now.
        estimate = estimate_tokens(text, threshold=cap, counter=self._counter)
        if estimate.tokens <= cap:
            return None
        return Content(
            text=render_overflow_notice(
                job.tool, text, estimate=estimate, cap=cap, is_error=is_error, why=job.failure
            )
        )

    def _store_text(self, text: str, estimate: TokenEstimate, job: OffloadJob) -> Content | None:
        shape = infer_shape(_text_reader(text)) if self._files else None
        reference = self._store(lambda: _encode_chunks(text), JSON if shape else TEXT, job)
        if reference is None:
            return None
        preview = self._limits.preview_characters
        notice = render_text_notice(
            job.tool, text, reference, estimate=estimate, shape=shape, preview=preview
        )
        return Content(text=notice)

    def _replace_data(self, piece: Content, job: OffloadJob) -> Content:
        if job.threshold is None or estimate_data_tokens(piece.data).tokens <= job.threshold:
            return piece
        tokens = estimate_data_tokens(piece.data).tokens
        job.record_event(LargeOutputDetectedEvent(tool=job.tool, tokens=tokens))
        try:
            data = base64.b64decode(piece.data, validate=True)
        except (binascii.Error, ValueError):
            return piece
        reference = self._store(lambda: (data,), extension_of(piece.mime), job)
        if reference is None:
            return piece
        notice = render_data_notice(job.tool, reference, mime=piece.mime, size=len(data))
        return Content(
            "link",
            text=notice,
            mime=piece.mime,
            uri=reference.relative_path,
            name=reference.filename,
        )

    def _store(self, pieces: ChunkSource, extension: str, job: OffloadJob) -> FileReference | None:
        """Write a file; a failure is recorded in the job and gives None."""
        if self._files is None:
            return None
        try:
            # The chunks are made twice, so that the encoded text is never in memory as a whole.
            size = sum(map(len, pieces()))
            reference = self._files.write(
                NewResult(
                    session=job.session,
                    tool=job.tool,
                    extension=extension,
                    size=size,
                    now=self._clock(),
                    pieces=pieces(),
                )
            )
        except OSError as error:
            reason = error.strerror or str(error)
            return job.record_failure(reason, shown=reason)
        except StoreError as error:
            # The model gets no address of a database.
            return job.record_failure(error.message, shown=UNAVAILABLE)
        kept = LargeOutputKeptEvent(tool=job.tool, filename=reference.filename, bytes=size)
        job.record_event(kept)
        return reference


def _replace_content(result: Result, content: tuple[Content, ...]) -> Result:
    """The result with other content, and without other forms of the same large data."""
    return replace(result, content=content, structured=None, raw=None)


def _looks_like_json(text: str) -> bool:
    """Whether the text is the structured data as JSON, which MCP servers send in both forms."""
    return text.lstrip()[:1] in ("{", "[")


def _encode_chunks(text: str) -> Iterator[bytes]:
    for start in range(0, len(text), CHUNK):
        yield text[start : start + CHUNK].encode("utf-8", ERRORS)


def _text_reader(text: str) -> Reader:
    position = 0

    def read(size: int) -> str:
        nonlocal position
        piece = text[position : position + size]
        position += len(piece)
        return piece

    return read
