"""The tables of a gateway's configuration besides its servers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, TypeGuard, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from ..config import TABLE, FilePath, PathList
from ..errors import ConfigError
from ..sources.mcp.server_config import ConfigDocument
from ..sources.mcp.variables import expand_variables
from ..telemetry.forwarding_targets import parse_target
from ..telemetry.otlp_settings import TelemetrySettings
from .identity.roles import CallerRole
from .limits.limit_settings import LimitSettings

# Shorter tokens can be guessed.
MIN_TOKEN_LENGTH = 16
# More processes than this are more than any machine has use for.
MAX_WORKERS = 64
# No setting needs this depth. The limit turns a broken file into an error before Python's recursion
# limit does.
_MAX_DEPTH = 64
# How similar an unknown name must be to a known one (difflib) to count as a typo of it.
_CLOSE_MATCH = 0.7
# Other tables in JSON files: prompts of VS Code, and the schema that editors add.
_CLIENT_TABLES = ("$schema", "inputs")
# A table of editors that looks like a typo of a gateway table. In a gateway's file it is one.
_EDITOR_TABLE = "profiles"


class _SettingsTable(BaseModel):
    # An unknown key is an error: a typo may be in a setting that restricts access.
    model_config = ConfigDict(frozen=True, extra="forbid")


class GatewayOptions(_SettingsTable):
    """The `[gateway]` table."""

    profile: str = "default"
    """The profile that clients see; `everything` shows all tools."""

    surface: Literal["dispatch", "load"] = "dispatch"
    """`dispatch` never changes the tool list; `load` adds tools as they are found."""

    require_approval: bool = False
    """Whether tools are held for approval even on first contact with a server."""

    confirm: Literal["never", "destructive", "unknown"] = "never"
    """Which calls the user has to confirm, asked through the client."""

    roster_tokens: int = Field(default=800, ge=0)
    """How many tokens the list of available tools may cost."""

    passthrough: bool = True
    """Whether clients can list and use the prompts and resources of servers."""

    large_outputs: bool = True
    """Whether large results are stored and read in parts."""

    rules: PathList | None = None
    """Rules for using tools: folders, or Markdown files; unset means the value in the settings."""

    skills: PathList | None = None
    """Folders of skills; unset means the value in the settings."""

    overlay: FilePath | None = None
    """A file with phrases and aliases for tools; unset means the value in the settings."""

    memory: bool | None = None
    """Whether conversations remember entities and tools; unset means the value in the settings."""

    audit: str = ""
    """The file of the audit log; empty means in the state folder, `off` none."""

    audit_max_mb: float = Field(default=100.0, ge=0)
    """The size at which a new file of the audit log is started; 0 means never."""

    audit_files: int = Field(default=10, ge=1, le=1_000)
    """How many files of the audit log are kept, with the current one."""

    audit_forward: tuple[str, ...] = ()
    """Where lines of the audit log are sent too: `syslog…`, `otlp`."""

    audit_queue: int = Field(default=10_000, ge=1)
    """How many lines wait for each of these receivers; more are dropped and counted."""

    show_queries: bool = True
    """Whether the lines of `toolscout serve` contain the queries."""

    start_wait_seconds: float = Field(default=5.0, ge=0)
    """How long requests wait for servers whose tools are not known yet."""

    public_url: str = ""
    """The address of the gateway in links to login pages; empty means that of the request."""

    internal_address: str = Field(default="", pattern=r"^(|.+:\d{1,5})$")
    """HOST:PORT for other gateways with the same store; empty means any free port of the public
    address."""

    console: bool = True
    """Whether the web console is served at `/console`."""

    workers: int = Field(default=1, ge=1, le=MAX_WORKERS)
    """How many processes serve HTTP together, as one gateway."""

    allowed_hosts: tuple[str, ...] = ()
    """Host headers that are accepted besides the address served on."""

    allowed_origins: tuple[str, ...] = ()
    """Browser origins that may call the gateway."""

    tls_cert: FilePath | None = None
    """The file of the TLS certificate, with its chain; unset means plain HTTP."""

    tls_key: FilePath | None = None
    """The file of the private key of the certificate."""

    @field_validator("audit")
    @classmethod
    def _check_audit_path(cls, value: str) -> str:
        """Refuse an invalid path now, rather than when the first call is logged."""
        try:
            Path(value).expanduser()
        except RuntimeError as error:
            raise ValueError(f"{value!r} begins with the home folder of an unknown user") from error
        if "\0" in value:
            raise ValueError("a path cannot contain a null character")
        return value

    @field_validator("audit_forward")
    @classmethod
    def _check_targets(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for target in value:
            parse_target(target)
        return value


class AccessPolicy(_SettingsTable):
    """What some principals may see and call; an empty list sets no limit."""

    principals: tuple[str, ...] = ("*",)
    servers: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    read_only: bool = False
    roles: tuple[CallerRole, ...] = ()


class JWT(_SettingsTable):
    """How JSON Web Tokens are checked, and where clients get them.

    With `base_url`, the public address of the gateway, clients learn which servers issue tokens
    for it: `authorization_servers`, or the issuer.
    """

    jwks_uri: str | None = None
    public_key: str | None = None
    issuer: str | None = None
    audience: str | None = None
    algorithm: str | None = None
    required_scopes: tuple[str, ...] = ()
    base_url: str = ""
    authorization_servers: tuple[str, ...] = ()


class TokenEntry(_SettingsTable):
    """A bearer token, and the role of the principal that sends it."""

    token: str = Field(repr=False)
    role: CallerRole = "user"


class Auth(_SettingsTable):
    """Who may connect over HTTP: tokens by principal, an issuer, JWT, or a provider of FastMCP."""

    # Secrets are left out of repr(), which may end up in a log.
    tokens: Mapping[str, TokenEntry] = Field(default_factory=dict[str, TokenEntry], repr=False)
    issuer: str = ""
    """The address of an OpenID provider, whose keys and endpoints are discovered."""

    audience: str = ""
    """What tokens of the issuer must be for."""

    base_url: str = ""
    """The public address of the gateway."""

    allow_private: bool = False
    """Whether the issuer may be at a private network address."""

    client_id: str = ""
    """The gateway's own id at the issuer, for logins with a browser."""

    client_secret: str = Field(default="", repr=False)
    login_scopes: tuple[str, ...] = ("openid",)
    role_claim: str = ""
    """The claim that says who is an admin."""

    admin_values: tuple[str, ...] = ("admin",)
    """The values of the claim that make an admin."""

    clock_skew_seconds: float = Field(default=30.0, ge=0, le=600, allow_inf_nan=False)
    """How far the clocks of issuer and gateway may differ."""

    keys_max_age_seconds: float = Field(default=300.0, gt=0, allow_inf_nan=False)
    """After what time the issuer's keys are fetched again."""

    keys_retry_seconds: float = Field(default=30.0, ge=1, allow_inf_nan=False)
    """The least time between two fetches of the keys."""

    login_hours: float = Field(default=12.0, gt=0, le=720)
    """How long a login with a browser lasts."""

    login_link_minutes: float = Field(default=10.0, gt=0, le=1_440)
    """How long a printed login link can be used."""

    jwt: JWT | None = None
    provider: str = ""
    options: Mapping[str, Any] = Field(default_factory=dict[str, Any], repr=False)

    @field_validator("tokens", mode="before")
    @classmethod
    def _expand_tokens(cls, value: object) -> object:
        """Accept a token alone, for a principal with the role `user`."""
        if not _is_table(value):
            return value
        return {k: {"token": v} if isinstance(v, str) else v for k, v in value.items()}

    @model_validator(mode="after")
    def _check_issuer(self) -> Self:
        jwt = self.jwt
        if self.issuer and jwt is not None and (jwt.issuer or jwt.jwks_uri or jwt.public_key):
            raise ValueError("with issuer, jwt cannot have issuer, jwks_uri or public_key")
        if self.client_id and not self.issuer:
            raise ValueError("client_id needs issuer")
        return self

    @property
    def is_set(self) -> bool:
        """Whether clients have to authenticate."""
        return bool(self.tokens or self.issuer or self.jwt or self.provider)

    @property
    def jwt_rules(self) -> JWT | None:
        """How JSON Web Tokens are checked; None if they are not accepted."""
        if not self.issuer:
            return self.jwt
        own = {"issuer": self.issuer, "audience": self.audience or None, "base_url": self.base_url}
        more = self.jwt.model_dump(exclude_defaults=True) if self.jwt else {}
        return JWT.model_validate({**own, **more})

    @property
    def public_url(self) -> str:
        """The public address of the gateway, if it is configured."""
        return (self.base_url or (self.jwt.base_url if self.jwt else "")).rstrip("/")


class APISpec(_SettingsTable):
    """An HTTP API: its OpenAPI document, and how to call it."""

    document: str
    base_url: str = ""
    headers: Mapping[str, str] = Field(default_factory=dict[str, str], repr=False)
    auth: Mapping[str, str] = Field(default_factory=dict[str, str], repr=False)
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    timeout_seconds: float = Field(default=60.0, gt=0)
    allow_private: bool = False


class UnusableAPISpec(APISpec):
    """An API that cannot be used because a variable in its table is not set."""

    document: str = ""
    problem: str


class GatewaySettings(_SettingsTable):
    """All tables besides the servers."""

    gateway: GatewayOptions = GatewayOptions()
    profile: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    """Options of the profile that `gateway.profile` names."""
    auth: Auth = Auth()
    policies: Mapping[str, AccessPolicy] = Field(default_factory=dict[str, AccessPolicy])
    openapi: Mapping[str, APISpec] = Field(default_factory=dict[str, APISpec])
    telemetry: TelemetrySettings = TelemetrySettings()
    limits: LimitSettings = LimitSettings()


_TABLES: Mapping[str, type[BaseModel]] = {
    "gateway": GatewayOptions,
    "auth": Auth,
    "policies": AccessPolicy,
    "openapi": APISpec,
    "telemetry": TelemetrySettings,
    "limits": LimitSettings,
}
_AUTH_TABLES: Mapping[str, type[BaseModel]] = {"jwt": JWT, "tokens": TokenEntry}


def parse_settings(
    document: ConfigDocument, *, variables: Mapping[str, str] | None = None
) -> GatewaySettings:
    """Validate the tables besides the servers, with variables from the environment."""
    variables = os.environ if variables is None else variables
    _check_tables(document)
    known = {k: v for k, v in document.rest.items() if k in GatewaySettings.model_fields}
    expand = partial(_expand_variables, variables=variables, folder=document.folder)
    apis, unusable = _expand_apis(known.pop("openapi", {}), expand)
    tables = {**cast("dict[str, Any]", expand(known)), "openapi": apis}
    if token := variables.get("TOOLSCOUT_TOKEN"):
        tables["auth"] = _add_token(tables.get("auth", {}), token)
    try:
        settings = GatewaySettings.model_validate(tables)
    except ValidationError as error:
        raise _config_error(error) from error
    check_tokens(settings.auth)
    return settings.model_copy(update={"openapi": {**settings.openapi, **unusable}})


def _add_token(auth: Any, token: str) -> Any:
    """The `[auth]` table with the token of TOOLSCOUT_TOKEN added."""
    # A value that is not a table is returned unchanged; validation then reports it.
    tokens: object = auth.get("tokens", {}) if _is_table(auth) else None
    return {**auth, "tokens": {"default": token, **tokens}} if _is_table(tokens) else auth


def _is_table(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _expand_apis(tables: Any, expand: Callable[..., Any]) -> tuple[Any, dict[str, UnusableAPISpec]]:
    """The tables of APIs with variables expanded; an unset variable makes only its API unusable."""
    if not isinstance(tables, dict):
        return tables, {}
    usable: dict[str, Any] = {}
    unusable: dict[str, UnusableAPISpec] = {}
    for name, table in cast("dict[str, Any]", tables).items():
        try:
            usable[name] = expand(table, f"openapi.{name}")
        except ConfigError as error:
            unusable[name] = UnusableAPISpec(problem=str(error))
    return usable, unusable


def check_tokens(auth: Auth) -> None:
    """Raise for a token that is empty or short enough to guess."""
    for principal, entry in auth.tokens.items():
        if len(entry.token) < MIN_TOKEN_LENGTH:
            raise ConfigError(
                f"The token of {principal!r} is too short.",
                hint=f"Use at least {MIN_TOKEN_LENGTH} random characters.",
            )


def _check_tables(document: ConfigDocument) -> None:
    """Raise for unknown tables: an ignored `[polices]` would leave the gateway open."""
    known = (*GatewaySettings.model_fields, TABLE)
    # A JSON file of another client may have any tables. There only a typo is an error, unless
    # one of our tables shows that the file was written for the gateway.
    is_ours = document.is_native or any(
        name in document.rest for name in GatewaySettings.model_fields
    )
    for name in document.rest:
        if name in known or name in _CLIENT_TABLES or (name == _EDITOR_TABLE and not is_ours):
            continue
        near = get_close_matches(
            name.lower(), known if is_ours else GatewaySettings.model_fields, 1, _CLOSE_MATCH
        )
        if near or is_ours:
            hint = f"Did you mean [{near[0]}]?" if near else f"Known: servers, {', '.join(known)}."
            raise ConfigError(f"There is no table [{name}] in a configuration.", hint=hint)


def _config_error(error: ValidationError) -> ConfigError:
    # Without the input: it may be a secret.
    first = error.errors(include_url=False, include_input=False)[0]
    parts = tuple(str(part) for part in first["loc"])
    where = ".".join(parts)
    if first["type"] != "extra_forbidden":
        return ConfigError(
            f"The setting {where} is wrong: {first['msg'].removeprefix('Value error, ')}.",
            hint=f"See the allowed values under [{parts[0]}] in docs/gateway.md.",
        )
    table = _AUTH_TABLES.get(parts[1], Auth) if parts[0] == "auth" else _TABLES[parts[0]]
    near = get_close_matches(parts[-1], table.model_fields, 1)
    hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(table.model_fields)}."
    return ConfigError(f"There is no setting {where}.", hint=hint)


def _expand_variables(
    value: Any,
    where: str = "",
    *,
    variables: Mapping[str, str],
    folder: Path | None,
    depth: int = 0,
) -> Any:
    if depth > _MAX_DEPTH:
        raise ConfigError(
            f"The setting {where.partition('.')[0]} is nested more than {_MAX_DEPTH} levels deep.",
            hint="No setting needs that: look for a bracket that is never closed.",
        )
    if isinstance(value, str):
        return expand_variables(value, variables, owner=f"The setting {where}", folder=folder)
    expand = partial(_expand_variables, variables=variables, folder=folder, depth=depth + 1)
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        return {k: expand(v, f"{where}.{k}".lstrip(".")) for k, v in table.items()}
    if isinstance(value, list):
        return [expand(v, where) for v in cast("list[Any]", value)]
    return value


def audit_path(options: GatewayOptions, state_folder: Path) -> Path | None:
    """The file of the audit log; None if it is switched off."""
    if options.audit == "off":
        return None
    return Path(options.audit).expanduser() if options.audit else state_folder / "audit.jsonl"
