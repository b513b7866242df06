"""Taking what is too large out of one result, and putting a notice in its place."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from ..catalog.result import Content, Result
from ..events import Event
from ..tokens import Counter
from .folder import Folder
from .limits import Limits
from .media import JSON, TEXT, extension_of
from .notice import Place, kept_data, kept_text, too_large
from .passages import CHUNK, ERRORS
from .shape import measure
from .walk import Reader
from .weight import Weight, weigh, weigh_data

Pieces = Callable[[], Iterable[bytes]]


@dataclass(slots=True)
class Case:
    """One result on its way: whose it is, how much is too much, and what happened to it."""

    session: str
    tool: str
    threshold: int | None
    events: list[Event] = field(default_factory=list[Event])
    failure: str = ""

    def note(self, kind: str, **facts: object) -> None:
        """Remember something to tell once the work is done."""
        self.events.append(Event(kind, self.session, {"tool": self.tool, **facts}))


class Keeper:
    """Does the work of keeping; it blocks, so it runs beside the event loop."""

    def __init__(
        self,
        folder: Folder | None,
        *,
        limits: Limits,
        counter: Counter,
        clock: Callable[[], float],
    ) -> None:
        self._folder = folder
        self._limits = limits
        self._counter = counter
        self._clock = clock

    def keep(self, result: Result, case: Case) -> Result:
        """The result without what is too large in it; the same object if nothing is."""
        content = tuple(self._without_data(piece, case) for piece in result.content)
        text = "\n".join(c.text for c in content if c.text) or result.structured or ""
        put = self._without_text(text, case, is_error=result.is_error)
        if put is not None:
            others = (c for c in content if c.data or c.type == "link")
            return _replaced(result, (put, *others))
        if result.structured and not _looks_like_json(text):
            put = self._without_text(result.structured, case, is_error=result.is_error)
            if put is not None:
                return _replaced(result, (*content, put))
        return result if content == result.content else replace(result, content=content, raw=None)

    def _without_text(self, text: str, case: Case, *, is_error: bool) -> Content | None:
        """What stands for a text that is too large; None if it may stay."""
        cap = self._limits.cap_tokens
        threshold = cap if case.threshold is None else min(cap, case.threshold)
        weight = weigh(text, threshold=threshold, by=self._counter)
        if weight.tokens <= threshold:
            return None
        case.note("large_output_detected", tokens=weight.tokens)
        if case.threshold is not None and (put := self._put_text(text, weight, case)) is not None:
            return put
        weight = weigh(text, threshold=cap, by=self._counter)
        if weight.tokens <= cap:
            return None
        return Content(
            text=too_large(
                case.tool, text, weight=weight, cap=cap, is_error=is_error, why=case.failure
            )
        )

    def _put_text(self, text: str, weight: Weight, case: Case) -> Content | None:
        shape = measure(_reader(text)) if self._folder else None
        place = self._put(lambda: _encoded(text), JSON if shape else TEXT, case)
        if place is None:
            return None
        preview = self._limits.preview_characters
        told = kept_text(case.tool, text, place, weight=weight, shape=shape, preview=preview)
        return Content(text=told)

    def _without_data(self, piece: Content, case: Case) -> Content:
        if case.threshold is None or weigh_data(piece.data).tokens <= case.threshold:
            return piece
        case.note("large_output_detected", tokens=weigh_data(piece.data).tokens)
        try:
            data = base64.b64decode(piece.data, validate=True)
        except (binascii.Error, ValueError):
            return piece
        place = self._put(lambda: (data,), extension_of(piece.mime), case)
        if place is None:
            return piece
        told = kept_data(case.tool, place, mime=piece.mime, size=len(data))
        return Content("link", text=told, mime=piece.mime, uri=place.shown, name=place.filename)

    def _put(self, pieces: Pieces, extension: str, case: Case) -> Place | None:
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
            case.note("large_output_failed", error=reason)
            return None
        case.note("large_output_kept", filename=path.name, bytes=size)
        return Place(path.name, folder.shown(path))


def may_be_large(result: Result, threshold: int) -> bool:
    """A quick look that spares small results everything else; no token is less than a byte."""
    size = sum(4 * len(c.text) + len(c.data) for c in result.content)
    return size + 4 * len(result.structured or "") > threshold


def _replaced(result: Result, content: tuple[Content, ...]) -> Result:
    """The same outcome with other content; the large data must not stay on in another form."""
    return replace(result, content=content, structured=None, raw=None)


def _looks_like_json(text: str) -> bool:
    """Servers send structured data as text as well; then the text stands for both."""
    return text.lstrip()[:1] in ("{", "[")


def _encoded(text: str) -> Iterator[bytes]:
    for start in range(0, len(text), CHUNK):
        yield text[start : start + CHUNK].encode("utf-8", ERRORS)


def _reader(text: str) -> Reader:
    position = 0

    def read(size: int) -> str:
        nonlocal position
        piece = text[position : position + size]
        position += len(piece)
        return piece

    return read
