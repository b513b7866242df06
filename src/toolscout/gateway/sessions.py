"""Whose request this is, and which conversation it belongs to."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass, replace

from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_access_token, get_http_request
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

HEADER = "toolscout-session"
META = "toolscout/session"
_PROCESS = uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class Who:
    """A principal and the key of one of its conversations; `is_kept` if there is one to keep.

    `owner` is who may take up a call that waits for an answer.
    """

    principal: str
    session: str
    owner: str
    is_kept: bool = True


def who(context: Context, *, fixed: str = "") -> Who:
    """Tell callers apart.

    The protocol's own session counts, or an id that the client gives, or the authenticated
    principal. Keys hold a hash of the principal, so one never reaches another's conversation by
    knowing its id. A stateless client that gives none of these has no conversation to keep.
    """
    principal = principal_of()
    explicit = fixed or _explicit(context)
    owner = _key(principal, "owner", explicit)
    if explicit:
        return Who(principal, _key(principal, "id", explicit), owner)
    if context.transport == "stdio":
        return Who(principal, _key(principal, "process", _PROCESS), owner)
    request = context.request_context
    if request is not None and request.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return Who(principal, _key(principal, "protocol", context.session_id), owner)
    if principal:
        return Who(principal, _key(principal, "principal", ""), owner)
    return Who("", f"~{uuid.uuid4().hex}", owner, is_kept=False)


def under(caller: Who, rule: object) -> Who:
    """The caller under a rule: what was told under another one belongs to another conversation."""
    if rule is None or not caller.is_kept:
        return caller
    return replace(caller, session=_key(caller.session, "rule", repr(rule)))


def is_asked_for() -> bool:
    """Whether a listing is the client's own wish, and not the SDK's look before a call."""
    return _header("mcp-method") != "tools/call"


def principal_of() -> str:
    """The authenticated caller's name; empty without authentication."""
    token = get_access_token()
    if token is None:
        return ""
    subject = (token.claims or {}).get("sub")
    return str(subject or token.client_id)


def _explicit(context: Context) -> str:
    request = context.request_context
    meta = dict(request.meta or {}) if request is not None else {}
    given = meta.get(META) or (_header(HEADER) if context.transport != "stdio" else "")
    return str(given)[:200] if given else ""


def _header(name: str) -> str:
    try:
        return get_http_request().headers.get(name, "")
    except RuntimeError:
        return ""


def _key(principal: str, kind: str, value: str) -> str:
    text = "\0".join((principal, kind, value))
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:40]
