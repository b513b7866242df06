"""Which client a request comes from, which session it belongs to, and where that is stored."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass, replace

from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_access_token, get_http_request
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ...store.contract import Record, Store, StoreLimits
from ...store.memory import MemoryStore

SESSION_HEADER = "toolscout-session"
SESSION_META = "toolscout/session"
_PROCESS = uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class Principal:
    """A principal and the key of one of its conversations; `is_kept` if there is one to keep.

    `owner` is who may take up a call that waits for an answer.
    """

    principal: str
    session: str
    owner: str
    is_kept: bool = True


def identify_caller(context: Context, *, fixed: str = "") -> Principal:
    """Tell callers apart.

    The protocol's own session counts, or an id that the client gives, or the authenticated
    principal. Keys hold a hash of the principal, so one never reaches another's conversation by
    knowing its id. A stateless client that gives none of these has no conversation to keep.
    """
    principal = current_principal()
    explicit = fixed or _client_session_id(context)
    owner = _hash_key(principal, "owner", explicit)
    if explicit:
        return Principal(principal, _hash_key(principal, "id", explicit), owner)
    if context.transport == "stdio":
        return Principal(principal, _hash_key(principal, "process", _PROCESS), owner)
    request = context.request_context
    if request is not None and request.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return Principal(principal, _hash_key(principal, "protocol", context.session_id), owner)
    if principal:
        return Principal(principal, _hash_key(principal, "principal", ""), owner)
    return Principal("", f"~{uuid.uuid4().hex}", owner, is_kept=False)


def scope_to_rule(caller: Principal, rule: object) -> Principal:
    """The caller under a rule: what was told under another one belongs to another conversation."""
    if rule is None or not caller.is_kept:
        return caller
    return replace(caller, session=_hash_key(caller.session, "rule", repr(rule)))


def is_explicit_listing() -> bool:
    """Whether a listing is the client's own wish, and not the SDK's look before a call."""
    return _read_header("mcp-method") != "tools/call"


def current_principal() -> str:
    """The authenticated caller's name; empty without authentication."""
    token = get_access_token()
    if token is None:
        return ""
    subject = (token.claims or {}).get("sub")
    return str(subject or token.client_id)


def _client_session_id(context: Context) -> str:
    request = context.request_context
    meta = dict(request.meta or {}) if request is not None else {}
    given = meta.get(SESSION_META) or (
        _read_header(SESSION_HEADER) if context.transport != "stdio" else ""
    )
    return str(given)[:200] if given else ""


def _read_header(name: str) -> str:
    try:
        return get_http_request().headers.get(name, "")
    except RuntimeError:
        return ""


def _hash_key(principal: str, kind: str, value: str) -> str:
    text = "\0".join((principal, kind, value))
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:40]


_MOST_PASSING = 256


class RoutingStore:
    """A store that forgets ids beginning with `~`, which nobody will ever ask for again."""

    def __init__(self, lasting: Store) -> None:
        self._lasting = lasting
        self._passing = MemoryStore(limits=StoreLimits(cap=_MOST_PASSING))

    def _store_for(self, key: str) -> Store:
        return self._passing if key.startswith("~") else self._lasting

    def get(self, key: str) -> Record | None:
        """What is kept under a key."""
        return self._store_for(key).get(key)

    def put(self, key: str, text: str, *, expected: int) -> Record | None:
        """Write if the version is still the expected one."""
        return self._store_for(key).put(key, text, expected=expected)

    def delete(self, key: str) -> bool:
        """Forget a key."""
        return self._store_for(key).delete(key)

    def expire(self) -> int:
        """Drop what is too old."""
        return self._lasting.expire()

    def list(self, *, limit: int = 100) -> tuple[Record, ...]:
        """What lasts, last written first."""
        return self._lasting.list(limit=limit)

    def close(self) -> None:
        """Close both."""
        self._passing.close()
        self._lasting.close()
