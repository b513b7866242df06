"""No request to an address inside: names are resolved once, checked, and dialled as checked."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

_TIMEOUT_SECONDS = 30.0
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


ResponseHook = Callable[[httpx2.Response], Awaitable[None]]


def create_http_client(
    url: str,
    *,
    headers: Mapping[str, str],
    allows_private: bool,
    note: ResponseHook,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    """An HTTP client for one server; a proxy of the environment does its own resolving."""
    parts = urlsplit(url)
    is_direct = parts.scheme not in getproxies() or bool(proxy_bypass(parts.hostname or ""))
    transport = httpx2.AsyncHTTPTransport(retries=0)
    guarded = PublicOnlyTransport(transport, named=parts.hostname or "")
    return httpx2.AsyncClient(
        auth=auth,
        headers=dict(headers),
        timeout=httpx2.Timeout(_TIMEOUT_SECONDS, read=None),
        transport=guarded if is_direct and not allows_private else None,
        event_hooks={"response": [note]},
    )


def is_local(url: str) -> bool:
    """Whether an address is on this very machine."""
    return urlsplit(url).hostname in _LOCAL_HOSTS


class PrivateAddress(httpx2.ConnectError):
    """The host is, or resolves to, an address that is not public."""


def is_public(text: str) -> bool:
    """Whether an address is on the open internet, in whatever clothes it comes."""
    address = ipaddress.ip_address(text)
    return all(a.is_global and not a.is_multicast for a in _address_variants(address))


def _address_variants(address: IPAddress) -> Iterator[IPAddress]:
    yield address
    if isinstance(address, ipaddress.IPv6Address):
        for inner in (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())):
            if inner is not None:
                yield inner
        if address in _NAT64:
            yield ipaddress.IPv4Address(address.packed[-4:])


class PublicOnlyTransport(httpx2.AsyncBaseTransport):
    """A transport that reaches only public addresses, and the local host where it was named.

    A configuration that names the local host means it; a public name that turns out to lead
    inside does not.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, *, named: str) -> None:
        self._inner = inner
        self._named = named

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Dial the checked address, under the name that was asked for."""
        host = request.url.host
        if not (host in _LOCAL_HOSTS and host == self._named):
            request.url = request.url.copy_with(host=await self._resolve_public(host, request))
            request.extensions = {**request.extensions, "sni_hostname": host}
        return await self._inner.handle_async_request(request)

    async def _resolve_public(self, host: str, request: httpx2.Request) -> str:
        port = request.url.port or (443 if request.url.scheme == "https" else 80)
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            raise httpx2.ConnectError(f"{host} cannot be resolved: {error.strerror}.") from error
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        inside = [a for a in addresses if not is_public(a)]
        if inside:
            raise PrivateAddress(
                f"{host} leads to {inside[0]}, which is not a public address."
                " Set allow_private = true for this server if that is meant."
            )
        return addresses[0]

    async def aclose(self) -> None:
        """Close the transport underneath."""
        await self._inner.aclose()
