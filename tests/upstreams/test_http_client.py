"""Which addresses may be reached, and when a failing server is tried again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscout.errors import SourceError
from toolscout.sources.http_client import is_public
from toolscout.sources.mcp.mcp_source import MCPSource
from toolscout.sources.mcp.server_backoff import ServerBackoff
from toolscout.sources.mcp.servers import Server


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "192.168.1.1",
        "0.0.0.0",
        "100.64.0.1",
        "224.0.0.1",
        "::1",
        "fe80::1",
        "fd00::1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::a00:1",
        "2002:a00:1::",
    ],
)
def test_addresses_inside_are_not_public_in_any_disguise(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8"])
def test_addresses_outside_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "10.1.2.3", "[::ffff:127.0.0.1]", "2130706433", "ip6-localhost"]
)
async def test_a_server_inside_is_not_reached_unless_allowed(host: str) -> None:
    source = MCPSource(Server(name="inside", transport="http", url=f"http://{host}:9/mcp"))
    with pytest.raises(SourceError, match=r"not a public address|cannot be resolved"):
        await source.tools()
    await source.close()


async def test_an_address_inside_is_dialled_when_allowed() -> None:
    url = "http://[::ffff:127.0.0.1]:9/mcp"
    source = MCPSource(Server(name="inside", transport="http", url=url, allows_private=True))
    with pytest.raises(SourceError) as caught:
        await source.tools()
    assert "not a public address" not in str(caught.value)
    await source.close()


@given(st.integers(min_value=1, max_value=200))
def test_each_failure_waits_longer_up_to_a_minute(failures: int) -> None:
    breaker, waits = ServerBackoff(), list[float]()
    for _ in range(failures):
        breaker = breaker.record_failure("no", now=0.0)
        waits.append(breaker.wait_seconds(now=0.0))
    assert waits == sorted(waits)
    assert max(waits) <= 60
    assert not breaker.may_try(now=0.0)
    assert breaker.may_try(now=waits[-1])
    assert breaker.record_success() == ServerBackoff()


async def test_an_address_inside_is_said_to_be_forbidden_and_not_to_be_silent() -> None:
    source = MCPSource(Server(name="inside", transport="http", url="http://10.0.0.1/mcp"))
    with pytest.raises(
        SourceError, match=r"connecting to it is not allowed: .*allow_private"
    ) as caught:
        await source.tools()
    assert "nothing answers" not in str(caught.value)
    await source.close()
