"""Example catalog: about eighty tools of an invented office, and questions for it."""

from __future__ import annotations

from pathlib import Path

CATALOG = Path(__file__).with_name("tools.jsonl")
"""The embedded example catalog, one tool per line."""

QUESTIONS = (
    ("mail the invoice to Ann", "send_email"),
    ("will I need an umbrella tomorrow?", "weather_forecast"),
    ("give the customer their money back", "refund_payment"),
    ("wann haben alle Zeit für ein Treffen?", "find_free_time"),  # any of sixteen languages
    ("report a bug in the app", "create_issue"),
)
"""Questions, each with the tool that every command finds for it."""
