"""Example server with tools for times and dates."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ..sources.functions import tool


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"There is no time zone {name!r}; use one like Europe/Berlin.") from None


@tool(category="time", risk="safe", phrases=["what time is it", "current date"])
def current_time(timezone: str = "UTC") -> str:
    """Tell the date and time in a time zone now.

    Args:
        timezone: An IANA name such as Asia/Tokyo.
    """
    return datetime.now(_zone(timezone)).isoformat(timespec="seconds")


@tool(category="time", risk="safe", phrases=["what time is it there when it is noon here"])
def convert_time(when: str, source: str, target: str) -> str:
    """Convert a date and time from one time zone to another.

    Args:
        when: A date and time such as 2026-03-02T14:30.
        source: The time zone it is given in.
        target: The time zone wanted.
    """
    moment = datetime.fromisoformat(when).replace(tzinfo=_zone(source))
    return moment.astimezone(_zone(target)).isoformat(timespec="minutes")


@tool(category="time", risk="safe", phrases=["how many days until", "days between dates"])
def days_between(start: str, end: str) -> int:
    """Count the days from one date to another.

    Args:
        start: A date such as 2026-03-02.
        end: A later date, or an earlier one for a negative count.
    """
    return (date.fromisoformat(end) - date.fromisoformat(start)).days


@tool(category="time", risk="safe", phrases=["what date is in three weeks"])
def add_days(start: str, days: int) -> str:
    """Tell the date a number of days after another.

    Args:
        start: A date such as 2026-03-02.
        days: How many days later; negative for earlier.
    """
    return (date.fromisoformat(start) + timedelta(days=days)).isoformat()


FUNCTIONS = (current_time, convert_time, days_between, add_days)
