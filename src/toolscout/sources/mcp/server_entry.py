"""One server in a configuration: its keys in the spellings of all clients, variables, secrets."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast, get_args

from ...errors import ConfigError
from . import secret_detection
from .servers import (
    DOWNLOAD_SECONDS,
    OAuthClient,
    Protocol,
    Server,
    ServerLimits,
    Transport,
    is_http_url,
    may_download,
)
from .variables import expand_variables

# Other clients' spellings of the same keys.
_ALLOW = ("allow", "includeTools", "enabled_tools", "enabledTools")
_DENY = ("deny", "excludeTools", "disabled_tools", "disabledTools")
FILTER_SPELLINGS = {key: names[0] for names in (_ALLOW, _DENY) for key in names[1:]}
"""Other clients' keys for the tools of a server to use, each with the gateway's own."""
_LAST_PORT = 65_535
_LIMITS = tuple(f.name for f in fields(ServerLimits))
# Keys of other clients that a gateway does not use; they cause no warning.
_IGNORED_KEYS = (
    *("alwaysAllow", "autoApprove", "description", "dev", "envFile", "gallery", "icon", "note"),
    *("instructions", "priority", "timeout", "trust", "version"),
    *("startup_timeout_ms", "startup_timeout_sec", "tool_timeout_sec"),
)
_ENDPOINT_KEYS = (
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "serverUrl",
    "httpUrl",
    "headers",
    "http_headers",
)
_OAUTH = ("oauth", "auth")
_CHOICES = ("type", "transport", "protocol", "disabled", "enabled", "pinned", "allow_private")
_NAMES = ("prefix", "project")
KNOWN_KEYS = frozenset(
    (*_ENDPOINT_KEYS, *_OAUTH, *_CHOICES, *_NAMES, *_ALLOW, *_DENY, *_LIMITS, *_IGNORED_KEYS)
)
"""Every key that an entry may have; others cause a warning."""

# Limits that must be positive. For the others, 0 means no limit.
_POSITIVE_LIMITS = {
    "connect_timeout_seconds": "a positive number",
    "concurrency": "a positive number without a fraction",
    "queue_seconds": "a positive number",
    "principal_connections": "a positive number without a fraction",
    "response_bytes": "a positive number without a fraction",
}
_WHOLE_LIMITS = frozenset(f.name for f in fields(ServerLimits) if f.type == "int")
# A variable that has no value, in a URL that is valid otherwise.
_UNSET = re.compile(r"\$\{[^}]*\}")
# The spellings of all clients, in lower case, without dashes and underscores.
_TRANSPORT_ALIASES: dict[str, Transport] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "streamablehttp": "http",
    "remote": "http",
    "sse": "sse",
}


def build_server(
    name: str,
    entry: dict[str, Any],
    variables: Mapping[str, str],
    *,
    folder: Path | None = None,
    config_folder: Path | None = None,
) -> Server:
    """Build a server; a broken entry becomes a server with a problem, so the others still work.

    `folder` is where the gateway runs: a server of another project is disabled. Files of secrets
    are relative to `config_folder`.
    """
    reader = _ServerEntry(name, entry, variables, folder or Path.cwd(), config_folder)
    try:
        return reader.build()
    except ConfigError as error:
        problem = str(error)
    except (TypeError, ValueError) as error:
        problem = f"Its entry cannot be read: {error}."
    # A disabled server needs no valid entry: its variables may well be unset.
    project = str(entry.get("project") or "")
    is_elsewhere = not reader.is_in(project)
    server = replace(reader.build_unusable(), project=project)
    if entry.get("disabled") is True or entry.get("enabled") is False or is_elsewhere:
        return replace(server, is_disabled=True)
    return replace(server, problem=problem)


class _ServerEntry:
    """One server's table; expands variables and collects every secret in it."""

    def __init__(
        self,
        name: str,
        entry: dict[str, Any],
        variables: Mapping[str, str],
        folder: Path,
        config_folder: Path | None,
    ) -> None:
        self.folder = folder
        self.config_folder = config_folder
        self.name = name
        self.entry = entry
        self.variables = variables
        self.secrets: list[str] = []

    def build(self) -> Server:
        env = self.table("env")
        headers = self.table("headers") or self.table("http_headers")
        args = self.texts("args")
        self.secrets += [
            *secret_detection.secrets_in_table(env),
            *secret_detection.secrets_in_headers(headers),
        ]
        self.secrets += secret_detection.secrets_in_arguments(args)
        command, url = self.text("command"), self.text("url", "serverUrl", "httpUrl")
        transport = self.transport(is_remote=bool(url))
        if not (url if transport != "stdio" else command):
            raise ConfigError(
                f"Server {self.name!r} has neither a command nor a url.",
                hint='Give "command" for a local server or "url" for a remote one.',
            )
        if transport != "stdio":
            self.check_url(url)
        return Server(
            name=self.name,
            transport=transport,
            command=command,
            args=args,
            env=env,
            cwd=self.text("cwd"),
            url=url,
            headers=headers,
            oauth=self.check_logins(self.oauth(), headers, url if transport != "stdio" else ""),
            protocol=self.protocol(),
            is_disabled=self.flag("disabled")
            or not self.flag("enabled", default=True)
            or not self.is_in(self.text("project")),
            project=self.text("project"),
            allow=self.texts(*_ALLOW),
            deny=self.texts(*_DENY),
            pinned=self.texts("pinned"),
            is_prefixed=self.flag("prefix", default=True),
            allows_private=self.flag("allow_private"),
            limits=self.limits(command if transport == "stdio" else ""),
            secrets=self.secret_values(),
        )

    def build_unusable(self) -> Server:
        """A server that cannot be started: its command or address as written, for people."""

        def raw(*keys: str) -> str:
            return next((v for k in keys if isinstance(v := self.entry.get(k), str)), "")

        url = raw("url", "serverUrl", "httpUrl")
        url = url if is_http_url(_UNSET.sub("variable", url)) else ""
        listed: object = self.entry.get("args")
        values = cast("list[object]", listed) if isinstance(listed, list) else []
        args = tuple(str(value) for value in values)
        secrets = secret_detection.secrets_in_arguments(args)
        return Server(
            name=self.name,
            transport="http" if url else "stdio",
            command=raw("command"),
            args=args,
            url=url,
            secrets=(*secret_detection.secrets_in_url(url), *secrets),
        )

    def is_in(self, project: str) -> bool:
        """Whether the gateway runs in a project; always true without one."""
        return not project or self.folder.resolve().is_relative_to(
            Path(project).expanduser().resolve()
        )

    def secret_values(self) -> tuple[str, ...]:
        """The secrets, without ordinary values that only happened to come from a variable."""
        values = dict.fromkeys(filter(None, self.secrets))
        return tuple(v for v in values if not secret_detection.is_ordinary(v, self.variables))

    def check_url(self, url: str) -> None:
        """Refuse an invalid URL, and collect the secrets in a valid one."""
        if not is_http_url(url):
            raise ConfigError(
                f"Server {self.name!r}: its url is not a valid URL.",
                hint="Write it as https://HOST/PATH, with a port from 1 to 65535 if it needs one.",
            )
        self.secrets += secret_detection.secrets_in_url(url)

    def oauth(self) -> OAuthClient:
        """The registered OAuth client, if there is one."""
        # `"auth": "oauth"` of other clients is not needed: a server asks for a login with a 401.
        value: object = self.entry.get("oauth")
        table = cast("dict[str, object]", value) if isinstance(value, dict) else {}

        def read_key(*keys: str) -> str:
            values = (
                self.expand(self.to_text("oauth", table[key])) for key in keys if key in table
            )
            return next(values, "")

        port = read_key("callback_port", "callbackPort") or "0"
        if not (port.isascii() and port.isdigit() and int(port) <= _LAST_PORT):
            raise ConfigError(
                f"Server {self.name!r}: the callback port {port!r} is not a valid port."
            )
        secret = read_key("client_secret", "clientSecret")
        self.secrets.append(secret)
        is_own: object = table.get("per_principal", table.get("perPrincipal", False))
        if not isinstance(is_own, bool):
            raise ConfigError(
                f"Server {self.name!r}: 'per_principal' in 'oauth' must be true or false."
            )
        return OAuthClient(read_key("client_id", "clientId"), secret, int(port), is_own)

    def check_logins(self, oauth: OAuthClient, headers: Mapping[str, str], url: str) -> OAuthClient:
        """Refuse logins per principal where something else would be sent for everybody."""
        has_header = any(name.lower() == "authorization" for name in headers)
        if oauth.is_per_principal and (has_header or not url):
            why = "has an Authorization header, which is sent for" if url else "is started once for"
            raise ConfigError(
                f"Server {self.name!r} {why} everybody, so it cannot have logins per principal.",
                hint="Remove the header, or per_principal."
                if url
                else "Remove per_principal: it is for servers with a url.",
            )
        return oauth

    def text(self, *keys: str) -> str:
        for key in keys:
            value: object = self.entry.get(key)
            if value is not None:
                if not isinstance(value, str):
                    raise ConfigError(f"Server {self.name!r}: {key!r} must be text.")
                return self.expand(value)
        return ""

    def texts(self, *keys: str) -> tuple[str, ...]:
        for key in keys:
            value: object = self.entry.get(key)
            if value is None:
                continue
            if not isinstance(value, list):
                raise ConfigError(f"Server {self.name!r}: {key!r} must be a list.")
            items = cast("list[object]", value)
            return tuple(self.expand(self.to_text(key, item)) for item in items)
        return ()

    def table(self, key: str) -> dict[str, str]:
        value: object = self.entry.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise ConfigError(f"Server {self.name!r}: {key!r} must be an object.")
        pairs = cast("dict[str, object]", value).items()
        return {k: self.expand(self.to_text(key, v)) for k, v in pairs if v is not None}

    def to_text(self, key: str, value: object) -> str:
        """A value as text; booleans and numbers as JSON writes them."""
        if isinstance(value, bool | int | float):
            return json.dumps(value)
        if not isinstance(value, str):
            raise ConfigError(f"Server {self.name!r}: values in {key!r} must be text.")
        return value

    def flag(self, key: str, *, default: bool = False) -> bool:
        value: object = self.entry.get(key, default)
        if not isinstance(value, bool):
            raise ConfigError(f"Server {self.name!r}: {key!r} must be true or false.")
        return value

    def transport(self, *, is_remote: bool) -> Transport:
        kind = self.text("type", "transport")
        if not kind:
            return "http" if is_remote else "stdio"
        known = _TRANSPORT_ALIASES.get(kind.lower().replace("-", "").replace("_", ""))
        if known is None:
            raise ConfigError(
                f"Server {self.name!r}: unknown type {kind!r}.", hint="Use stdio, http or sse."
            )
        return known

    def protocol(self) -> Protocol:
        kind = self.text("protocol") or "auto"
        if kind not in get_args(Protocol):
            raise ConfigError(
                f"Server {self.name!r}: unknown protocol {kind!r}.",
                hint=f"Use one of {', '.join(get_args(Protocol))}.",
            )
        return cast("Protocol", kind)

    def limits(self, command: str) -> ServerLimits:
        values = {key: self.entry[key] for key in _LIMITS if key in self.entry}
        for key, value in values.items():
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not _is_valid_limit(key, value)
            ):
                allowed = _POSITIVE_LIMITS.get(key, "a positive number, or 0 for none")
                raise ConfigError(f"Server {self.name!r}: {key!r} must be {allowed}.")
        # In every command that starts it: a download that is cut short each time never ends.
        if may_download(command):
            values.setdefault("connect_timeout_seconds", DOWNLOAD_SECONDS)
        return ServerLimits(**values)

    def expand(self, text: str) -> str:
        return expand_variables(
            text,
            self.variables,
            owner=f"Server {self.name!r}",
            folder=self.config_folder,
            on_value=self.secrets.append,
        )


def _is_valid_limit(key: str, value: float) -> bool:
    if key in _WHOLE_LIMITS and not isinstance(value, int):
        return False
    return math.isfinite(value) and (value > 0 if key in _POSITIVE_LIMITS else value >= 0)
