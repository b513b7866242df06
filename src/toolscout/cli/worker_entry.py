"""Entry point of a worker process, which `toolscout serve --workers` starts."""

from __future__ import annotations

import os
import socket
import sys

from ..errors import ToolscoutError
from .app import EXIT_USAGE
from .config_options import note_config_file
from .launch import Launch
from .output import print_error


def run_worker(control_descriptor: int, listener_descriptor: int, counts_descriptor: int) -> int:
    """Serve on an inherited socket until the supervisor ends it; the exit code."""
    from ..gateway.fleet.connection_counts import ConnectionCounts
    from ..gateway.fleet.worker import Worker
    from ..gateway.fleet.worker_process import read_launch
    from ..gateway.sockets import adopt_socket

    control = socket.socket(fileno=control_descriptor)
    control.set_inheritable(False)
    listener = adopt_socket(listener_descriptor)
    # Servers that the gateway starts have no use for it.
    os.set_inheritable(counts_descriptor, False)  # noqa: FBT003 - positional only
    counts = ConnectionCounts(counts_descriptor)
    described = read_launch(control)
    sys.argv[:] = [described["program"]]
    launch = Launch.parse(described["launch"])
    launch.configure_logs()
    note_config_file(launch.path)
    worker = Worker.create(described["number"], described["lead"], control, counts)
    try:
        launch.load_worker(worker).serve_as_worker(listener, described["url"])
    except ToolscoutError as error:
        is_json = launch.log_format == "json"
        print_error(error.code, error.message, hint=error.hint, is_json=is_json)
        return EXIT_USAGE
    return 0


if __name__ == "__main__":
    sys.exit(run_worker(*map(int, sys.argv[1:4])))
