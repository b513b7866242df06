"""Plots as plain SVG: bars with intervals in panels, and lines over two logarithmic scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil, floor, log10

INK, MUTED, GRID, PAPER = "#1f2328", "#6e7781", "#e4e7eb", "#ffffff"
OURS, OURS_SOFT, THEIRS = "#00796b", "#80cbc4", "#b3bac2"
_FONT = "font-family='system-ui, -apple-system, Segoe UI, sans-serif'"
_APART = 14.0


@dataclass(frozen=True)
class Bar:
    """A value between nought and one, with the interval that it lies in; none where it failed."""

    label: str
    value: float | None
    low: float = 0.0
    high: float = 0.0
    colour: str = THEIRS


@dataclass(frozen=True)
class Line:
    """Points from left to right."""

    label: str
    points: Sequence[tuple[float, float]]
    colour: str = THEIRS
    is_strong: bool = False


def bars(title: str, panels: Sequence[tuple[str, Sequence[Bar]]]) -> str:
    """Panels side by side, the same rows in each, so that a row is read across."""
    left, width, row, top = 170, 180, 24, 76
    count = max((len(b) for _, b in panels), default=0)
    size = (left + len(panels) * (width + 28), top + count * row + 24)
    drawn = [_text(16, 30, title, size=17, weight=600)]
    for number, bar in enumerate(panels[0][1] if panels else ()):
        weight = 600 if bar.colour != THEIRS else 400
        drawn.append(
            _text(left - 10, top + number * row + 16, bar.label, anchor="end", weight=weight)
        )
    for place, (name, some) in enumerate(panels):
        start = left + place * (width + 28)
        drawn.append(_text(start, top - 14, name, weight=600))
        for number, bar in enumerate(some):
            drawn += _bar(bar, start, top + number * row, width=width - 44)
    return _page(size, drawn)


def _bar(bar: Bar, x: float, y: float, *, width: float) -> list[str]:
    if bar.value is None:
        return [_text(x, y + 16, "failed", colour=MUTED)]
    whisker = y + 11
    low, high = x + bar.low * width, x + bar.high * width
    return [
        _block(x, y + 4, width, GRID),
        _block(x, y + 4, bar.value * width, bar.colour),
        f"<line x1='{low:.1f}' x2='{high:.1f}' y1='{whisker}' y2='{whisker}' stroke='{INK}'/>",
        _text(x + width + 6, y + 16, f"{bar.value:.3f}"),
    ]


def lines(title: str, some: Sequence[Line], *, across: str, up: str) -> str:
    """Lines over logarithmic axes, each named at its end."""
    left, top, width, height = 74.0, 76.0, 520.0, 380.0
    drawn = [_text(16, 30, title, size=17, weight=600), _text(16, 54, up, colour=MUTED)]
    points = [p for line in some for p in line.points]
    if not points:
        return _page((800, 120), [*drawn, _text(16, 90, "Nothing was measured.")])
    xs = _Scale.over([x for x, _ in points], left, left + width)
    ys = _Scale.over([y for _, y in points], top + height, top)
    for tick in xs.ticks:
        x = xs.at(tick)
        drawn.append(_rule(x, top, x, top + height))
        drawn.append(_text(x, top + height + 20, _short(tick), anchor="middle", colour=MUTED))
    for tick in ys.ticks:
        y = ys.at(tick)
        drawn.append(_rule(left, y, left + width, y))
        drawn.append(_text(left - 8, y + 4, _short(tick), anchor="end", colour=MUTED))
    drawn.append(_text(left + width / 2, top + height + 42, across, anchor="middle", colour=MUTED))
    ends = _spaced([ys.at(line.points[-1][1]) if line.points else top for line in some])
    order = sorted(range(len(some)), key=lambda i: some[i].is_strong)
    for i in order:
        drawn += _line(some[i], xs, ys, label_y=ends[i], label_x=left + width + 12)
    return _page((left + width + 220, top + height + 60), drawn)


def _line(line: Line, xs: _Scale, ys: _Scale, *, label_x: float, label_y: float) -> list[str]:
    if not line.points:
        return []
    placed = [(xs.at(x), ys.at(y)) for x, y in line.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
    thick, weight = (2.6, 600) if line.is_strong else (1.6, 400)
    dots = [f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3' fill='{line.colour}'/>" for x, y in placed]
    (x, y) = placed[-1]
    return [
        f"<polyline points='{path}' fill='none' stroke='{line.colour}' stroke-width='{thick}'/>",
        *dots,
        _rule(x + 4, y, label_x - 3, label_y),
        _text(label_x, label_y + 4, line.label, weight=weight),
    ]


@dataclass(frozen=True)
class _Scale:
    """Powers of ten between two places."""

    low: int
    high: int
    start: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float) -> _Scale:
        low, high = floor(log10(min(values))), ceil(log10(max(values)))
        return cls(low, max(high, low + 1), start, end)

    @property
    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]

    def at(self, value: float) -> float:
        share = (log10(value) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def _spaced(places: Sequence[float]) -> list[float]:
    """The same places, moved apart where names would overlap."""
    found = list(places)
    order = sorted(range(len(found)), key=lambda i: found[i])
    for before, after in pairwise(order):
        found[after] = max(found[after], found[before] + _APART)
    return found


def _short(value: float) -> str:
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def _block(x: float, y: float, width: float, colour: str) -> str:
    size = f"x='{x:.1f}' y='{y:.1f}' width='{width:.1f}' height='14' rx='2'"
    return f"<rect {size} fill='{colour}'/>"


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{GRID}'/>"


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = 12,
    weight: int = 400,
    anchor: str = "start",
    colour: str = INK,
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' font-weight='{weight}'"
        f" text-anchor='{anchor}' fill='{colour}'>{escape(text)}</text>"
    )


def _page(size: tuple[float, float], drawn: Sequence[str]) -> str:
    width, height = size
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:.0f} {height:.0f}'"
        f" width='{width:.0f}' height='{height:.0f}' {_FONT}>"
    )
    paper = f"<rect width='100%' height='100%' fill='{PAPER}'/>"
    return "\n".join([head, paper, *drawn, "</svg>", ""])
