"""Whose a verified token is: the name of its owner, and the role."""

from __future__ import annotations

from fastmcp.server.auth import AccessToken

from ..settings import Auth
from .roles import CallerRole, Identity, claimed_role


class TableToken(AccessToken):
    """A token of the configuration, which also says what role its principal has."""

    role: CallerRole = "user"


def token_identity(token: AccessToken, auth: Auth) -> Identity:
    """The owner of a verified token."""
    claims = token.claims or {}
    name = str(claims.get("sub") or token.client_id)
    if isinstance(token, TableToken):
        return Identity(name, token.role)
    return Identity(name, claimed_role(claims, auth.role_claim, auth.admin_values))
