"""What a login at a server gave: kept for its owner alone, and renewed without anybody's help."""

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

_EXPIRY_MARGIN_SECONDS = 30.0
_REFUSAL_STATUSES = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED)


class Grant(BaseModel):
    """The right to use one server, and how to have it renewed.

    It is renewed at the `token_endpoint` that was found at login: asking for that place again at
    every start would be a request more, and guessing it from the server's address is wrong for
    every server that leaves logins to somebody else.
    """

    model_config = ConfigDict(frozen=True)

    url: str
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
        """Whether the token is, or is just about to be, too old."""
        return (
            self.expires_at is not None and time.time() > self.expires_at - _EXPIRY_MARGIN_SECONDS
        )

    def refresh_request(self) -> httpx2.Request:
        """The request for a new token."""
        form = {
            "grant_type": "refresh_token",
            "refresh_token": self.refresh_token,
            "client_id": self.client_id,
        }
        if self.resource:
            form["resource"] = self.resource
        headers = {"Accept": "application/json"}
        if self.client_secret and self.sends_secret_in_header:
            pair = f"{quote(self.client_id, safe='')}:{quote(self.client_secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        elif self.client_secret:
            form["client_secret"] = self.client_secret
        return httpx2.Request("POST", self.token_endpoint, data=form, headers=headers)

    def with_new_tokens(self, answer: bytes) -> Grant:
        """The grant with the tokens of an answer; ValueError if it has none."""
        new = _TokenResponse.model_validate_json(answer)
        return self.model_copy(
            update={
                "access_token": new.access_token,
                "refresh_token": new.refresh_token or self.refresh_token,
                "expires_at": None if new.expires_in is None else time.time() + new.expires_in,
            }
        )


class _TokenResponse(BaseModel):
    """What we read of a token endpoint's answer."""

    access_token: str
    refresh_token: str | None = None
    expires_in: float | None = None


class GrantStore:
    """A folder of grants, one file a server's address, readable by its owner alone."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    @classmethod
    def of(cls, config: Config) -> GrantStore:
        """Those of the logins that were made under some settings."""
        return cls(config.state_folder / "logins")

    def load(self, url: str) -> Grant | None:
        """The grant for an address, or nothing; a broken file is nothing."""
        try:
            return Grant.model_validate_json(self._path(url).read_bytes())
        except (OSError, ValidationError):
            return None

    def save(self, grant: Grant) -> None:
        """Keep a grant in place of an older one; nobody ever reads half of it."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(dir=self._folder)  # which others cannot read
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(grant.model_dump_json())
        Path(temporary).replace(self._path(grant.url))

    def forget(self, url: str) -> bool:
        """Drop the grant for an address; whether there was one."""
        try:
            self._path(url).unlink()
        except FileNotFoundError:
            return False
        return True

    def _path(self, url: str) -> Path:
        return self._folder / f"{hashlib.sha256(url.encode()).hexdigest()[:24]}.json"


class GrantAuth(httpx2.Auth):
    """Signs requests to one server with what its login gave, renewed when it is over or refused.

    The file is read each time: a login made meanwhile counts at once, and of several processes
    that renew the same grant the later ones find the token of the first.
    """

    def __init__(self, grants: GrantStore, url: str) -> None:
        self._grants = grants
        self._url = url
        self._turn = asyncio.Lock()

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request signed; if that is not enough, renew the grant and send it again."""
        grant = self._grants.load(self._url)
        if grant is None or not grant.is_expired:
            response = yield _sign(request, grant)
            if grant is None or response.status_code != HTTPStatus.UNAUTHORIZED:
                return
        async with self._turn:
            now = self._grants.load(self._url)
            if now is not None and now == grant and now.refresh_token:
                answer = yield now.refresh_request()
                now = self._apply_response(now, answer.status_code, await answer.aread())
        yield _sign(request, now)

    def _apply_response(self, grant: Grant, status: int, answer: bytes) -> Grant | None:
        """What an answer makes of a grant; what was refused for good is not asked for again."""
        try:
            now = grant.with_new_tokens(answer) if status == HTTPStatus.OK else grant
        except ValidationError:
            now = grant
        if now is grant and status in _REFUSAL_STATUSES:
            now = self._grants.load(self._url) or grant  # perhaps another process was quicker
            if now == grant:
                now = grant.model_copy(update={"refresh_token": ""})
        if now != self._grants.load(self._url):
            self._grants.save(now)
        return now


def _sign(request: httpx2.Request, grant: Grant | None) -> httpx2.Request:
    if grant is not None:
        request.headers["Authorization"] = f"Bearer {grant.access_token}"
    return request
