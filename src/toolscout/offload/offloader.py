"""Move what is too large out of one result, and put a notice in its place."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from ..catalog.result import Content, Result
from ..events import Event
from ..tokens import TokenCounter
from .folder import ResultFolder
from .json_cursor import Reader
from .json_shape import Shape, infer_shape, render_shape
from .limits import OffloadLimits, TokenEstimate, estimate_data_tokens, estimate_tokens
from .media_types import JSON, TEXT, extension_of
from .output_tools import LARGE_OUTPUT_TOOL
from .passages import CHUNK, ERRORS

_END_CHARACTERS = 1_500


@dataclass(frozen=True, slots=True)
class FileReference:
    """Where a result was put: its bare name, and its path below the folder."""

    filename: str
    shown: str


def render_text_notice(
    tool: str,
    text: str,
    place: FileReference,
    *,
    weight: TokenEstimate,
    shape: Shape | None,
    preview: int,
) -> str:
    """The notice for text: where it is, what it looks like, how it begins, how to read on."""
    size = f"{weight}, {len(text):,} characters"
    parts = [f"The result of {tool} is large ({size}); it was kept aside as {place.filename}."]
    if shape is not None:
        parts.append(f"Its shape:\n{render_shape(shape)}")
    if end := min(preview, len(text)):
        parts.append(f"It begins (characters 1 to {end:,} of {len(text):,}):\n{text[:end]}")
    parts.append(_usage_help(place, is_json=shape is not None))
    return "\n\n".join(parts)


def render_data_notice(tool: str, place: FileReference, *, mime: str, size: int) -> str:
    """The notice for an image or another blob: its type and size, and how to see it."""
    return (
        f"{tool} returned {mime or 'binary data'} of {size:,} bytes; it was kept aside as "
        f"{place.filename}. To see it, call {LARGE_OUTPUT_TOOL} with this filename and "
        "operation 'read', start 1, end 1."
    )


def render_overflow_notice(
    tool: str, text: str, *, weight: TokenEstimate, cap: int, is_error: bool, why: str
) -> str:
    """The notice for a result over the cap that could not be kept: both its ends, and advice."""
    outcome = "failed" if is_error else "was carried out"
    head, tail = text[:_END_CHARACTERS], text[_END_CHARACTERS:][-_END_CHARACTERS:]
    parts = [
        f"The result of {tool} is too large to show: {weight}; the limit is {cap:,}{why}.",
        f"The call itself {outcome}. Ask for less: filter, name fields, or page with a limit.",
        f"It begins:\n{head}",
        *([f"It ends:\n{tail}"] if tail else []),
    ]
    return "\n\n".join(parts)


def _usage_help(place: FileReference, *, is_json: bool) -> str:
    names = f"{place.filename!r} (or {place.shown!r})"
    lines = [
        f"To read on, call {LARGE_OUTPUT_TOOL} with filename {names} and an operation:",
        "- read, with start and end: characters counted from 1, both included",
        "- search, with pattern: a regular expression; gives line numbers and the lines around",
    ]
    if is_json:
        lines.append("- query, with query: a jq program over the paths above")
    return "\n".join(lines)


ChunkSource = Callable[[], Iterable[bytes]]


@dataclass(slots=True)
class OffloadJob:
    """One result on its way: whose it is, how much is too much, and what happened to it."""

    session: str
    tool: str
    threshold: int | None
    events: list[Event] = field(default_factory=list[Event])
    failure: str = ""

    def record_event(self, kind: str, **facts: object) -> None:
        """Remember something to tell once the work is done."""
        self.events.append(Event(kind, self.session, {"tool": self.tool, **facts}))


class Offloader:
    """Does the work of keeping; it blocks, so it runs beside the event loop."""

    def __init__(
        self,
        folder: ResultFolder | None,
        *,
        limits: OffloadLimits,
        counter: TokenCounter,
        clock: Callable[[], float],
    ) -> None:
        self._folder = folder
        self._limits = limits
        self._counter = counter
        self._clock = clock

    def offload(self, result: Result, case: OffloadJob) -> Result:
        """The result without what is too large in it; the same object if nothing is."""
        content = tuple(self._replace_data(piece, case) for piece in result.content)
        text = "\n".join(c.text for c in content if c.text) or result.structured or ""
        put = self._replace_text(text, case, is_error=result.is_error)
        if put is not None:
            others = (c for c in content if c.data or c.type == "link")
            return _replace_content(result, (put, *others))
        if result.structured and not _looks_like_json(text):
            put = self._replace_text(result.structured, case, is_error=result.is_error)
            if put is not None:
                return _replace_content(result, (*content, put))
        return result if content == result.content else replace(result, content=content, raw=None)

    def _replace_text(self, text: str, case: OffloadJob, *, is_error: bool) -> Content | None:
        """What stands for a text that is too large; None if it may stay."""
        cap = self._limits.cap_tokens
        threshold = cap if case.threshold is None else min(cap, case.threshold)
        weight = estimate_tokens(text, threshold=threshold, by=self._counter)
        if weight.tokens <= threshold:
            return None
        case.record_event("large_output_detected", tokens=weight.tokens)
        if case.threshold is not None and (put := self._store_text(text, weight, case)) is not None:
            return put
        weight = estimate_tokens(text, threshold=cap, by=self._counter)
        if weight.tokens <= cap:
            return None
        return Content(
            text=render_overflow_notice(
                case.tool, text, weight=weight, cap=cap, is_error=is_error, why=case.failure
            )
        )

    def _store_text(self, text: str, weight: TokenEstimate, case: OffloadJob) -> Content | None:
        shape = infer_shape(_text_reader(text)) if self._folder else None
        place = self._store(lambda: _encode_chunks(text), JSON if shape else TEXT, case)
        if place is None:
            return None
        preview = self._limits.preview_characters
        told = render_text_notice(
            case.tool, text, place, weight=weight, shape=shape, preview=preview
        )
        return Content(text=told)

    def _replace_data(self, piece: Content, case: OffloadJob) -> Content:
        if case.threshold is None or estimate_data_tokens(piece.data).tokens <= case.threshold:
            return piece
        case.record_event("large_output_detected", tokens=estimate_data_tokens(piece.data).tokens)
        try:
            data = base64.b64decode(piece.data, validate=True)
        except (binascii.Error, ValueError):
            return piece
        place = self._store(lambda: (data,), extension_of(piece.mime), case)
        if place is None:
            return piece
        told = render_data_notice(case.tool, place, mime=piece.mime, size=len(data))
        return Content("link", text=told, mime=piece.mime, uri=place.shown, name=place.filename)

    def _store(self, pieces: ChunkSource, extension: str, case: OffloadJob) -> FileReference | None:
        """Write a file; where that fails, note it and leave everything as it was."""
        folder = self._folder
        if folder is None:
            return None
        try:
            size = sum(map(len, pieces()))
            folder.make_room(case.session, size)
            now = self._clock()
            path = folder.write(case.session, case.tool, pieces(), extension=extension, now=now)
        except OSError as error:
            reason = error.strerror or str(error)
            case.failure = f"; it could not be kept aside ({reason})"
            case.record_event("large_output_failed", error=reason)
            return None
        case.record_event("large_output_kept", filename=path.name, bytes=size)
        return FileReference(path.name, folder.relative_path(path))


def may_be_large(result: Result, threshold: int) -> bool:
    """A quick look that spares small results everything else; no token is less than a byte."""
    size = sum(4 * len(c.text) + len(c.data) for c in result.content)
    return size + 4 * len(result.structured or "") > threshold


def _replace_content(result: Result, content: tuple[Content, ...]) -> Result:
    """The same outcome with other content; the large data must not stay on in another form."""
    return replace(result, content=content, structured=None, raw=None)


def _looks_like_json(text: str) -> bool:
    """Servers send structured data as text as well; then the text stands for both."""
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
