"""The upstream side of a gateway: its servers, when they start, and which are missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ...catalog.source import Source
from ...catalog.tool import Tool
from ...disclosure.scope import is_allowed
from ...errors import CallRefusedError, SourceError, ToolscoutError
from ...events import Sink
from ...search.engine import Allow, Engine
from ...sources.mcp.listing_cache import ListingCache
from ...sources.mcp.oauth_tokens import OAuthTokenStore
from ...toolbox.toolbox import Toolbox
from ..setup import AccessRule, Setup
from ..startup import BackgroundStartup
from .held_ranking import HeldRanker
from .pin_store import PinStore
from .upstreams import Upstreams


class UpstreamSide:
    """Starts servers in the background, and waits for those that a call needs."""

    def __init__(self, setup: Setup, engine: Engine, *, sink: Sink, quiet_seconds: float) -> None:
        config, options = setup.config, setup.options
        self.upstreams = Upstreams(
            listings=ListingCache(config.cache_folder / "listings"),
            grants=OAuthTokenStore.of(config),
            logs=setup.server_logs,
            pins=PinStore(config.state_folder / "pins"),
            sink=sink,
            reserved=setup.own_tool_names,
            trusts_first=not options.require_approval,
        )
        self.held_ranker = HeldRanker(engine, vectors=config.cache_folder / "vectors.db")
        self._startup = BackgroundStartup(self.upstreams, engine, quiet_seconds=quiet_seconds)
        self._wait_seconds = options.start_wait_seconds

    def create_sources(self, setup: Setup) -> Sequence[Source]:
        """The sources for the toolbox of a new gateway."""
        return self.upstreams.create_sources(setup.document.servers, setup.apis)

    async def start(self) -> None:
        """Start all servers and the encoder, after the first answer or a quiet while."""
        await self._startup.run()

    def mark_answered(self) -> None:
        """Note that a client has its answer, so that servers may start now."""
        self._startup.mark_answered()

    def close(self) -> None:
        """Release what searches of held tools use."""
        self.held_ranker.close()

    def apply_rules(self, setup: Setup) -> None:
        """Use the waiting time and the trust of an edited configuration."""
        self._wait_seconds = setup.options.start_wait_seconds
        self.upstreams.update_trust_rules(
            reserved=setup.own_tool_names,
            trusts_first=not setup.options.require_approval,
        )

    async def apply(self, setup: Setup, box: Toolbox) -> None:
        """Start and stop servers to match an edited configuration."""
        await self.upstreams.apply(setup.document.servers, setup.apis, box)

    async def wait_for(self, names: Iterable[str], rule: AccessRule | None) -> None:
        """Wait for the servers of these tools, if they are still starting."""
        await self.upstreams.wait_for_servers(
            *self.late_servers(names, rule), timeout_seconds=self._wait_seconds
        )

    def late_servers(self, names: Iterable[str], rule: AccessRule | None) -> list[str]:
        """The servers of these tools that are not in the catalog yet and the caller may know."""
        absent = self.upstreams.absent_servers_for
        late = dict.fromkeys(server for name in names for server in absent(name))
        return [n for n in late if rule is None or rule.admits_server(n)]

    def missing_servers(self, rule: AccessRule | None) -> list[str]:
        """The servers that a search does not cover yet, as far as the caller may know them."""
        missing = self.upstreams.absent_servers()
        return [n for n in missing if rule is None or rule.admits_server(n)]

    def explain_missing(self, name: str, allow: Allow | None) -> ToolscoutError | None:
        """Why a tool cannot be called, as far as the caller may know it.

        It is held until approved, or its server is disabled or fails.
        """
        if held := self.upstreams.held_tools.explain(name, allow):
            return held
        tool = Tool(name=name)
        for server in self.upstreams.disabled_servers_for(name):
            if is_allowed(replace(tool, server=server), allow):
                return CallRefusedError(
                    f"{name} cannot be called: its server {server} is disabled.",
                    hint=f"The operator of the gateway can enable it: toolscout enable {server}",
                )
        for server in self.upstreams.absent_servers_for(name):
            reason = self.upstreams.sources[server].inner.state.reason
            if reason and is_allowed(replace(tool, server=server), allow):
                return SourceError(
                    f"{name} cannot be called: its server {server} is failing: {reason}"
                )
        return None

    async def settle(self) -> None:
        """Wait until the catalog has the outcome of every comparison with pins."""
        await self.upstreams.settle(timeout_seconds=self._wait_seconds)

    @property
    def is_complete(self) -> bool:
        """Whether a search covers every server."""
        return not self.upstreams.absent_servers()

    def retry_unlisted(self) -> None:
        """Try servers again that were never reached."""
        self.upstreams.wake(*self.upstreams.servers_without_listing())

    def wake_found(self, names: Iterable[str], box: Toolbox) -> None:
        """Wake the servers of tools that a search found, because one of them is called next."""
        found = (box.catalog.get(name) for name in names)
        if servers := {tool.server for tool in found if tool is not None}:
            self._startup.wake_servers(servers)

    async def recheck_pins(self, box: Toolbox) -> None:
        """Apply pins that were approved or revoked."""
        await self.upstreams.refresh_stale_sources(box)
