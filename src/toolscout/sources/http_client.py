"""HTTP client that refuses private addresses (SSRF guard): resolve once, check, then connect."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from .response_limits import ACCEPT_ENCODING, limit_response

_TIMEOUT_SECONDS = 30.0
# Addresses of this prefix reach the IPv4 address in their last four bytes (RFC 6052).
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
RequestHook = Callable[[httpx2.Request], Awaitable[None]]
ResponseHook = Callable[[httpx2.Response], Awaitable[None]]


def create_http_client(
    url: str,
    *,
    headers: Mapping[str, str],
    allows_private: bool,
    on_response: ResponseHook,
    on_request: RequestHook | None = None,
    auth: httpx2.Auth | None = None,
    max_response_bytes: int = 0,
) -> httpx2.AsyncClient:
    """Create an HTTP client for one server, guarded unless private addresses are allowed.

    Reading a response fails beyond `max_response_bytes`; 0 leaves that to the caller.
    """
    parts = urlsplit(url)
    # A proxy from the environment resolves names itself, so an address checked here would not be
    # the one it connects to. Without our own transport, httpx2 uses that proxy.
    is_direct = parts.scheme not in getproxies() or bool(proxy_bypass(parts.hostname or ""))
    transport = httpx2.AsyncHTTPTransport(retries=0)
    guarded = PublicOnlyTransport(transport, configured_host=parts.hostname or "")

    async def limit_body(response: httpx2.Response) -> None:
        limit_response(response, max_bytes=max_response_bytes)

    limited = {"accept-encoding": ACCEPT_ENCODING} if max_response_bytes else {}
    # The limit first, so that `on_response` can look at the body as it is after decompression.
    hooks = [*([limit_body] if max_response_bytes else []), on_response]
    return httpx2.AsyncClient(
        auth=auth,
        headers={**limited, **headers},
        # No read timeout: a call may take long, and a stream of events may be silent for hours.
        timeout=httpx2.Timeout(_TIMEOUT_SECONDS, read=None),
        transport=guarded if is_direct and not allows_private else None,
        event_hooks={"request": [on_request] if on_request else [], "response": hooks},
    )


def is_local(url: str) -> bool:
    """Whether a URL names the local machine."""
    return urlsplit(url).hostname in _LOCAL_HOSTS


class PrivateAddress(httpx2.ConnectError):
    """The host is, or resolves to, an address that is not public."""


def is_public(text: str) -> bool:
    """Whether an IP address is public, also as the IPv4 address that an IPv6 address embeds."""
    address = ipaddress.ip_address(text)
    return all(a.is_global and not a.is_multicast for a in _address_variants(address))


def _address_variants(address: IPAddress) -> Iterator[IPAddress]:
    # ::ffff:10.0.0.1, 2002:a00:1:: and 64:ff9b::a00:1 all lead to 10.0.0.1. `is_global` alone does
    # not look inside all of them.
    yield address
    if isinstance(address, ipaddress.IPv6Address):
        for inner in (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())):
            if inner is not None:
                yield inner
        if address in _NAT64:
            yield ipaddress.IPv4Address(address.packed[-4:])


class PublicOnlyTransport(httpx2.AsyncBaseTransport):
    """A transport that connects only to public addresses, and to a configured local host.

    A configured URL with localhost is intended. A public name that resolves to a private address,
    or a login page of a remote server on localhost, may be an attack.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, *, configured_host: str) -> None:
        self._inner = inner
        self._configured_host = configured_host

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Connect to the checked address, under the host name of the request."""
        host = request.url.host
        if not (host in _LOCAL_HOSTS and host == self._configured_host):
            # Connect to the very address that was checked: resolving the name a second time could
            # give another one (DNS rebinding). SNI keeps the name, so that TLS certificates are
            # checked against it; the Host header was set before.
            # In a copy: redirects are compared with the address that was asked for.
            request = httpx2.Request(
                request.method,
                request.url.copy_with(host=await self._resolve_public(host, request)),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": host},
            )
        return await self._inner.handle_async_request(request)

    async def _resolve_public(self, host: str, request: httpx2.Request) -> str:
        port = request.url.port or (443 if request.url.scheme == "https" else 80)
        loop = asyncio.get_running_loop()
        try:
            entries = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            raise httpx2.ConnectError(f"{host} cannot be resolved: {error.strerror}.") from error
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
        # One private address among public ones is enough to refuse.
        private = [a for a in addresses if not is_public(a)]
        if private:
            raise PrivateAddress(
                f"{host} resolves to {private[0]}, which is not a public address."
                " Set allow_private = true for this server if that is intended."
            )
        return addresses[0]

    async def aclose(self) -> None:
        """Close the wrapped transport."""
        await self._inner.aclose()
