"""Roles: what a caller may do beside calling tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

CallerRole = Literal["user", "admin"]
_SEPARATOR = "."


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated caller; the name is empty without authentication."""

    name: str
    role: CallerRole = "user"


OPERATOR = Identity("operator", "admin")
"""Who reads the terminal of the gateway, and so gets its login links."""


def is_admin(identity: Identity | None) -> bool:
    """Whether a caller may see and do everything that concerns the gateway itself."""
    return identity is not None and identity.role == "admin"


def claimed_role(claims: Mapping[str, Any], claim: str, admin_values: Sequence[str]) -> CallerRole:
    """The role that a claim gives: admin if it is, or lists, one of some exact texts."""
    value = _read_claim(claims, claim) if claim else None
    values = cast("list[object]", value) if isinstance(value, list) else [value]
    # Only texts count. A number, a table or a nested list is not what the configuration names.
    return "admin" if any(isinstance(v, str) and v in admin_values for v in values) else "user"


def _read_claim(claims: Mapping[str, Any], claim: str) -> object:
    """A claim by its path, as in `realm_access.roles`; a name with a slash is not a path."""
    # Issuers name claims of their customers by addresses: `https://tools.example.com/roles`.
    if "/" in claim:
        return claims.get(claim)
    value: object = claims
    for part in claim.split(_SEPARATOR):
        if not isinstance(value, Mapping):
            return None
        value = cast("Mapping[str, object]", value).get(part)
    return value
