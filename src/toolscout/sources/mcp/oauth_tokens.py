"""OAuth tokens of logins: stored encrypted, one text per login, and refreshed automatically."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

import httpx2
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...config import Config
from ...errors import StoreError
from ...store.encryption import Cipher, UnreadableSecretError, is_encrypted
from ...store.postgres_url import is_postgres_url
from ...store.state_key import StateKeys
from .grant_files import GrantFiles, GrantTexts

# A token that expires while a request is on its way would be refused.
_EXPIRY_MARGIN_SECONDS = 30.0
# RFC 6749, 5.2: these statuses reject the refresh token or the client; others may be an outage.
_REFUSAL_STATUSES = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED)
# Longer than one renewal takes.
_LOCK_SECONDS = 60.0


class Grant(BaseModel):
    """The tokens for one server, and how to refresh them."""

    model_config = ConfigDict(frozen=True)

    url: str
    principal: str = ""
    # The SDK forgets the token endpoint at every restart and then guesses it from the server's
    # URL, which is wrong wherever another host does the logins. So the one found at login is
    # stored with the tokens.
    token_endpoint: str
    client_id: str
    client_secret: str = Field(default="", repr=False)
    sends_secret_in_header: bool = False
    resource: str = ""
    access_token: str = Field(repr=False)
    refresh_token: str = Field(default="", repr=False)
    expires_at: float | None = None

    @property
    def is_expired(self) -> bool:
        """Whether the access token has expired or is about to."""
        return (
            self.expires_at is not None and time.time() > self.expires_at - _EXPIRY_MARGIN_SECONDS
        )

    def refresh_request(self) -> httpx2.Request:
        """The request for new tokens."""
        form = {
            "grant_type": "refresh_token",
            "refresh_token": self.refresh_token,
            "client_id": self.client_id,
        }
        if self.resource:
            form["resource"] = self.resource
        headers = {"Accept": "application/json"}
        if self.client_secret and self.sends_secret_in_header:
            # RFC 6749, 2.3.1: both halves are form-encoded before they are joined.
            pair = f"{quote(self.client_id, safe='')}:{quote(self.client_secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        elif self.client_secret:
            form["client_secret"] = self.client_secret
        return httpx2.Request("POST", self.token_endpoint, data=form, headers=headers)

    def with_new_tokens(self, body: bytes) -> Grant:
        """The grant with the tokens of a response; ValueError if it has none."""
        new = _TokenResponse.model_validate_json(body)
        return self.model_copy(
            update={
                "access_token": new.access_token,
                # A server that does not rotate refresh tokens sends none: the old one stays.
                "refresh_token": new.refresh_token or self.refresh_token,
                "expires_at": None if new.expires_in is None else time.time() + new.expires_in,
            }
        )


class _TokenResponse(BaseModel):
    """The fields that we use of a token endpoint's response."""

    access_token: str
    refresh_token: str | None = None
    expires_in: float | None = None


class OAuthTokenStore:
    """Grants in a folder or a database, one encrypted text per server URL and principal.

    The principal of a login that everybody shares is empty.
    """

    def __init__(self, place: str | Path | GrantTexts, *, keys: StateKeys | None = None) -> None:
        if isinstance(place, str | Path):
            keys = keys or StateKeys(Path(place).parent)
            place = GrantFiles(Path(place))
        assert keys is not None, "a database has no folder with a key"
        self._texts = place
        self._cipher = Cipher(keys)

    @classmethod
    def of(cls, config: Config) -> OAuthTokenStore:
        """The logins in the state folder of these settings, or in their PostgreSQL store."""
        return cls(open_grant_texts(config), keys=StateKeys.of(config))

    def load(self, url: str, principal: str = "") -> Grant | None:
        """The grant of a principal for a URL; None if it is missing or cannot be read."""
        try:
            grant = self._read(_name(url, principal))
        except (OSError, StoreError, ValidationError):
            return None
        # The name says so already; a grant must never serve anybody else.
        is_own = grant is not None and (grant.url, grant.principal) == (url, principal)
        return grant if is_own else None

    def explain_unreadable(self, url: str, principal: str = "") -> str:
        """Why there is a grant that cannot be read; empty if there is none or it can be."""
        name = _name(url, principal)
        try:
            self._read(name)
        except (OSError, StoreError, ValidationError) as error:
            reason = error.message if isinstance(error, StoreError) else "It is damaged."
            return f"there is a login that cannot be read ({self._texts.describe(name)}). {reason}"
        return ""

    def load_all(self) -> list[Grant]:
        """All grants that can be read."""
        grants: list[Grant] = []
        for name in self._texts.names():
            with suppress(OSError, StoreError, ValidationError):
                if (grant := self._read(name)) is not None:
                    grants.append(grant)
        return grants

    def save(self, grant: Grant) -> None:
        """Replace a grant; an unreadable one is not lost."""
        name = _name(grant.url, grant.principal)
        try:
            self._read(name)
        except (OSError, UnreadableSecretError, ValidationError):
            self._texts.set_aside(name)
        self._write(name, grant)

    def forget(self, url: str, principal: str = "") -> bool:
        """Delete the grant of a principal for a URL; whether there was one."""
        return self._texts.delete(_name(url, principal))

    @asynccontextmanager
    async def lock(self, url: str, principal: str) -> AsyncGenerator[None]:
        """Keep other tasks, processes and gateways from renewing a grant until the block ends."""
        held = self._texts.hold_async(_name(url, principal), timeout_seconds=_LOCK_SECONDS)
        async with held:
            yield

    def encrypt_again(self) -> tuple[int, list[str]]:
        """Encrypt all grants with the first key; how many, and which cannot be read."""
        count, unreadable = 0, list[str]()
        for name in self._texts.names():
            with self._texts.hold(name, timeout_seconds=_LOCK_SECONDS):
                try:
                    grant = self._read(name, migrates=False)
                    if grant is not None:
                        self._write(name, grant)
                        count += 1
                except (OSError, StoreError, ValidationError):
                    unreadable.append(self._texts.describe(name))
        return count, unreadable

    def close(self) -> None:
        """Release the place of the grants."""
        self._texts.close()

    def _read(self, name: str, *, migrates: bool = True) -> Grant | None:
        stored = self._texts.read(name)
        if stored is None:
            return None
        if is_encrypted(stored):
            return Grant.model_validate_json(self._cipher.decrypt(stored, context=name))
        grant = Grant.model_validate_json(stored)
        if migrates:
            self._migrate(name, stored, grant)
        return grant

    def _migrate(self, name: str, stored: bytes, grant: Grant) -> None:
        """Encrypt what an older version wrote; what cannot be done now is done later."""
        # Without waiting: a process that holds the lock is about to write newer tokens.
        with suppress(OSError, StoreError), self._texts.hold(name, timeout_seconds=0):
            if self._texts.read(name) == stored:
                self._write(name, grant)

    def _write(self, name: str, grant: Grant) -> None:
        text = grant.model_dump_json(exclude_defaults=True).encode()
        self._texts.write(name, self._cipher.encrypt(text, context=name))


def open_grant_texts(config: Config) -> GrantTexts:
    """The place of the logins: the state folder, or the PostgreSQL store of all gateways."""
    if not is_postgres_url(config.store):
        return GrantFiles(config.state_folder / "logins")
    # Imported on demand: most gateways have no database.
    from .grant_records import GrantRecords

    return GrantRecords(config.store)


def _name(url: str, principal: str) -> str:
    owner = f"{url}\0{principal}" if principal else url
    return hashlib.sha256(owner.encode(errors="replace")).hexdigest()[:24]


class OAuthTokenAuth(httpx2.Auth):
    """Adds a principal's access token for a server to requests, and renews it when necessary."""

    def __init__(self, grants: OAuthTokenStore, url: str, principal: str = "") -> None:
        self._grants = grants
        self._url = url
        self._principal = principal

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with the token; if that is refused, refresh it and send again."""
        # It is read for every request, so that a new login is used at once, and a token that
        # another process has refreshed is not refreshed again.
        grant = await asyncio.to_thread(self._load)
        if grant is None or not grant.is_expired:
            response = yield _sign(request, grant)
            if grant is None or response.status_code != HTTPStatus.UNAUTHORIZED:
                return
        # Shared by all processes: servers that rotate refresh tokens accept each only once.
        async with self._grants.lock(self._url, self._principal):
            # Load again: while this request waited, another one may have refreshed the token.
            current = await asyncio.to_thread(self._load)
            if current is not None and current == grant and current.refresh_token:
                response = yield current.refresh_request()
                body = await response.aread()
                current = await asyncio.to_thread(
                    self._apply_response, current, response.status_code, body
                )
        yield _sign(request, current)

    def _load(self) -> Grant | None:
        return self._grants.load(self._url, self._principal)

    def _apply_response(self, grant: Grant, status: int, body: bytes) -> Grant | None:
        """The grant after a refresh response, saved if it changed."""
        try:
            current = grant.with_new_tokens(body) if status == HTTPStatus.OK else grant
        except ValidationError:
            current = grant
        if current is grant and status in _REFUSAL_STATUSES:
            # A machine that shares the folder without the lock may have used the refresh token
            # first, and stored what it got. Otherwise the token is dead, and is not sent again.
            current = self._load() or grant
            if current == grant:
                current = grant.model_copy(update={"refresh_token": ""})
        if current != self._load():
            self._grants.save(current)
        return current


def _sign(request: httpx2.Request, grant: Grant | None) -> httpx2.Request:
    if grant is not None:
        request.headers["Authorization"] = f"Bearer {grant.access_token}"
    return request
