"""OAuth tokens of logins: stored in owner-only files and refreshed automatically."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import tempfile
import time
from collections.abc import AsyncGenerator
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

import httpx2
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...config import Config

# A token that expires while a request is on its way would be refused.
_EXPIRY_MARGIN_SECONDS = 30.0
# RFC 6749, 5.2: these statuses reject the refresh token or the client; others may be an outage.
_REFUSAL_STATUSES = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED)


class Grant(BaseModel):
    """The tokens for one server, and how to refresh them."""

    model_config = ConfigDict(frozen=True)

    url: str
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
    """A folder of grants, one file per server URL, readable only by its owner."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    @classmethod
    def of(cls, config: Config) -> OAuthTokenStore:
        """The store in the state folder of these settings."""
        return cls(config.state_folder / "logins")

    def load(self, url: str) -> Grant | None:
        """The grant for a URL; None if it is missing or its file is damaged."""
        try:
            return Grant.model_validate_json(self._path(url).read_bytes())
        except (OSError, ValidationError):
            return None

    def save(self, grant: Grant) -> None:
        """Replace the grant for its URL atomically; no reader sees half a file."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # mkstemp creates the file with mode 0600, and renaming keeps it.
        handle, temporary = tempfile.mkstemp(dir=self._folder)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(grant.model_dump_json())
        Path(temporary).replace(self._path(grant.url))

    def forget(self, url: str) -> bool:
        """Delete the grant for a URL; whether there was one."""
        try:
            self._path(url).unlink()
        except FileNotFoundError:
            return False
        return True

    def _path(self, url: str) -> Path:
        return self._folder / f"{hashlib.sha256(url.encode()).hexdigest()[:24]}.json"


class OAuthTokenAuth(httpx2.Auth):
    """Adds a server's access token to requests, and refreshes it when it expires or is refused."""

    def __init__(self, grants: OAuthTokenStore, url: str) -> None:
        self._grants = grants
        self._url = url
        self._refresh_lock = asyncio.Lock()

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with the token; if that is refused, refresh it and send again."""
        # The file is read for every request, so that a new login is used at once, and a token that
        # another process has refreshed is not refreshed again.
        grant = self._grants.load(self._url)
        if grant is None or not grant.is_expired:
            response = yield _sign(request, grant)
            if grant is None or response.status_code != HTTPStatus.UNAUTHORIZED:
                return
        async with self._refresh_lock:
            # Load again: while this request waited for the lock, another one may have refreshed
            # the token. Servers that rotate refresh tokens accept each of them only once.
            current = self._grants.load(self._url)
            if current is not None and current == grant and current.refresh_token:
                response = yield current.refresh_request()
                body = await response.aread()
                current = self._apply_response(current, response.status_code, body)
        yield _sign(request, current)

    def _apply_response(self, grant: Grant, status: int, body: bytes) -> Grant | None:
        """The grant after a refresh response, saved if it changed."""
        try:
            current = grant.with_new_tokens(body) if status == HTTPStatus.OK else grant
        except ValidationError:
            current = grant
        if current is grant and status in _REFUSAL_STATUSES:
            # The lock holds only in this process: another one may have used the refresh token
            # first, and stored what it got. Otherwise the token is dead, and is not sent again.
            current = self._grants.load(self._url) or grant
            if current == grant:
                current = grant.model_copy(update={"refresh_token": ""})
        if current != self._grants.load(self._url):
            self._grants.save(current)
        return current


def _sign(request: httpx2.Request, grant: Grant | None) -> httpx2.Request:
    if grant is not None:
        request.headers["Authorization"] = f"Bearer {grant.access_token}"
    return request
