"""One run of the gateway in this process, over stdio, over HTTP, or as a worker."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..folders import find_settings_file
from .kept_greeting import greetings_folder
from .serve_log import LogFormat, adopt_foreign_logs, build_sink, print_welcome
from .setup_reader import (
    SetupReader,
    join_names,
    print_http_welcome,
    public_url,
    server_names,
)
from .stdio_front import StdioFront

if TYPE_CHECKING:
    import socket

    from ..gateway.fleet.worker import Worker
    from ..gateway.identity.browser_login import BrowserLogin
    from ..gateway.setup import Setup

_LINK = "Log in with a browser (once, within {minutes:g} minutes): {url}{path}\n"


class GatewayRunner:
    """One run of the gateway."""

    def __init__(
        self,
        reader: SetupReader,
        setup: Setup,
        *,
        session: str,
        log_format: LogFormat = "text",
        worker: Worker | None = None,
    ) -> None:
        # Imported here: FastMCP is slow to import. Other commands do not need it, and a client over
        # stdio has its first answer before.
        from ..events import combine_sinks, guard_sink
        from ..gateway import gateway, server, sockets
        from ..gateway.client import auth
        from ..gateway.identity import browser_login
        from ..telemetry.export import open_telemetry

        adopt_foreign_logs()
        self._auth, self._server, self._logins = auth, server, browser_login
        self._bind_socket = sockets.bind_socket
        self._reader = reader
        self._telemetry = open_telemetry(setup.settings.telemetry)
        self._log_format: LogFormat = log_format
        lines = build_sink(log_format, shows_queries=setup.shows_queries, known=setup.problems)
        sinks = (lines, self._telemetry) if self._telemetry else (lines,)
        sink = combine_sinks(*map(guard_sink, sinks))
        self._gateway = gateway.Gateway(setup, session=session, sink=sink, worker=worker)

    def greeting_inputs(self) -> tuple[Path, ...]:
        """The files that the first answer to a client depends on; empty if it needs more."""
        from ..store.postgres_url import is_postgres_url

        setup = self._gateway.setup
        config, features = setup.config, setup.toolbox_config
        # The documents of APIs may be anywhere, the pins may be in a database, and a kept answer is
        # looked for before the settings are read.
        is_elsewhere = config.cache_folder != greetings_folder().parent
        if setup.apis or is_elsewhere or is_postgres_url(config.store):
            return ()
        folders = (config.cache_folder / "listings", config.state_folder / "pins")
        own = find_settings_file(os.environ)
        files = (self._reader.path, *((own,) if own else ()))
        paths = (*files, *folders, *features.rules, *features.skills)
        return tuple(path.absolute() for path in paths)

    def serve_stdio(self, front: StdioFront) -> None:
        """Serve one client until it disconnects."""
        names = server_names(self._gateway.setup)
        text = f"Toolscout serves {join_names(names)} over stdio.\n"
        facts: dict[str, object] = {"transport": "stdio", "servers": names}
        print_welcome(text, log_format=self._log_format, facts=facts)
        asyncio.run(
            self._server.serve_stdio(
                self._gateway,
                read_setup=self._reader.read,
                telemetry=self._telemetry,
                feed=front.feed,
            )
        )

    def serve_http(self, host: str, port: int) -> None:
        """Print how to connect, and serve clients until stopped."""
        setup = self._gateway.setup
        self._auth.check_exposure(host, setup.settings.auth)
        listener = self._bind_socket(host, port)
        url = public_url(setup, host, listener.getsockname()[1])
        is_example = self._reader.config is not None
        print_http_welcome(setup, url, log_format=self._log_format, is_example=is_example)
        self.serve_socket(listener, login=self._open_login(url))

    def serve_as_worker(self, listener: socket.socket, url: str) -> None:
        """Serve clients on a socket that other workers accept from too."""
        worker = self._gateway.worker
        # One of them shows links, and answers the pages that they lead to.
        is_lead = worker is not None and worker.is_lead
        self.serve_socket(listener, login=self._open_login(url) if is_lead else None)

    def serve_socket(self, listener: socket.socket, *, login: BrowserLogin | None) -> None:
        """Serve clients until stopped."""
        # Over stdio there is no console, and every import delays the first answer.
        from ..console.console import build_routes

        with suppress(KeyboardInterrupt):
            asyncio.run(
                self._server.serve_http(
                    self._gateway,
                    listener,
                    read_setup=self._reader.read,
                    telemetry=self._telemetry,
                    login=login,
                    build_console=build_routes,
                )
            )

    def _open_login(self, url: str) -> BrowserLogin | None:
        """The logins with a browser; the first link is printed if pages need a login."""
        auth = self._gateway.setup.settings.auth
        # Records in JSON are collected, and who reads them later must not get links.
        if self._log_format == "json":
            return None

        def print_link(path: str) -> None:
            link = _LINK.format(minutes=auth.login_link_minutes, url=url, path=path)
            print_welcome(link, log_format=self._log_format, facts={})

        login = self._logins.BrowserLogin.create(auth, print_link=print_link)
        if auth.is_set:
            login.offer_link()
        return login
