"""Pins of servers that no gateway has started yet: a user may revoke tools before the first one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace

from ...sources.mcp.listing import ServerTools
from ...sources.mcp.listing_cache import ListingCache
from ...sources.mcp.servers import Server
from ..setup import Setup
from .pin_factory import open_pins
from .pin_store import ServerIdentity
from .pinned_source import build_offers
from .pins import PinLedger


def offered_ledger(setup: Setup, server: Server) -> PinLedger | None:
    """The pins of a server that no gateway has met, with all tools that it last listed.

    None if it was never listed. The first gateway that meets it still trusts its other tools.
    """
    with closing(ListingCache.of(setup.config)) as listings:
        listing = listings.load(server.name, server.listing_key(forwards_requests=True))
    if listing is None:
        return None
    known = open_pins(setup.config).ledger_for(ServerIdentity.of(server))
    offers = build_offers(ServerTools.of(server, listing).definitions, {})
    trusts_first = not setup.options.require_approval
    return replace(known.record_offers(offers, trusts_first=trusts_first), is_known=known.is_known)


def keep_decisions(before: PinLedger, after: PinLedger, saved: Mapping[str, object]) -> PinLedger:
    """The ledger to save: only the pins that the user decided about, now or before."""
    decided = {n: p for n, p in after.pins.items() if n in saved or p != before.pins.get(n)}
    return replace(after, pins=decided)
