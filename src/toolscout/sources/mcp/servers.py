"""The configuration of one MCP server as a frozen value that redacts its own secrets."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Literal
from urllib.parse import urlsplit

from ..secret_forms import redact_secrets

Transport = Literal["stdio", "http", "sse"]
Protocol = Literal["auto", "handshake", "stateless"]
# These download a server on its first start, for which the usual timeout is too short.
_DOWNLOADERS = frozenset(
    {"npx", "bunx", "pnpx", "pnpm", "yarn", "deno", "uvx", "uv", "pipx", "docker", "podman"}
)
DOWNLOAD_SECONDS = 120.0
"""How long a first start may take that downloads the server."""


def may_download(command: str) -> bool:
    """Whether a command is one that downloads a server on its first start."""
    program = PurePath(command).name.lower().removesuffix(".cmd").removesuffix(".exe")
    return program in _DOWNLOADERS


def is_http_url(url: str) -> bool:
    """Whether a text is an HTTP URL that can be connected to."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Timeouts of a server, how many calls it gets, what it may send, and what it may use."""

    connect_timeout_seconds: float = 20.0
    call_timeout_seconds: float = 120.0
    idle_seconds: float = 600.0
    poll_seconds: float = 300.0
    concurrency: int = 16
    queue: int = 200
    queue_seconds: float = 10.0
    calls_per_minute: float = 0.0
    principal_connections: int = 100
    response_bytes: int = 64 * 1024 * 1024
    memory_mb: int = 0
    cpu_seconds: int = 0
    open_files: int = 0
    file_mb: int = 0
    processes: int = 0


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """A registered OAuth client, for servers without dynamic client registration.

    With `is_per_principal` every principal has a login of their own.
    """

    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    callback_port: int = 0
    is_per_principal: bool = False


@dataclass(frozen=True, slots=True)
class Server:
    """One server of a configuration; `problem` says why it cannot be used."""

    name: str
    transport: Transport = "stdio"
    command: str = field(default="", repr=False)
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str = field(default="", repr=False)
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    oauth: OAuthClient = OAuthClient()
    protocol: Protocol = "auto"
    is_disabled: bool = False
    project: str = ""
    """The folder of the project that it belongs to; elsewhere it is disabled."""
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    is_prefixed: bool = True
    allows_private: bool = False
    limits: ServerLimits = ServerLimits()
    problem: str = ""
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def digest(self) -> str:
        """A hash over everything that decides which tools the server lists."""
        # Timeouts and filters are left out: changing them must not discard the cached listing.
        facts = [
            self.name,
            self.transport,
            self.command,
            self.args,
            sorted(self.env.items()),
            self.cwd,
            self.url,
            sorted(self.headers.items()),
            self.protocol,
            self.is_prefixed,
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]

    def listing_key(self, *, forwards_requests: bool) -> str:
        """The key of its cached listing, for a client that declares these capabilities."""
        # Some servers list more tools to a client that declares more. So each set of capabilities
        # has a list of its own.
        return f"{self.digest}-sampling" if forwards_requests else self.digest

    def with_download_time(self) -> Server:
        """The server, with time for a download at its start if it is a command."""
        if self.transport != "stdio":
            return self
        return replace(self, limits=replace(self.limits, connect_timeout_seconds=DOWNLOAD_SECONDS))

    @property
    def has_authorization(self) -> bool:
        """Whether the configuration has an Authorization header."""
        return any(name.lower() == "authorization" for name in self.headers)

    @property
    def location(self) -> str:
        """The command with its arguments, or the URL, without secrets."""
        if self.transport == "stdio":
            return " ".join(self._redact_part(part) for part in (self.command, *self.args))
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        return self.redact(f"{parts.scheme}://{host}{parts.path}")

    def allows_tool(self, tool: str) -> bool:
        """Whether the configuration allows a tool, by the server's own name for it."""
        if any(fnmatchcase(tool, pattern) for pattern in self.deny):
            return False
        return not self.allow or any(fnmatchcase(tool, pattern) for pattern in self.allow)

    def pins_tool(self, tool: str) -> bool:
        """Whether the configuration wants this tool always visible."""
        return any(fnmatchcase(tool, pattern) for pattern in self.pinned)

    def _redact_part(self, part: str) -> str:
        """A part of the command line as a shell would take it, without secrets."""
        redacted = "•••" if part in self.secrets else self.redact(part)
        return redacted if redacted != part else shlex.quote(part)

    def redact(self, text: str) -> str:
        """The text with every secret of this server replaced by dots."""
        return redact_secrets(text, self.secrets)
