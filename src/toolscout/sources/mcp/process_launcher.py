"""Program that limits itself and then becomes a server: `process_launcher.py NAME=N … -- COMMAND`.

It runs before every limited server, so it imports next to nothing.
"""

from __future__ import annotations

import os
import sys

try:
    import resource
except ImportError:  # Windows
    sys.exit("Limits on processes need Linux or macOS. Remove them from the server's entry.")

_MB = 1024 * 1024
# On Linux this counts the memory that a process can write to. The address space, the alternative,
# is mostly reserved and never used: Node and Go take gigabytes of it.
_MEMORY = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
_KINDS = {
    "memory_mb": (_MEMORY, _MB),
    "cpu_seconds": (resource.RLIMIT_CPU, 1),
    "open_files": (resource.RLIMIT_NOFILE, 1),
    "file_mb": (resource.RLIMIT_FSIZE, _MB),
    "processes": (resource.RLIMIT_NPROC, 1),
}


def main(arguments: list[str]) -> None:
    """Set the limits and run the command in place of this program."""
    split = arguments.index("--")
    for item in arguments[:split]:
        name, _, value = item.partition("=")
        kind, unit = _KINDS[name]
        _, hard = resource.getrlimit(kind)
        wanted = int(value) * unit
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        # The hard limit too: otherwise the server could raise it again.
        resource.setrlimit(kind, (limit, limit))
    # A core dump has the memory of the server, secrets included.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    command = arguments[split + 1 :]
    os.execvp(command[0], command)  # noqa: S606 -- the command of the configuration


if __name__ == "__main__":
    main(sys.argv[1:])
