"""Fields that choose a caller, for pages that show what somebody else would see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..gateway.gateway import Gateway
from ..gateway.identity.roles import Identity
from .html import Html, join, tag
from .widgets import field, select, text_input

_ROLES = (("user", "user"), ("admin", "admin"))
_RECENT_ROWS = 500


def read_caller(query: Mapping[str, str]) -> Identity:
    """The caller that the fields name; anonymous without a name."""
    role = "admin" if query.get("role") == "admin" else "user"
    return Identity(query.get("principal", "").strip(), role)


def caller_fields(caller: Identity, principals: Sequence[str]) -> Html:
    """A name, with those that are known to choose from, and a role."""
    name = text_input("principal", caller.name, size=16, list="principals", placeholder="anonymous")
    known = [tag("option", {"value": principal}) for principal in principals]
    return join(
        field("Principal", name),
        tag("datalist", {"id": "principals"}, known),
        field("Role", select("role", _ROLES, caller.role)),
    )


def known_principals(gateway: Gateway) -> tuple[str, ...]:
    """Those with a token, those that policies name, and those of the last rows of the journal."""
    settings = gateway.setup.settings
    named = {name for policy in settings.policies.values() for name in policy.principals}
    seen = {row.principal for row in gateway.operations.journal.store.read(limit=_RECENT_ROWS)}
    return tuple(sorted(n for n in {*settings.auth.tokens, *named, *seen} if n and "*" not in n))
