"""Whose a verified token is: the name of its owner, and the role."""

from __future__ import annotations

from collections.abc import Iterable

from fastmcp.server.auth import AccessToken

from ..settings import Auth
from .roles import OPERATOR, CallerRole, Identity, claimed_role


class TableToken(AccessToken):
    """A token of the configuration, which also says what role its principal has."""

    role: CallerRole = "user"


def own_principals(tokens: Iterable[str]) -> frozenset[str]:
    """The principals that the gateway itself names, in its table of tokens and for its operator."""
    return frozenset((*tokens, OPERATOR.name))


def token_identity(token: AccessToken, auth: Auth) -> Identity:
    """The owner of a verified token."""
    claims = token.claims or {}
    name = str(claims.get("sub") or token.client_id)
    if isinstance(token, TableToken):
        return Identity(name, token.role)
    # Verifiers of our own refuse such a token. Those of a named provider do not know the table.
    if name in own_principals(auth.tokens):
        name = f"{name} (provider)"
    return Identity(name, claimed_role(claims, auth.role_claim, auth.admin_values))
