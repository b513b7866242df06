"""`toolscout serve --workers`: start several processes that serve one address together."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from ..errors import ConfigError
from .launch import Launch
from .setup_reader import SetupReader, print_http_welcome, public_url

if TYPE_CHECKING:
    from ..gateway.fleet.worker_process import WorkerProcess
    from ..gateway.setup import Setup

# Without -P, Python would import modules from the current folder, whatever is in it.
_COMMAND: Sequence[str] = (sys.executable, "-P", "-m", "toolscout.cli.worker_entry")


def run_workers(
    launch: Launch, reader: SetupReader, setup: Setup, *, address: tuple[str, int]
) -> int:
    """Print how to connect, and serve with several processes until a signal; the exit code."""
    from ..gateway.client.auth import check_exposure
    from ..gateway.fleet.connection_counts import ConnectionCounts
    from ..gateway.fleet.replicas import new_replica_id
    from ..gateway.fleet.supervisor import Supervisor
    from ..gateway.fleet.worker_process import WorkerProcess
    from ..gateway.sockets import bind_socket

    workers = setup.options.workers
    check_workers(setup)
    host, port = address
    check_exposure(host, setup.settings.auth)
    listener = bind_socket(host, port)
    counts = ConnectionCounts.create(workers)
    url = public_url(setup, host, listener.getsockname()[1])
    common = {
        "launch": launch.to_dict(),
        "lead": new_replica_id(),
        "url": url,
        # How the user starts the program, for the commands that workers print.
        "program": sys.argv[0],
    }

    def start_worker(number: int) -> WorkerProcess:
        described = {**common, "number": number}
        return WorkerProcess(_COMMAND, described, listener=listener, counts=counts)

    print_http_welcome(
        setup,
        url,
        log_format=launch.log_format,
        is_example=reader.config is not None,
        workers=workers,
    )
    with listener, closing(counts):
        return Supervisor(start_worker, workers=workers, counts=counts).run()


def check_workers(setup: Setup) -> None:
    """Raise if this machine or this configuration cannot have several workers."""
    from ..gateway.sockets import check_internal_ports
    from ..store.factory import is_store_kept

    if sys.platform == "win32":
        raise ConfigError(
            "Several workers are not supported on Windows.",
            hint="Leave out --workers, and workers in [gateway]. To use all cores, run several"
            " gateways with a PostgreSQL store behind a load balancer.",
        )
    if not is_store_kept(setup.config):
        raise ConfigError(
            "Several workers share their sessions through the store, and a store in memory belongs"
            " to one process.",
            hint="Set store to sqlite (the default), to the path of a file, or to a postgresql://"
            " URL; or leave out --workers, and workers in [gateway].",
        )
    check_internal_ports(setup.options.internal_address, workers=setup.options.workers)
