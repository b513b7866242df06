"""A gateway's whole configuration, read and checked at once, and the access rules it sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ..catalog.tool import Tool
from ..config import TABLE, Config, resolve_paths
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
from .settings import (
    AccessPolicy,
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
# The fields of a policy that version 0.1 had, in its order. See `AccessRule.session_key_text`.
_POLICY_FIELDS = ("principals", "servers", "tools", "deny", "read_only")


@dataclass(frozen=True, slots=True)
class AccessRule:
    """What one caller may see and call: a tool that every policy for this caller admits."""

    policies: tuple[AccessPolicy, ...]

    def __call__(self, tool: Tool) -> bool:
        """Whether the tool may be seen and called."""
        return all(_admits(policy, tool) for policy in self.policies)

    def admits_server(self, server: str) -> bool:
        """Whether anything of a server may be reached: tools, prompts or resources."""
        return all(
            (not p.servers or _matches(server, p.servers)) and "*" not in p.deny
            for p in self.policies
        )

    @property
    def session_key_text(self) -> str:
        """The rule as the text that is hashed into session keys."""
        # Version 0.1 hashed repr(rule), and sessions are stored under these hashes. This is the
        # text that repr gave then, with the old class names. It does not depend on names in
        # the code, so a rename does not make every caller start a new session.
        # A new field of AccessPolicy has to be added here only where it differs from its default.
        policies = ", ".join(_policy_text(policy) for policy in self.policies)
        comma = "," if len(self.policies) == 1 else ""  # as Python writes a tuple of one
        return f"Rule(policies=({policies}{comma}))"


def _policy_text(policy: AccessPolicy) -> str:
    fields = ", ".join(f"{name}={getattr(policy, name)!r}" for name in _POLICY_FIELDS)
    return f"Policy({fields})"


def _admits(policy: AccessPolicy, tool: Tool) -> bool:
    if policy.servers and not _matches(tool.server, policy.servers):
        return False
    if policy.tools and not _matches(tool.name, policy.tools):
        return False
    if _matches(tool.name, policy.deny):
        return False
    # Only an explicit annotation counts as read-only; a tool without one may write.
    hints = tool.annotations
    return not policy.read_only or (hints is not None and hints.read_only is True)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


_DENY_ALL = AccessPolicy(deny=("*",))


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything that a gateway is built from."""

    path: Path
    document: ConfigDocument
    settings: GatewaySettings
    config: Config

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
        return cls(path, document, settings, config)

    def rule_for(self, principal: str) -> AccessRule | None:
        """The access rule of a caller; None if the configuration has no policies at all."""
        policies = self.settings.policies
        if not policies:
            return None
        name = principal or "anonymous"
        matching = tuple(p for p in policies.values() if _matches(name, p.principals))
        # With policies, a caller that none of them names gets nothing: forgetting somebody in the
        # configuration must not open every tool to them.
        return AccessRule(matching or (_DENY_ALL,))

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
    def options(self) -> GatewayOptions:
        """The `[gateway]` table, overridden by the command line."""
        return self.settings.gateway

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
