"""A gateway's configuration, read and checked as a whole, so that an edit is taken or left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..config import FILE_VARIABLE, TABLE, Config
from ..disclosure.profile import Profile
from ..disclosure.profiles import get_profile as named_profile
from ..errors import ConfigError
from ..offload.output_tools import OUTPUT_TOOLS
from ..sources.mcp.server_config import ConfigDocument, normalise_server_name, read_server_config
from ..sources.openapi.api_source import API
from ..sources.openapi.operations import OperationFilter
from .settings import APISpec, GatewayOptions, GatewaySettings, UnusableAPISpec, parse_settings

_MARGIN_SECONDS = 5.0
_FOREVER_SECONDS = 10 * 365 * 86_400.0


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything that a gateway is made from."""

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
    ) -> Setup:
        """Read a configuration; `overrides` are options given on the command line."""
        path = Path(path)
        document = read_server_config(path, variables=variables)
        settings = parse_settings(document, variables=variables)
        _check_names(document, settings)
        given = {k: v for k, v in (overrides or {}).items() if v is not None}
        if given:
            options = GatewayOptions.model_validate({**settings.gateway.model_dump(), **given})
            settings = settings.model_copy(update={"gateway": options})
        named_profile(settings.gateway.profile)  # an unknown one is told now, not in the middle
        is_toml = path.suffix == ".toml"
        own = document.rest.get(TABLE)
        if not is_toml and isinstance(own, Mapping) and own.keys() & Config.model_fields.keys():
            raise ConfigError(
                f"{path.name} has settings in JSON, where they are not read.",
                hint=f"Write it as TOML, or the settings into a file that {FILE_VARIABLE} names.",
            )
        config = config or Config.read(path if is_toml else None)
        return cls(path, document, settings, config)

    @property
    def problems(self) -> tuple[str, ...]:
        """Why servers and APIs cannot be used as they are configured."""
        return tuple(s.problem for s in (*self.document.servers, *self.apis) if s.problem)

    @property
    def options(self) -> GatewayOptions:
        """The `[gateway]` table, with the command line over it."""
        return self.settings.gateway

    @property
    def profile(self) -> Profile:
        """The profile to show; a client's list of tools never changes unless that is wanted."""
        profile = named_profile(self.options.profile)
        if profile.surface in ("auto", "native"):
            profile = replace(profile, surface=self.options.surface)
        if profile.roster_tokens:
            profile = replace(profile, roster_tokens=self.options.roster_tokens)
        return profile

    @property
    def apis(self) -> tuple[API, ...]:
        """The HTTP APIs beside the servers."""
        return tuple(_build_api(name, spec) for name, spec in self.settings.openapi.items())

    @property
    def shows_everything(self) -> bool:
        """Whether clients see all there is, prompts and resources included."""
        return self.profile.tool_for("search") is None and self.profile.policy.rule == "none"

    @property
    def own_tool_names(self) -> tuple[str, ...]:
        """Names of the gateway's own tools, which no server may use."""
        own = (*(m.name for m in self.profile.metatools), "get_prompt", "get_resource")
        return (*own, *OUTPUT_TOOLS) if self.options.large_outputs else own

    @property
    def toolbox_config(self) -> Config:
        """The toolbox's settings: no call ends before its server's or API's own limit."""
        limits = [s.limits.call_timeout_seconds or _FOREVER_SECONDS for s in self.document.servers]
        limits += [api.timeout_seconds for api in self.settings.openapi.values()]
        longest = max([self.config.call_timeout_seconds, *limits]) + _MARGIN_SECONDS
        return self.config.model_copy(
            update={
                "call_timeout_seconds": longest,
                "start_timeout_seconds": self.options.start_wait_seconds,
            }
        )


def _check_names(document: ConfigDocument, settings: GatewaySettings) -> None:
    """Tools carry the name of where they come from, so there can be only one of each."""
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
