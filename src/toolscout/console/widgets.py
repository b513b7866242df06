"""Parts that many pages use: tables, facts, code, charts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from .html import Child, Html, tag


def table(
    label: str, columns: Sequence[str], rows: Iterable[Sequence[Child]], *, empty: str = "Nothing."
) -> Html:
    """A table that scrolls sideways on a narrow screen; the first cell names its row."""
    head = tag("tr", None, (tag("th", {"scope": "col"}, title) for title in columns))
    body = [_row(cells) for cells in rows]
    if not body:
        return tag("p", {"class": "empty"}, empty)
    content = tag("table", None, tag("thead", None, head), tag("tbody", None, body))
    # Focusable, so that it can be scrolled with the keyboard.
    region = {"class": "scroll", "role": "region", "aria-label": label, "tabindex": 0}
    return tag("div", region, content)


def _row(cells: Sequence[Child]) -> Html:
    first, *others = cells
    return tag("tr", None, tag("th", {"scope": "row"}, first), map(_cell, others))


def _cell(content: Child) -> Html:
    is_number = isinstance(content, int | float) and not isinstance(content, bool)
    return tag("td", {"class": "number" if is_number else None}, content)


def facts(pairs: Iterable[tuple[str, Child]]) -> Html:
    """Names with their values; pairs without a value are left out."""
    shown = [(name, value) for name, value in pairs if value not in (None, "", ())]
    items = [tag("div", None, tag("dt", None, n), tag("dd", None, v)) for n, v in shown]
    return tag("dl", {"class": "facts"}, items)


def code(text: str) -> Html:
    """A block of preformatted text."""
    return tag("pre", {"tabindex": 0}, text)


def json_block(value: object) -> Html:
    """A value as indented JSON."""
    return code(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def field(label: str, control: Html) -> Html:
    """A form control inside its label."""
    return tag("label", {"class": "field"}, tag("span", None, label), control)


def text_input(name: str, value: str = "", **attributes: str | int | bool | None) -> Html:
    """A field for one line; attributes are written with `_` for `-`."""
    more = {key.replace("_", "-"): value for key, value in attributes.items()}
    return tag("input", {"name": name, "value": value, "type": "text", **more})


def text_area(name: str, value: str = "", **attributes: str | int | bool | None) -> Html:
    """A field for several lines; attributes as for `text_input`."""
    more = {key.replace("_", "-"): value for key, value in attributes.items()}
    return tag("textarea", {"name": name, "spellcheck": "false", **more}, value)


def checkbox(label: str, name: str, *, is_checked: bool = False) -> Html:
    """A box that sends `yes` if it is checked."""
    box = {"type": "checkbox", "name": name, "value": "yes", "checked": is_checked}
    return field(label, tag("input", box))


def select(name: str, options: Iterable[tuple[str, str]], chosen: str = "") -> Html:
    """A list of values with their labels to choose from."""
    return tag(
        "select",
        {"name": name},
        (tag("option", {"value": v, "selected": v == chosen}, text) for v, text in options),
    )


def moment(seconds: float) -> Html:
    """A time in UTC; the browser shows it in its own time zone."""
    time = datetime.fromtimestamp(seconds, UTC)
    return tag("time", {"datetime": time.isoformat()}, time.strftime("%Y-%m-%d %H:%M:%S"))


def chart(
    label: str,
    times: Sequence[float],
    series: Mapping[str, Sequence[float | None]],
    *,
    unit: str = "",
) -> Html:
    """Lines over time, drawn by uPlot; the same numbers are a table below, for all readers."""
    data = json.dumps({"times": list(times), "series": {k: list(v) for k, v in series.items()}})
    figure = {"class": "chart", "data-chart": data, "data-unit": unit}
    rows = [
        (moment(time), *(values[index] for values in series.values()))
        for index, time in enumerate(times)
    ]
    numbers = tag(
        "details", None, tag("summary", None, "As a table"), table(label, ("Time", *series), rows)
    )
    return tag("figure", figure, tag("figcaption", None, label), numbers)
