"""Who calls, which session the call belongs to, and where that session is stored."""

from __future__ import annotations

import hashlib
import uuid
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_access_token, get_http_request
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ...catalog.sanitization import clean_line
from ...store.contract import Record, Store, StoreLimits
from ...store.memory import MemoryStore
from ..access import AccessRule
from ..identity.roles import CallerRole, Identity
from ..identity.token_identity import token_identity
from ..settings import Auth

SESSION_HEADER = "toolscout-session"
SESSION_META = "toolscout/session"
# Over stdio one process serves one client, so the process is the session.
_PROCESS_ID = uuid.uuid4().hex
# Only this much of an id that a client chose goes into the key.
_MAX_SESSION_ID = 200
# The name goes into every event of the client, so a long one would cost a lot.
_MAX_CLIENT_NAME = 100
# Marks the key of a session that no later request can name. RoutingStore keeps these in memory.
_TRANSIENT_PREFIX = "~"
_MAX_TRANSIENT_SESSIONS = 256

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls, by name, and the key of the session that the call belongs to.

    `owner` is the only one who may answer a question that a suspended call asked. Without
    `keeps_session` the key is of this one request. `client` is the program, as it calls itself.
    `role` is what the token says of the caller.
    """

    name: str
    session: str
    owner: str
    keeps_session: bool = True
    client: str = ""
    role: CallerRole = "user"

    @property
    def identity(self) -> Identity:
        """The name and the role, which policies decide by."""
        return Identity(self.name, self.role)


def identify_caller(context: Context, *, auth: Auth, fixed_session: str = "") -> Principal:
    """Find the caller and its session.

    In this order: an id that the command line or the client gives, the process over stdio, the
    protocol's own session, the authenticated principal. An anonymous stateless client has none of
    these, and so no session to return to.
    """
    caller = current_identity(auth)
    return replace(_find_session(context, caller.name, fixed_session), role=caller.role)


def _find_session(context: Context, name: str, fixed_session: str) -> Principal:
    # Every key is a hash that includes the principal. Knowing another principal's session id
    # therefore gives no access to that session.
    session_id = fixed_session or _client_session_id(context)
    owner = _hash_key(name, "owner", session_id)
    if session_id:
        return Principal(name, _hash_key(name, "id", session_id), owner)
    if context.transport == "stdio":
        return Principal(name, _hash_key(name, "process", _PROCESS_ID), owner)
    request = context.request_context
    # From version 2026-07-28 on the protocol is stateless and has no sessions of its own.
    if request is not None and request.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return Principal(name, _hash_key(name, "protocol", context.session_id), owner)
    if name:
        return Principal(name, _hash_key(name, "principal", ""), owner)
    return transient_principal(Identity(""), owner=owner)


def transient_principal(caller: Identity, *, owner: str = "") -> Principal:
    """A caller without a session to return to."""
    key = f"{_TRANSIENT_PREFIX}{uuid.uuid4().hex}"
    return Principal(caller.name, key, owner, keeps_session=False, role=caller.role)


def program_session() -> str:
    """The key of a session for one program of a caller without a session of its own."""
    return uuid.uuid4().hex


def client_name(context: Context) -> str:
    """The name that the client's program gives itself; empty if it gives none."""
    params = context.session.client_params if context.request_context is not None else None
    return clean_line(params.client_info.name, cap=_MAX_CLIENT_NAME) if params else ""


def scope_to_rule(caller: Principal, rule: AccessRule | None) -> Principal:
    """Give the caller a separate session for each access rule."""
    # A session remembers tools by name and description. After a policy edit the caller must not
    # see what it could see before, so another rule means another session.
    if rule is None or not caller.keeps_session:
        return caller
    return replace(caller, session=_hash_key(caller.session, "rule", rule.session_key_text))


def is_explicit_listing() -> bool:
    """Whether the client itself asked for the tool list."""
    # The SDK also lists the tools by itself, before it hands a call over HTTP on. The request that
    # runs is then still the one of the call.
    return read_header("mcp-method") != "tools/call"


def current_identity(auth: Auth) -> Identity:
    """The authenticated caller; without a name if there is no authentication."""
    token = get_access_token()
    return Identity("") if token is None else token_identity(token, auth)


def _client_session_id(context: Context) -> str:
    request = context.request_context
    meta = dict(request.meta or {}) if request is not None else {}
    session_id = meta.get(SESSION_META) or (
        read_header(SESSION_HEADER) if context.transport != "stdio" else ""
    )
    return str(session_id)[:_MAX_SESSION_ID] if session_id else ""


def read_header(name: str) -> str:
    """A header of the HTTP request that is being answered; empty without one."""
    try:
        return get_http_request().headers.get(name, "")
    except RuntimeError:  # the request did not come over HTTP
        return ""


def _hash_key(principal: str, kind: str, value: str) -> str:
    # The separator keeps "ab" + "c" apart from "a" + "bc". Ids from JSON may hold half a surrogate
    # pair, which UTF-8 cannot encode.
    text = "\0".join((principal, kind, value))
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:40]


class RoutingStore:
    """A store that keeps transient sessions in memory and all others in the persistent store."""

    def __init__(self, persistent: Store) -> None:
        self._persistent = persistent
        # A transient session is never used again: one request needs it, and the next may drop it.
        self._transient = MemoryStore(limits=StoreLimits(cap=_MAX_TRANSIENT_SESSIONS))

    def _store_for(self, key: str) -> Store:
        return self._transient if key.startswith(_TRANSIENT_PREFIX) else self._persistent

    def get(self, key: str) -> Record | None:
        """The record under a key."""
        return self._store_for(key).get(key)

    def put(self, key: str, text: str, *, expected: int) -> Record | None:
        """Write if the stored version is still the expected one."""
        return self._store_for(key).put(key, text, expected=expected)

    def delete(self, key: str) -> bool:
        """Delete a record."""
        return self._store_for(key).delete(key)

    def expire(self) -> int:
        """Delete records that are too old."""
        return self._persistent.expire()

    def list(self, *, limit: int = 100) -> tuple[Record, ...]:
        """The persistent records, last written first."""
        return self._persistent.list(limit=limit)

    def close(self) -> None:
        """Close both stores."""
        self._transient.close()
        self._persistent.close()


class LRUCache(Generic[K, V]):
    """The most recently used values by key, up to a fixed number."""

    # functools.lru_cache wraps a function; here values are also replaced and listed.

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value of a key, which counts as a use."""
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key]

    def put(self, key: K, value: V) -> None:
        """Store a value, and drop the least recently used one if there are too many."""
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._capacity:
            self._values.popitem(last=False)

    def discard(self, key: K) -> None:
        """Drop a value, if there is one."""
        self._values.pop(key, None)

    def values(self) -> tuple[V, ...]:
        """All values, the last used at the end."""
        return tuple(self._values.values())

    def clear(self) -> None:
        """Drop all values."""
        self._values.clear()

    def __contains__(self, key: object) -> bool:
        return key in self._values
