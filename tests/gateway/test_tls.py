"""HTTPS with `--tls-cert` and `--tls-key`, over real sockets."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.attack.lab import Lab, Target, bad, read_text, read_to_end
from tests.gateway.certificates import write_certificate
from tests.gateway.test_browser_login import AUTH, key_of, links

from toolscout.cli.app import run as toolscout


def trust(cert: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(cert))


@asynccontextmanager
async def gateway(folder: Path, cert: Path, key: Path, **tables: Any) -> AsyncIterator[Target]:
    options = ["--tls-cert", str(cert), "--tls-key", str(key)]
    async with Lab(folder).gateway({"one": bad("ok")}, options=options, **tables) as target:
        yield target


async def test_clients_call_tools_over_https(tmp_path: Path) -> None:
    cert, key = write_certificate(tmp_path)
    async with gateway(tmp_path, cert, key) as target:
        assert target.url.startswith("https://127.0.0.1:")
        log = target.log.read_text()
        assert "http://" not in log
        async with (
            httpx2.AsyncClient(verify=trust(cert), timeout=60) as http,
            Client(streamable_http_client(target.url, http_client=http)) as client,
        ):
            call = {"name": "one__echo", "arguments": {"text": "over TLS"}}
            assert read_text(await client.call_tool("call_tool", call)) == "over TLS"
            page = await http.get(f"{target.base}/", headers={"accept": "text/html"})
            assert target.url in page.text
        async with httpx2.AsyncClient() as stranger:
            with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                await stranger.get(f"{target.base}/health/live")


async def test_the_files_may_be_named_in_the_configuration(tmp_path: Path) -> None:
    write_certificate(tmp_path)
    settings = {"tls_cert": "one.crt", "tls_key": "one.key"}  # relative to the configuration
    async with Lab(tmp_path).gateway({"one": bad("ok")}, gateway=settings) as target:
        assert target.url.startswith("https://")


async def test_a_login_over_https_sets_a_cookie_that_never_leaves_it(tmp_path: Path) -> None:
    cert, key = write_certificate(tmp_path)
    async with (
        gateway(tmp_path, cert, key, auth=AUTH) as target,
        httpx2.AsyncClient(base_url=target.base, verify=trust(cert)) as browser,
    ):
        (link,) = links(target)
        assert link.startswith("https://")
        own = {"origin": target.base}
        opened = await browser.post("/login", data=key_of(link), headers=own)
        assert opened.status_code == 303
        assert opened.headers["set-cookie"].startswith("__Host-toolscout_")
        assert "; Secure" in opened.headers["set-cookie"]
        assert (await browser.get("/metrics")).status_code == 200


async def test_sockets_without_a_handshake_are_counted_and_closed(tmp_path: Path) -> None:
    cert, key = write_certificate(tmp_path)
    limits = {"connections": 20, "connections_per_address": 20, "header_seconds": 1}
    async with gateway(tmp_path, cert, key, limits=limits) as target:
        async with AsyncExitStack() as stack:
            readers = [(await stack.enter_async_context(target.connect()))[0] for _ in range(100)]
            # A client that does its handshake is served all the same, in place of a silent one.
            async with httpx2.AsyncClient(verify=trust(cert)) as http:
                assert (await http.get(f"{target.base}/")).status_code == 200
            ends = await asyncio.gather(*map(read_to_end, readers))
            assert all(ends), "each is closed"
        async with target.connect(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") as (reader, _):
            assert await read_to_end(reader), "plain HTTP is closed"
        assert await target.is_alive()
        assert "Traceback" not in target.log.read_text()


async def test_the_headers_of_a_request_have_a_time_limit_over_https_too(tmp_path: Path) -> None:
    cert, key = write_certificate(tmp_path)
    async with gateway(tmp_path, cert, key, limits={"header_seconds": 0.5}) as target:
        reader, writer = await asyncio.open_connection(*target.address, ssl=trust(cert))
        writer.write(b"GET / HTTP/1.1\r\n")
        assert b"408" in await read_to_end(reader)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def served_name(target: Target) -> bytes:
    """The certificate that the gateway shows to a new connection."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection(*target.address, ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return shown


async def test_a_renewed_certificate_is_used_without_a_restart(tmp_path: Path) -> None:
    cert, key = write_certificate(tmp_path)
    new_cert, new_key = write_certificate(tmp_path, "two")
    async with gateway(tmp_path, cert, key) as target, asyncio.timeout(60):
        before = await served_name(target)
        # Half of an edit: the key does not fit, and the old pair stays.
        new_cert.replace(cert)
        while "old one stays" not in target.log.read_text():
            assert await served_name(target) == before
        new_key.replace(key)
        while (shown := await served_name(target)) == before:
            pass
        assert shown == ssl.PEM_cert_to_DER_cert(cert.read_text())


@pytest.mark.parametrize(
    ("cert", "key", "says"),
    [
        ("one.crt", "", "tls_key (--tls-key) is not set"),
        ("", "one.key", "tls_cert (--tls-cert) is not set"),
        ("none.crt", "one.key", "none.crt cannot be read: No such file"),
        ("one.crt", "none.key", "none.key cannot be read: No such file"),
        ("one.crt", "two.key", "does not belong to the certificate"),
        ("one.key", "one.crt", "swapped"),
        ("broken.crt", "one.key", "cannot be used"),
        ("locked.crt", "locked.key", "is encrypted"),
    ],
)
def test_files_that_cannot_be_used_are_reported_before_the_welcome(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cert: str, key: str, says: str
) -> None:
    write_certificate(tmp_path)
    write_certificate(tmp_path, "two")
    write_certificate(tmp_path, "locked", password=b"secret")
    broken = "-----BEGIN CERTIFICATE-----\nzzz\n-----END CERTIFICATE-----\n"
    (tmp_path / "broken.crt").write_text(broken)
    config = tmp_path / "gateway.toml"
    config.write_text(f'[servers]\n[settings]\nhome = "{tmp_path / "home"}"')
    options = [*(["--tls-cert", str(tmp_path / cert)] if cert else [])]
    options += [*(["--tls-key", str(tmp_path / key)] if key else [])]
    command = ["serve", "--config", str(config), "--http", "127.0.0.1:0", *options]
    assert toolscout(command) == 2
    said = capsys.readouterr().err
    assert says in " ".join(said.split())
    assert "Connect a client" not in said


def test_tls_is_not_for_stdio(capsys: pytest.CaptureFixture[str]) -> None:
    assert toolscout(["serve", "--example", "--stdio", "--tls-cert", "x"]) == 2
    assert "for HTTP, not for --stdio" in capsys.readouterr().err
