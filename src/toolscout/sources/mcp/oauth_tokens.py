"""OAuth tokens of logins: stored encrypted, one file per login, and refreshed automatically."""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
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
from ...store.encryption import Cipher, is_encrypted
from ...store.file_lock import hold_file_lock, hold_file_lock_async
from ...store.state_key import StateKeys

# A token that expires while a request is on its way would be refused.
_EXPIRY_MARGIN_SECONDS = 30.0
# RFC 6749, 5.2: these statuses reject the refresh token or the client; others may be an outage.
_REFUSAL_STATUSES = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED)
_SUFFIX = ".json"
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
    """A folder of grants, one encrypted file per server URL and principal.

    The principal of a login that everybody shares is empty.
    """

    def __init__(self, folder: str | Path, *, keys: StateKeys | None = None) -> None:
        self._folder = Path(folder)
        self._cipher = Cipher(keys or StateKeys(self._folder.parent))

    @classmethod
    def of(cls, config: Config) -> OAuthTokenStore:
        """The store in the state folder of these settings."""
        return cls(config.state_folder / "logins", keys=StateKeys.of(config))

    def load(self, url: str, principal: str = "") -> Grant | None:
        """The grant of a principal for a URL; None if it is missing or cannot be read."""
        try:
            grant = self._read(self._path(url, principal))
        except (OSError, StoreError, ValidationError):
            return None
        # The name of the file says so already; a grant must never serve anybody else.
        return grant if (grant.url, grant.principal) == (url, principal) else None

    def explain_unreadable(self, url: str, principal: str = "") -> str:
        """Why there is a grant that cannot be read; empty if there is none or it can be."""
        path = self._path(url, principal)
        try:
            self._read(path)
        except FileNotFoundError:
            return ""
        except (OSError, StoreError, ValidationError) as error:
            reason = error.message if isinstance(error, StoreError) else "It is damaged."
            return f"there is a login that cannot be read ({path.name}). {reason}"
        return ""

    def load_all(self) -> list[Grant]:
        """All grants that can be read."""
        grants: list[Grant] = []
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            with suppress(OSError, StoreError, ValidationError):
                grants.append(self._read(path))
        return grants

    def save(self, grant: Grant) -> None:
        """Replace a grant atomically; no reader sees half a file, and no unreadable one is lost."""
        path = self._path(grant.url, grant.principal)
        if self.explain_unreadable(grant.url, grant.principal):
            path.replace(path.with_suffix(".unreadable"))
        self._write(path, grant)

    def forget(self, url: str, principal: str = "") -> bool:
        """Delete the grant of a principal for a URL; whether there was one."""
        try:
            self._path(url, principal).unlink()
        except FileNotFoundError:
            return False
        return True

    @asynccontextmanager
    async def lock(self, url: str, principal: str) -> AsyncGenerator[None]:
        """Keep other tasks and processes from renewing a grant until the block ends."""
        path = self._lock_path(self._path(url, principal))
        async with hold_file_lock_async(path, timeout_seconds=_LOCK_SECONDS):
            yield

    def encrypt_again(self) -> tuple[int, list[str]]:
        """Encrypt all grants with the first key; how many, and which files cannot be read."""
        count, unreadable = 0, list[str]()
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            with hold_file_lock(self._lock_path(path), timeout_seconds=_LOCK_SECONDS):
                try:
                    self._write(path, self._read(path, migrates=False))
                    count += 1
                except FileNotFoundError:
                    continue
                except (OSError, StoreError, ValidationError):
                    unreadable.append(path.name)
        return count, unreadable

    def _read(self, path: Path, *, migrates: bool = True) -> Grant:
        stored = path.read_bytes()
        if is_encrypted(stored):
            return Grant.model_validate_json(self._cipher.decrypt(stored, context=path.stem))
        grant = Grant.model_validate_json(stored)
        if migrates:
            self._migrate(path, stored, grant)
        return grant

    def _migrate(self, path: Path, stored: bytes, grant: Grant) -> None:
        """Encrypt a file that an older version wrote; what cannot be done now is done later."""
        # Without waiting: a process that holds the lock is about to write newer tokens.
        lock = self._lock_path(path)
        with suppress(OSError, StoreError), hold_file_lock(lock, timeout_seconds=0):
            if path.read_bytes() == stored:
                self._write(path, grant)

    def _write(self, path: Path, grant: Grant) -> None:
        text = grant.model_dump_json(exclude_defaults=True).encode()
        content = self._cipher.encrypt(text, context=path.stem)
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # mkstemp creates the file with mode 0600, and renaming keeps it.
        handle, temporary = tempfile.mkstemp(dir=self._folder)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).replace(path)

    def _path(self, url: str, principal: str) -> Path:
        owner = f"{url}\0{principal}" if principal else url
        digest = hashlib.sha256(owner.encode(errors="replace")).hexdigest()[:24]
        return self._folder / f"{digest}{_SUFFIX}"

    def _lock_path(self, path: Path) -> Path:
        return self._folder.with_name("locks") / f"login-{path.stem}.lock"


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
        # The file is read for every request, so that a new login is used at once, and a token that
        # another process has refreshed is not refreshed again.
        grant = self._load()
        if grant is None or not grant.is_expired:
            response = yield _sign(request, grant)
            if grant is None or response.status_code != HTTPStatus.UNAUTHORIZED:
                return
        # Shared by all processes: servers that rotate refresh tokens accept each only once.
        async with self._grants.lock(self._url, self._principal):
            # Load again: while this request waited, another one may have refreshed the token.
            current = self._load()
            if current is not None and current == grant and current.refresh_token:
                response = yield current.refresh_request()
                body = await response.aread()
                current = self._apply_response(current, response.status_code, body)
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
