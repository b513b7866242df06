"""A gateway's whole configuration, read and checked at once, and the access rules it sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..config import TABLE, Config, resolve_path, resolve_paths
from ..disclosure.profile import Profile
from ..disclosure.profiles import get_profile
from ..errors import ConfigError
from ..folders import FILE_VARIABLE
from ..guidance.skill_tools import SKILL_TOOLS
from ..offload.output_tools import OUTPUT_TOOLS
from ..sources.mcp.server_config import ConfigDocument, normalise_server_name, read_server_config
from ..sources.mcp.server_log import ServerLogs
from ..sources.openapi.api_source import API
from ..sources.openapi.operations import OperationFilter
from .access import DENY_ALL, AccessRule, applies_to
from .identity.roles import Identity
from .settings import (
    APISpec,
    GatewayOptions,
    GatewaySettings,
    UnusableAPISpec,
    parse_settings,
)

# The toolbox's own limit is this much longer than the longest limit of a server, so that the
# server's limit ends a call first: its error names the server and cancels the call there.
_MARGIN_SECONDS = 5.0
# The toolbox always has a limit. This one stands for "none", which a server's entry writes as 0.
_FOREVER_SECONDS = 10 * 365 * 86_400.0


FileStamp = tuple[int, int]


def file_stamp(path: Path) -> FileStamp:
    """A value that changes whenever a file is written."""
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything that a gateway is built from."""

    path: Path
    document: ConfigDocument
    settings: GatewaySettings
    config: Config
    stamp: FileStamp = (0, 0)
    """Identifies the version of the file that was read."""

    @classmethod
    def read(
        cls,
        path: str | Path,
        *,
        overrides: Mapping[str, Any] | None = None,
        config: Config | None = None,
        variables: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> Setup:
        """Read a configuration; `overrides` are options from the command line.

        Servers of projects are used if `folder`, by default the current one, is in their project.
        """
        path = Path(path)
        # Before the file itself: an edit in between is then noticed later.
        stamp = file_stamp(path)
        document = read_server_config(path, variables=variables, folder=folder)
        settings = parse_settings(document, variables=variables)
        _check_names(document, settings)
        changes = {k: v for k, v in (overrides or {}).items() if v is not None}
        if changes:
            options = GatewayOptions.model_validate({**settings.gateway.model_dump(), **changes})
            settings = settings.model_copy(update={"gateway": options})
        # Raises for an unknown profile now, rather than when the first client connects.
        get_profile(settings.gateway.profile, _profile_options(path, settings))
        is_toml = path.suffix == ".toml"
        own = document.rest.get(TABLE)
        # Config.read takes TOML only. Ignoring the table silently would leave the user with
        # defaults that they did not choose.
        if not is_toml and isinstance(own, Mapping) and own.keys() & Config.model_fields.keys():
            raise ConfigError(
                f"{path.name} has settings in JSON, but settings are read only from TOML.",
                hint=f"Write it as TOML, or put the settings into the file of {FILE_VARIABLE}.",
            )
        config = config or Config.read(path if is_toml else None)
        return cls(path, document, settings, config, stamp)

    def rule_for(self, caller: Identity) -> AccessRule | None:
        """The access rule of a caller; None if the configuration has no policies at all."""
        policies = self.settings.policies
        if not policies:
            return None
        matching = tuple(p for p in policies.values() if applies_to(p, caller))
        # With policies, a caller that none of them names gets nothing: forgetting somebody in the
        # configuration must not open every tool to them.
        return AccessRule(matching) if matching else DENY_ALL

    @property
    def shows_queries(self) -> bool:
        """Whether lines about searches quote the query; never if nothing is to be recorded."""
        return self.options.show_queries and self.config.record != "off"

    @property
    def server_logs(self) -> ServerLogs | None:
        """Where the error output of servers is kept; None if nothing is to be recorded."""
        # A server may write what it was asked, so the switch of the journal holds for this too.
        if self.config.record == "off":
            return None
        return ServerLogs(self.config.state_folder / "logs")

    @property
    def problems(self) -> tuple[str, ...]:
        """Why servers and APIs cannot be used as configured."""
        return tuple(s.problem for s in (*self.document.servers, *self.apis) if s.problem)

    @property
    def public_url(self) -> str:
        """The configured address of the gateway for links; empty to use that of a request."""
        return self.options.public_url or self.settings.auth.public_url

    @property
    def options(self) -> GatewayOptions:
        """The `[gateway]` table, overridden by the command line."""
        return self.settings.gateway

    @property
    def tls_files(self) -> tuple[Path, Path] | None:
        """The files of the TLS certificate and its key; None for plain HTTP."""
        cert, key = self.options.tls_cert, self.options.tls_key
        if cert is None and key is None:
            return None
        if cert is None or key is None:
            missing = "tls_cert (--tls-cert)" if cert is None else "tls_key (--tls-key)"
            raise ConfigError(
                f"TLS needs a certificate and its key, and {missing} is not set.",
                hint="Set both, or neither for plain HTTP.",
            )
        folder = self.path.parent
        return resolve_path(cert, folder), resolve_path(key, folder)

    @property
    def profile(self) -> Profile:
        """The profile that clients see."""
        options = _profile_options(self.path, self.settings)
        profile = get_profile(self.options.profile, options)
        # `auto` and `native` choose a surface by model, but the gateway does not know the model
        # behind a client. The default, `dispatch`, keeps the tool list constant.
        if profile.surface in ("auto", "native"):
            profile = replace(profile, surface=self.options.surface)
        if profile.roster_tokens:
            profile = replace(profile, roster_tokens=self.options.roster_tokens)
        return profile

    @property
    def apis(self) -> tuple[API, ...]:
        """The HTTP APIs of the configuration."""
        return tuple(_build_api(name, spec) for name, spec in self.settings.openapi.items())

    @property
    def own_tool_names(self) -> tuple[str, ...]:
        """Names of the gateway's own tools, which no server may use."""
        own = (*(m.name for m in self.profile.metatools), "get_prompt", "get_resource")
        config = self.toolbox_config
        outputs = OUTPUT_TOOLS if config.large_outputs else ()
        return (*own, *outputs, *(SKILL_TOOLS if config.skills else ()))

    @property
    def toolbox_config(self) -> Config:
        """The toolbox's settings, with the features of `[gateway]` and limits for its servers."""
        # The limits leave timeouts to the servers and APIs.
        limits = [s.limits.call_timeout_seconds or _FOREVER_SECONDS for s in self.document.servers]
        limits += [api.timeout_seconds for api in self.settings.openapi.values()]
        longest = max([self.config.call_timeout_seconds, *limits]) + _MARGIN_SECONDS
        return self.config.model_copy(
            update={
                "call_timeout_seconds": longest,
                "start_timeout_seconds": self.options.start_wait_seconds,
                "large_outputs": self.options.large_outputs,
                **self._feature_settings,
            }
        )

    @property
    def _feature_settings(self) -> Mapping[str, Any]:
        """The features that `[gateway]` sets; the others come from `[settings]`."""
        names = {"rules", "skills", "overlay", "memory"}
        options = self.options.model_dump(include=names, exclude_none=True)
        # The client that starts the gateway may do so in any folder, so paths are relative to the
        # configuration.
        folder = self.path.parent
        return {
            name: tuple(resolve_paths(value, folder)) if name in ("rules", "skills") else value
            for name, value in options.items()
        } | ({"overlay": folder / options["overlay"]} if "overlay" in options else {})


def _profile_options(path: Path, settings: GatewaySettings) -> Mapping[str, Any]:
    """The options of the profile; paths in them are relative to the configuration."""
    rules = settings.profile.get("rules")
    if rules is None:
        return settings.profile
    return {**settings.profile, "rules": resolve_paths(rules, path.parent)}


def _check_names(document: ConfigDocument, settings: GatewaySettings) -> None:
    """Raise if an API and a server, or two APIs, would give their tools the same prefix."""
    taken = {server.name: f"server {server.name!r}" for server in document.servers}
    for label in settings.openapi:
        name = normalise_server_name(label)
        if name in taken:
            raise ConfigError(
                f"The API {label!r} and the {taken[name]} would both be called {name!r}.",
                hint="Rename one of them.",
            )
        taken[name] = f"API {label!r}"


def _build_api(name: str, spec: APISpec) -> API:
    return API(
        name=normalise_server_name(name),
        document=spec.document,
        base_url=spec.base_url,
        headers=spec.headers,
        auth=spec.auth,
        filters=OperationFilter(spec.include, spec.exclude, spec.methods),
        timeout_seconds=spec.timeout_seconds,
        allows_private=spec.allow_private,
        problem=spec.problem if isinstance(spec, UnusableAPISpec) else "",
    )
