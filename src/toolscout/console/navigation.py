"""The pages of the console in the order of the navigation; a new page is one more line."""

from __future__ import annotations

from .page import ConsolePage
from .pages import live, misses, overview, playground, policies, server_admin, sessions

PAGES: tuple[ConsolePage, ...] = (
    overview.PAGE,
    live.PAGE,
    playground.PAGE,
    server_admin.PAGE,
    misses.PAGE,
    sessions.PAGE,
    policies.PAGE,
)
