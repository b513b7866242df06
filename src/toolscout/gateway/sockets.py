"""Listening sockets: the public one, the internal one, and one that a supervisor passed on."""

from __future__ import annotations

import socket

from ..errors import ConfigError

BACKLOG = 2_048
"""How many connections may wait to be accepted."""

_MAX_PORT = 65_535
_LOOPBACK = "127.0.0.1"


def bind_socket(host: str, port: int) -> socket.socket:
    """A socket that listens on an address; raises an error with the reason if it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sets TCP_NODELAY on every connection. Without it, small
    # messages wait for one another (Nagle's algorithm).
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # A restarted gateway gets its port back at once, while old connections are still closing.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host.strip("[]"), port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"Cannot serve on {host}:{port}: {error.strerror}.",
            hint="Write the address as HOST:PORT, as in --http 127.0.0.1:8765."
            if isinstance(error, socket.gaierror)
            else "Stop the program that uses the port, or choose another with --http HOST:PORT.",
        ) from error
    return listener


def bind_internal_socket(
    host: str, address: str, *, worker: int = 0, is_local: bool = False
) -> socket.socket:
    """A socket for other gateways; by default any free port of the public address.

    With `is_local` all of them are on this machine, and the port is one of loopback. Of a
    configured address, the workers of one machine use consecutive ports.
    """
    if is_local:
        return bind_socket(_LOOPBACK, 0)
    if not address:
        return bind_socket(host, 0)
    name, _, port = address.rpartition(":")
    return bind_socket(name, int(port) + worker if int(port) else 0)


def check_internal_ports(address: str, *, workers: int) -> None:
    """Raise if a configured internal address leaves too few ports for all workers."""
    port = int(address.rpartition(":")[2] or 0)
    if port + workers - 1 > _MAX_PORT:
        raise ConfigError(
            f"{workers} workers need {workers} ports from internal_address on, and {port} leaves"
            f" {_MAX_PORT - port + 1}.",
            hint="Choose a lower port for internal_address.",
        )


def adopt_socket(descriptor: int) -> socket.socket:
    """A listening socket that another process has bound."""
    found = socket.socket(fileno=descriptor)
    family = found.family
    # Named again: not every system says which protocol a socket has, and TCP_NODELAY depends on it.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=found.detach())
    # Servers that the gateway starts have no use for it.
    listener.set_inheritable(False)
    return listener
