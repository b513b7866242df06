"""Progress of long work, on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING

import click

from ..catalog.sanitization import reveal_line
from .output import print_text

if TYPE_CHECKING:
    # Rich is imported where it is used: a gateway must start without loading it.
    from rich.progress import Progress, TaskID

ProgressReporter = Callable[[str, int, int], None]
"""Gets a label, the number of finished items and the total; a total of 0 means unknown."""

BAR_AFTER_SECONDS = 0.5
"""Work that ends sooner shows no bar."""

LINE_AFTER_SECONDS = 1.0
LINE_EVERY_SECONDS = 5.0
"""Where there is no terminal, a line is printed after the first and then this often."""


@contextmanager
def progress(label: str, *, is_shown: bool = True) -> Generator[ProgressReporter]:
    """Show the progress of some work; `label` is shown until the first report."""
    display = _choose_display(label) if is_shown else None
    if display is None:
        yield lambda _label, _done, _total: None
        return
    try:
        display.start()
        yield display.report
    finally:
        display.stop()


def _choose_display(label: str) -> _Display | None:
    from rich.console import Console

    context = click.get_current_context(silent=True)
    options = context.params if context is not None else {}
    if options.get("is_quiet") or options.get("quiet"):
        return None
    if sys.stderr.isatty() and not Console(stderr=True).is_dumb_terminal:
        return _Bar(label)
    # With --json, a script may read stderr too: there are only JSON warnings and errors.
    return None if options.get("is_json") else _Lines(label)


class _Display(ABC):
    """Shows the last report, from its own thread: the work may be stuck in one long step."""

    def __init__(self, label: str, *, after_seconds: float, every_seconds: float) -> None:
        self._after_seconds = after_seconds
        self._every_seconds = every_seconds
        self._lock = Lock()
        self._over = Event()
        self._thread = Thread(target=self._run, name="toolscout-progress", daemon=True)
        self._label, self._done, self._total = reveal_line(label), 0, 0
        self._started = monotonic()

    def start(self) -> None:
        self._thread.start()

    def report(self, label: str, done: int, total: int) -> None:
        with self._lock:
            self._label, self._done, self._total = reveal_line(label), done, total

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        wait = self._after_seconds
        while not self._over.wait(wait):
            with self._lock:
                if self._label:
                    self._show()
            wait = self._every_seconds
        self._finish()

    @abstractmethod
    def _show(self) -> None: ...

    @abstractmethod
    def _finish(self) -> None: ...

    @property
    def _seconds(self) -> float:
        return monotonic() - self._started


class _Lines(_Display):
    """A line every few seconds, for logs and pipes."""

    def __init__(self, label: str) -> None:
        super().__init__(label, after_seconds=LINE_AFTER_SECONDS, every_seconds=LINE_EVERY_SECONDS)
        self._printed: set[str] = set()

    def _show(self) -> None:
        self._printed.add(self._label)
        print_text(f"{self._label}: {self._describe()}", is_error=True)

    def _finish(self) -> None:
        # Only where a line said that this work began: a quick step stays silent.
        if self._label in self._printed and self._total and self._done >= self._total:
            print_text(f"{self._label}: {self._describe()}", is_error=True)

    def _describe(self) -> str:
        if not self._total:
            return f"{self._seconds:.0f} s"
        share = self._done / self._total
        return f"{self._done:,} of {self._total:,} ({share:.0%}), {self._seconds:.0f} s"


class _Bar(_Display):
    """A bar that disappears when the work is over."""

    def __init__(self, label: str) -> None:
        super().__init__(label, after_seconds=BAR_AFTER_SECONDS, every_seconds=0.1)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._task_total = 0

    def _show(self) -> None:
        if self._bar is None:
            self._bar = _build_bar()
            self._bar.start()
        if self._task is None or self._task_total != self._total:
            self._task = self._replace_task(self._bar)
        self._bar.update(self._task, description=self._label, completed=self._done)

    def _replace_task(self, bar: Progress) -> TaskID:
        """Begin another bar instead of the last; earlier work does not count in its speed."""
        if self._task is not None:
            bar.update(self._task, visible=False)
        self._task_total = self._total
        return bar.add_task(self._label, total=self._total or None, completed=self._done)

    def _finish(self) -> None:
        if self._bar is not None:
            self._bar.stop()


# The spinner, both counts, both times and the spaces between them.
_FIGURES_WIDTH = 36


def _build_bar() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    console = Console(stderr=True)
    # On a narrow terminal the label is cut and the bar is short, and the figures stay.
    bar_width = max(4, min(40, console.width - 70))
    room = max(8, console.width - bar_width - _FIGURES_WIDTH)
    label = Column(no_wrap=True, overflow="ellipsis", max_width=room)
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False, table_column=label),
        BarColumn(bar_width=bar_width),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        # On stderr, so that the output of a command can be piped while the bar is shown.
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
