"""The load balancers of the deployment page, word for word but for addresses, with two replicas."""

from __future__ import annotations

import csv
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from tests.fleet.replicas import Fleet, Replica, call

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "deployment.md").read_text(encoding="utf-8")
TALKER = str(PROJECT / "tests" / "upstreams" / "talker.py")
ADDRESSES = ("10.0.0.5:8765", "10.0.0.6:8765")
DEADLINE_SECONDS = 30.0
CALLS = 10

HAPROXY = """
defaults
    mode http
    timeout connect 5s
    timeout client 1h
listen statistics
    bind 127.0.0.1:{statistics}
    timeout server 5s
    stats enable
    stats uri /
frontend clients
    bind 127.0.0.1:{port}
    default_backend toolscout
"""
NGINX = """
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {upstream}
    server {{
        listen 127.0.0.1:{port};
        {location}
    }}
}}
"""


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Replica]]:
    gateway = {"allowed_hosts": ["toolscout.example.com", "127.0.0.1"]}
    servers = {"talker": {"command": sys.executable, "args": [TALKER]}}
    fleet = Fleet(tmp_path_factory.mktemp("fleet"), servers, gateway=gateway)
    with fleet.replicas("a", "b") as running:
        yield running


def example(name: str, replicas: list[Replica]) -> str:
    """A block of the page with the addresses of the replicas."""
    block = PAGE.split(f"{name}:\n\n```\n")[1].split("```")[0]
    for address, replica in zip(ADDRESSES, replicas, strict=True):
        assert address in block
        block = block.replace(address, httpx2.URL(replica.url).netloc.decode())
    return block


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: install it to run the example of the page")
    return found


@contextmanager
def running(command: list[str], log: Path) -> Iterator[None]:
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as child:
        try:
            yield
        finally:
            child.terminate()
            child.wait(DEADLINE_SECONDS)


def wait_until(is_true: Callable[[], bool], log: Path | None = None) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        try:
            if is_true():
                return
        except httpx2.HTTPError:
            pass
        assert time.monotonic() < deadline, log and log.read_text()
        time.sleep(0.1)


def get(url: str) -> httpx2.Response:
    return httpx2.get(url, trust_env=False)


async def check_calls(port: int) -> None:
    """Calls of both protocols work, and those of one session reach both replicas."""
    for mode in ("legacy", "2026-07-28"):
        async with Client(f"http://127.0.0.1:{port}/mcp", mode=mode) as client:
            for number in range(CALLS):
                result = await call(client, "talker__add", a=number, b=1)
                assert result.structured_content == {"sum": number + 1}


async def test_haproxy_finds_both_replicas_well_and_passes_calls(
    replicas: list[Replica], tmp_path: Path
) -> None:
    haproxy, config, log = program("haproxy"), tmp_path / "haproxy.cfg", tmp_path / "log"
    port, statistics = free_port(), free_port()
    wrapper = HAPROXY.format(port=port, statistics=statistics)
    config.write_text(wrapper + example("HAProxy", replicas))

    def are_checked() -> bool:
        """Both servers have passed their check; before the first, HAProxy only assumes so."""
        text = get(f"http://127.0.0.1:{statistics}/;csv").text.removeprefix("# ")
        rows = [row for row in csv.DictReader(text.splitlines()) if row["svname"] in ("a", "b")]
        return [(row["status"], row["check_status"]) for row in rows] == [("UP", "L7OK")] * 2

    with running([haproxy, "-db", "-f", str(config)], log):
        wait_until(are_checked, log)
        await check_calls(port)


async def test_nginx_passes_calls_to_both_replicas(replicas: list[Replica], tmp_path: Path) -> None:
    nginx, config, log = program("nginx"), tmp_path / "nginx.conf", tmp_path / "log"
    port = free_port()
    upstream, between, location = example("nginx", replicas).partition("location")
    text = NGINX.format(folder=tmp_path, upstream=upstream, port=port, location=between + location)
    config.write_text(text)
    command = [nginx, "-p", str(tmp_path), "-c", str(config), "-e", str(tmp_path / "error.log")]
    with running(command, log):
        wait_until(lambda: get(f"http://127.0.0.1:{port}/health").status_code == 200, log)
        await check_calls(port)


def test_the_request_with_which_haproxy_checks_is_answered_without_haproxy_too(
    replicas: list[Replica],
) -> None:
    block = example("HAProxy", replicas)
    assert "option httpchk\n" in block
    (words,) = re.findall(r"http-check send (.+)", block)
    found = re.fullmatch(r"meth (\S+) uri (\S+) ver (\S+) hdr Host (\S+)", words)
    assert found
    method, path, version, host = found.groups()
    request = f"{method} {path} {version}\r\nhost: {host}\r\nconnection: close\r\n\r\n"
    for replica in replicas:
        address = httpx2.URL(replica.url)
        health = str(address.join("/health"))
        wait_until(lambda url=health: get(url).status_code == 200)  # it has started
        with socket.create_connection((address.host, address.port or 0), DEADLINE_SECONDS) as sent:
            sent.sendall(request.encode())
            with sent.makefile("rb") as answer:
                assert answer.readline().split()[1] == b"200"
