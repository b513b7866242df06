"""The gateway: one toolbox over all servers, with a client, an upstream and an operations side."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from mcp.server.request_state import AESGCMRequestStateCodec, RequestStateSecurity

from ..errors import StoreError
from ..events import CatalogChangeEvent, ConfigAppliedEvent, Event, Sink, ignore, stamp
from ..store.change_feed import MISSED, Change
from ..store.factory import is_store_kept, is_store_shared, open_buckets, open_feed, open_store
from ..store.state_key import StateKeys
from ..toolbox.learning_settings import open_learner
from ..toolbox.live_catalog import close_engine
from ..toolbox.permissions import ApprovalPolicy, ask_if_destructive, ask_unless_safe, never_ask
from ..toolbox.toolbox import Toolbox
from .client.client_side import ClientSide
from .client.connect_pages import request_base_url
from .client.list_news import TOPIC as LISTS_TOPIC
from .client.list_news import ListNews
from .client.sessions import Principal, RoutingStore
from .fleet.fleet import Fleet
from .fleet.worker import Worker
from .limits.refused_requests import RefusalLog
from .operations.operations import Operations
from .setup import Setup
from .startup import QUIET_SECONDS, build_engine
from .upstream.pin_records import TOPIC as PINS_TOPIC
from .upstream.upstream_side import UpstreamSide
from .upstream.upstreams import Upstreams

_APPROVAL_POLICIES: dict[str, ApprovalPolicy] = {
    "never": never_ask,
    "destructive": ask_if_destructive,
    "unknown": ask_unless_safe,
}


class Gateway:
    """Serves every client from one toolbox, each in its own session.

    As a `worker` it is one of several processes that behave as one gateway.
    """

    def __init__(
        self,
        setup: Setup,
        *,
        sink: Sink = ignore,
        session: str = "",
        quiet_seconds: float = QUIET_SECONDS,
        worker: Worker | None = None,
    ) -> None:
        self.setup = setup
        self.worker = worker
        shares_store = worker is not None or is_store_shared(setup.config)
        self._engine = build_engine(setup.config, sink=self._on_event)
        self.operations = Operations(setup, sink=sink)
        # What other gateways and workers change in the store.
        self._feed = open_feed(setup.config) if shares_store else None
        replica = worker.replica if worker is not None else ""
        self.fleet = Fleet(setup.config, replica=replica) if shares_store else None
        self.buckets = open_buckets(setup.config, is_shared=shares_store)
        self.upstream = UpstreamSide(
            setup,
            self._engine,
            sink=self._on_event,
            quiet_seconds=quiet_seconds,
            feed=self._feed,
            find_base_url=lambda: request_base_url(self.setup.public_url),
            buckets=self.buckets,
            replica=self.fleet.replica if self.fleet else "",
        )
        self._learner = open_learner(setup.config, self._engine, sink=self._on_event)
        self.box = self._build_toolbox(setup)
        self.clients = ClientSide(
            self.box,
            read_setup=lambda: self.setup,
            upstream=self.upstream,
            operations=self.operations,
            wait_until_ready=self.wait_until_ready,
            fixed_session=session,
            shares_store=shares_store,
            announce=self._announce_list if shares_store else None,
        )
        self._opening: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.refusals = RefusalLog(self._on_event)

    def _build_toolbox(self, setup: Setup) -> Toolbox:
        options, config = setup.options, setup.config
        return Toolbox(
            self.upstream.create_sources(setup),
            profile=setup.profile,
            config=setup.toolbox_config,
            store=RoutingStore(open_store(config)),
            engine=self._engine,
            sink=self._on_event,
            learner=self._learner,
            explain_missing=self.upstream.explain_missing,
            approval_policy=_APPROVAL_POLICIES[options.confirm],
        )

    @property
    def state_security(self) -> RequestStateSecurity | None:
        """Seals request state; None means with a key that ends with this process."""
        if self.fleet is not None:
            return self.fleet.state_security
        config = self.setup.config
        if self.box.profile.runs_code and is_store_kept(config):
            # A program that waits outlives this process, and so must the question that was sent.
            key = StateKeys.of(config).read_or_create().bytes
            codec = AESGCMRequestStateCodec([hmac.digest(key, b"request state", "sha256")])
            return RequestStateSecurity(codec=codec)
        return None

    @property
    def upstreams(self) -> Upstreams:
        """The servers."""
        return self.upstream.upstreams

    # Start, stop and reload

    async def start(self) -> None:
        """Open the toolbox in the background; listings from earlier runs are searchable at once."""
        self.upstreams.attach(self.box)
        if self.fleet is not None:
            await self.fleet.start()
        await self.operations.start(self.setup)
        self._opening = asyncio.create_task(self._open_toolbox())
        if self._feed is not None:
            loop = asyncio.get_running_loop()

            def follow(change: Change) -> None:
                loop.call_soon_threadsafe(self._on_change, change)

            # In a thread: it waits until the store answers, or does not.
            await asyncio.to_thread(self._feed.subscribe, follow)

    def _on_change(self, change: Change) -> None:
        """Apply what another gateway changed; searches follow at once, and not with a poll."""
        if change == MISSED or change.topic == PINS_TOPIC:
            self._spawn(self._follow_pins())
        if change == MISSED:
            self._spawn(self.clients.follow_missed_news())
        elif change.topic == LISTS_TOPIC:
            news = ListNews.read(change.payload)
            if news is not None and self.fleet is not None and news.replica != self.fleet.replica:
                self._spawn(self.clients.follow_news(news))

    def _announce_list(self, caller: Principal) -> None:
        assert self.fleet is not None
        news = ListNews.of(caller, replica=self.fleet.replica)
        self._spawn(self._publish(LISTS_TOPIC, news.model_dump_json()))

    async def _publish(self, topic: str, payload: str) -> None:
        assert self._feed is not None
        # Without the store, the change itself is not known to others either.
        with suppress(StoreError):
            await asyncio.to_thread(self._feed.publish, topic, payload)

    async def _follow_pins(self) -> None:
        # Tools whose pins cannot be read are held, and searches say why.
        with suppress(StoreError):
            await self.recheck_pins()

    async def _open_toolbox(self) -> None:
        await self.box.__aenter__()
        self._spawn(self.upstream.start())

    async def wait_until_ready(self) -> None:
        """Wait until every server is listed, or until the timeout."""
        if self._opening is not None and not self._opening.done():
            # Shielded: a client that cancels its request must not stop the start for all others.
            await asyncio.shield(self._opening)

    @property
    def is_ready(self) -> bool:
        """Whether requests are answered without waiting for servers."""
        return self._opening is not None and self._opening.done()

    async def close(self) -> None:
        """Stop all servers and tasks."""
        if self.fleet is not None:
            await self.fleet.close()
        self.refusals.close()
        if self._feed is not None:
            await asyncio.to_thread(self._feed.close)
        tasks = [*self._tasks, *([self._opening] if self._opening else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.clients.close()
        await self.box.close()
        await self.upstream.close()
        if self._learner is not None:
            await asyncio.to_thread(self._learner.close)
        await close_engine(self._engine)
        self.operations.close()
        self.buckets.close()

    async def apply(self, setup: Setup) -> None:
        """Use an edited configuration without a restart; settings that need one are reported."""
        before, self.setup = self.setup, setup
        late = self.operations.apply(setup)
        self._apply_options(setup)
        await self.upstream.apply(setup, self.box)
        if before.settings != setup.settings:
            await self.recheck_pins()
            await self.clients.notify_changed_clients()
        self._on_event(ConfigAppliedEvent(waiting=late))

    def _apply_options(self, setup: Setup) -> None:
        self.box.reconfigure(
            profile=setup.profile,
            approval_policy=_APPROVAL_POLICIES[setup.options.confirm],
            call_timeout_seconds=setup.toolbox_config.call_timeout_seconds,
        )
        self.upstream.apply_rules(setup)
        self.clients.reset()

    async def recheck_pins(self) -> None:
        """Apply pins that were approved or revoked."""
        await self.upstream.recheck_pins(self.box)

    @property
    def problem(self) -> str:
        """What is wrong with the configuration, for `GET /health`."""
        return self.operations.problem

    def report_problem(self, problem: str) -> None:
        """Remember what is wrong, for `GET /health`."""
        self.operations.problem = problem

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)  # asyncio itself holds tasks weakly
        task.add_done_callback(self._tasks.discard)

    def emit(self, event: Event) -> None:
        """Record an event that did not come from the toolbox or a server."""
        self._on_event(event)

    def _on_event(self, event: Event) -> None:
        # Events of the toolbox are stamped already, those of the gateway and its servers are not.
        event = stamp(event)
        # Before start() there is no event loop to run the task, and no client to notify.
        if isinstance(event, CatalogChangeEvent) and self._opening is not None:
            self._spawn(self.clients.notify_changed_clients())
        self.operations.on_event(event)
