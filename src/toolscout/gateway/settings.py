"""What a gateway does beyond its servers: the `[gateway]`, `[auth]` and `[policies]` of TOML."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..catalog.sources.mcp.reading import Document, expand
from ..errors import ConfigError


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Options(_Table):
    """The `[gateway]` table."""

    profile: str = "default"
    """Which profile's surface is shown; `everything` shows all tools."""

    surface: Literal["dispatch", "load"] = "dispatch"
    """`dispatch` never changes the tool list; `load` adds tools as they are found."""

    require_approval: bool = False
    """Whether tools wait for approval even on first contact with a server."""

    confirm: Literal["never", "destructive", "unknown"] = "never"
    """Which calls the user is asked about through the client."""

    roster_tokens: int = Field(default=800, ge=0)
    """How much the list of what exists may cost."""

    large_outputs: bool = True
    """Whether large results are kept aside and read back in parts."""

    audit: str = ""
    """File for the audit log; empty means in the state folder, `off` none."""

    start_wait_seconds: float = Field(default=5.0, ge=0)
    """How long the first searches wait for servers that never listed their tools before."""

    allowed_hosts: tuple[str, ...] = ()
    """Host headers that are right besides the address served on."""

    allowed_origins: tuple[str, ...] = ()
    """Browser origins that may call the gateway."""


class Policy(_Table):
    """What some principals may see and call; no list means no limit."""

    principals: tuple[str, ...] = ("*",)
    servers: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    read_only: bool = False


class JWT(_Table):
    """How JSON Web Tokens are checked, and where clients get them.

    With `base_url`, the address that clients know the gateway by, it tells them which servers give
    out tokens for it: `authorization_servers`, or the issuer.
    """

    jwks_uri: str | None = None
    public_key: str | None = None
    issuer: str | None = None
    audience: str | None = None
    algorithm: str | None = None
    required_scopes: tuple[str, ...] = ()
    base_url: str = ""
    authorization_servers: tuple[str, ...] = ()


class Auth(_Table):
    """Who may connect over HTTP: tokens by principal, JWT, or a provider of FastMCP's."""

    tokens: Mapping[str, str] = Field(default_factory=dict[str, str], repr=False)
    jwt: JWT | None = None
    provider: str = ""
    options: Mapping[str, Any] = Field(default_factory=dict[str, Any], repr=False)

    @property
    def is_set(self) -> bool:
        """Whether anybody has to say who they are."""
        return bool(self.tokens or self.jwt or self.provider)


class Spec(_Table):
    """An HTTP API: its OpenAPI document, and how to use it."""

    document: str
    base_url: str = ""
    headers: Mapping[str, str] = Field(default_factory=dict[str, str], repr=False)
    auth: Mapping[str, str] = Field(default_factory=dict[str, str], repr=False)
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    timeout_seconds: float = Field(default=60.0, gt=0)
    allow_private: bool = False


class Settings(_Table):
    """All of it."""

    gateway: Options = Options()
    auth: Auth = Auth()
    policies: Mapping[str, Policy] = Field(default_factory=dict[str, Policy])
    openapi: Mapping[str, Spec] = Field(default_factory=dict[str, Spec])


def settings_of(document: Document, *, variables: Mapping[str, str] | None = None) -> Settings:
    """Read the sections beside the servers; secrets are filled in from the environment."""
    variables = os.environ if variables is None else variables
    known = {k: v for k, v in document.rest.items() if k in Settings.model_fields}
    filled = cast("dict[str, Any]", _filled(known, variables))
    if token := variables.get("TOOLSCOUT_TOKEN"):
        auth = filled.setdefault("auth", {})
        auth.setdefault("tokens", {}).setdefault("default", token)
    try:
        return Settings.model_validate(filled)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"The setting {where} is wrong: {first['msg']}.") from error


def _filled(value: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return expand(value, variables, server="the gateway")
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        return {k: _filled(v, variables) for k, v in table.items()}
    if isinstance(value, list):
        return [_filled(v, variables) for v in cast("list[Any]", value)]
    return value


def audit_path(options: Options, state_folder: Path) -> Path | None:
    """Where the audit log goes."""
    if options.audit == "off":
        return None
    return Path(options.audit).expanduser() if options.audit else state_folder / "audit.jsonl"
