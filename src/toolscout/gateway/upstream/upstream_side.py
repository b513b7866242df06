"""The upstream side of a gateway: its servers, when they start, and which are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ...catalog.source import Source
from ...catalog.tool import Annotations, Tool, qualify_name
from ...disclosure.scope import is_allowed
from ...errors import CallRefusedError, SourceError, StartingError, ToolscoutError
from ...events import Sink
from ...program import remote_command_line
from ...search.engine import Allow, Engine
from ...sources.mcp.listing_cache import ListingCache
from ...sources.mcp.oauth_tokens import OAuthTokenStore
from ...sources.mcp.servers import Server
from ...sources.server_status import UP_STATUSES
from ...store.change_feed import ChangeFeed
from ...store.rate_limits import BucketStore
from ...toolbox.absent_sources import explain_starting
from ...toolbox.server_content import RuleAccess
from ...toolbox.toolbox import Toolbox
from ..access import AccessRule
from ..setup import Setup
from ..startup import BackgroundStartup
from .held_ranking import HeldRanker
from .pin_factory import open_pins, warn_of_local_pins
from .principal_logins import PrincipalLogins
from .upstreams import Upstreams

_MAX_NAME_CHARS = 100


class UpstreamSide:
    """Starts servers in the background, and waits for those that a call needs."""

    def __init__(
        self,
        setup: Setup,
        engine: Engine,
        *,
        sink: Sink,
        quiet_seconds: float,
        feed: ChangeFeed | None = None,
        find_base_url: Callable[[], str] = str,
        buckets: BucketStore | None = None,
        replica: str = "",
    ) -> None:
        config, options = setup.config, setup.options
        grants = self._grants = OAuthTokenStore.of(config)
        self.logins = PrincipalLogins(
            grants,
            find_server=self._find_server,
            # The server waits for a login, and need not wait for a call too.
            on_shared_login=lambda server: self.upstreams.start(server),
            replica=replica,
        )
        self._find_base_url = find_base_url
        self.pins = open_pins(config, feed=feed)
        self._listings = ListingCache.of(config)
        warn_of_local_pins(config, self.pins)
        self.upstreams = Upstreams(
            listings=self._listings,
            grants=grants,
            logs=setup.server_logs,
            pins=self.pins,
            sink=sink,
            reserved=setup.own_tool_names,
            trusts_first=not options.require_approval,
            login_link=self._login_link,
            buckets=buckets,
        )
        self.held_ranker = HeldRanker(engine, vectors=config.cache_folder / "vectors.db")
        self._startup = BackgroundStartup(self.upstreams, engine, quiet_seconds=quiet_seconds)
        self._wait_seconds = options.start_wait_seconds

    def _find_server(self, name: str) -> Server | None:
        source = self.upstreams.sources.get(name)
        return source.inner.server if source else None

    def _login_link(self, server: str, principal: str) -> str:
        base_url = self._find_base_url()
        return self.logins.link(base_url, server, principal) if base_url else ""

    def create_sources(self, setup: Setup) -> Sequence[Source]:
        """The sources for the toolbox of a new gateway."""
        return self.upstreams.create_sources(setup.document.servers, setup.apis)

    async def start(self) -> None:
        """Start all servers and the encoder, after the first answer or a quiet while."""
        await self._startup.run()

    def mark_answered(self) -> None:
        """Note that a client has its answer, so that servers may start now."""
        self._startup.mark_answered()

    async def close(self) -> None:
        """End logins that are open, and release the pins and what searches of held tools use."""
        await self.logins.close()
        self.held_ranker.close()
        self.pins.close()
        self._grants.close()
        self._listings.close()

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

    async def wait_for(
        self, names: Iterable[str], allow: Allow | None, *, is_known: Callable[[str], bool]
    ) -> None:
        """Wait for the servers of tools that are not known, if they are still starting."""
        unknown = [] if self.is_complete else [n for n in names if not is_known(n)]
        await self.upstreams.wait_for_servers(
            *self._late_servers(unknown, allow),
            timeout_seconds=self._wait_seconds,
            is_enough=lambda: all(map(is_known, unknown)),
        )

    def wake_late(
        self, names: Iterable[str], allow: Allow | None, *, is_known: Callable[[str], bool]
    ) -> None:
        """Start the servers of tools that are still not known, in the background."""
        if not self.is_complete:
            unknown = [name for name in names if not is_known(name)]
            self.upstreams.wake(*self._late_servers(unknown, allow))

    def _late_servers(self, names: Iterable[str], allow: Allow | None) -> list[str]:
        """The servers that may have these tools, are not in the catalog, and may be known."""
        late = dict.fromkeys(
            server
            for name in names
            for server in (
                # A failing server is tried again for its own tools, and not for any bare name.
                *self._absent_servers(name, allow),
                *self._starting_servers(name, allow),
            )
        )
        return list(late)

    def _absent_servers(self, tool: str, allow: Allow | None) -> list[str]:
        """The servers that the name begins with, and that the caller may know by this name."""
        servers = self.upstreams.absent_servers_for(tool)
        return [n for n in servers if self._may_know(n, tool, allow)]

    def _starting_servers(self, tool: str, allow: Allow | None) -> list[str]:
        """The servers that may still list this tool; with an empty name, all that start."""
        return [
            server
            for server in self.upstreams.starting_servers_for(tool)
            if (
                self._may_know(server, tool, allow)
                if tool.startswith(qualify_name(server, ""))
                # The caller has not named the server: that it exists must not be a secret.
                else self._may_mention(server, allow)
                and (not tool or self._may_know(server, qualify_name(server, tool), allow))
            )
        ]

    def _may_mention(self, server: str, allow: Allow | None) -> bool:
        return RuleAccess(allow).admits_server(self.upstreams.sources[server].inner)

    def _may_know(self, server: str, tool: str, allow: Allow | None) -> bool:
        """Whether a caller may know of a server by the name of a tool, which is not known yet."""
        # What the tool may do is not known either, so it is judged as one that only reads.
        possible = Tool(name=tool, server=server, annotations=Annotations(read_only=True))
        if not is_allowed(possible, allow):
            return False
        is_listed = self.upstreams.sources[server].inner.listing is not None
        return not is_listed or self._may_mention(server, allow)

    def missing_servers(self, rule: AccessRule | None) -> dict[str, str]:
        """Why a search does not cover servers that the caller may know: a problem or a status."""
        sources, access = self.upstreams.sources, RuleAccess(rule)
        missing = self.upstreams.absent_servers()
        return {n: self._absence(n) for n in missing if access.admits_server(sources[n].inner)}

    def _absence(self, server: str) -> str:
        source = self.upstreams.sources[server]
        if source.problem:
            return source.problem.rstrip(".")
        status = source.inner.state.status
        # A server that just became ready is not in the catalog yet.
        return "starting" if status in UP_STATUSES else status

    def explain_missing(self, name: str, allow: Allow | None) -> ToolscoutError | None:
        """Why a tool cannot be called, as far as the caller may know it.

        It is held until approved, or its server is disabled, fails or is still starting. With an
        empty name: why there are no tools.
        """
        if not name:
            return self._explain_starting(name, allow)
        if held := self.upstreams.held_tools.restrict(allow).explain(name, allow):
            return held
        tool = Tool(name=name)
        for server in self.upstreams.disabled_servers_for(name):
            if is_allowed(replace(tool, server=server), allow):
                return CallRefusedError(
                    f"{name} cannot be called: its server {server} is disabled.",
                    hint="The operator of the gateway can enable it:"
                    f" {remote_command_line('enable', server)}",
                )
        for server in self._absent_servers(name, allow):
            if reason := self.upstreams.failure_reason(server):
                problem = self.upstreams.sources[server].inner.server.problem
                status = "misconfigured" if problem else "failing"
                return SourceError(
                    f"{name} cannot be called: its server {server} is {status}: {reason}"
                )
        return self._explain_starting(name, allow) or self._explain_failing(name, allow)

    def _explain_failing(self, name: str, allow: Allow | None) -> SourceError | None:
        """That a server which was never listed may have a tool of a name without a server."""
        failing = [
            server
            for server in self.upstreams.failing_servers_for(name)
            if self._may_mention(server, allow)
            and self._may_know(server, qualify_name(server, name), allow)
        ]
        if not failing:
            return None
        reasons = "; ".join(f"{n}: {self.upstreams.failure_reason(n)}" for n in failing)
        which = "This server fails" if len(failing) == 1 else "These servers fail"
        text = (
            f"No tool is called {name[:_MAX_NAME_CHARS]!r} now. {which} and may have it: {reasons}"
        )
        return SourceError(text)

    def _explain_starting(self, name: str, allow: Allow | None) -> StartingError | None:
        servers = self._starting_servers(name, allow)
        if not servers:
            return None
        return explain_starting(name, servers)

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
