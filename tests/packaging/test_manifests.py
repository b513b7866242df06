"""Compose file and Kubernetes manifest: their settings, paths, ports and probes exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from tests.store.postgres_server import shared_server

from toolscout.cli.serve import DEFAULT_PORT, command
from toolscout.config import Config

PROJECT = Path(__file__).parents[2]
DEPLOY = PROJECT / "deploy"
TALKER = str(PROJECT / "tests" / "upstreams" / "talker.py")
TOML = (DEPLOY / "gateway.toml").read_text(encoding="utf-8")
PAGE = (PROJECT / "docs" / "deployment.md").read_text(encoding="utf-8")
DEADLINE_SECONDS = 60.0
# Read by the gateway or its driver, and not settings.
OTHER_VARIABLES = {"TOOLSCOUT_KEY", "PGPASSWORD"}


@pytest.fixture
def manifest() -> dict[str, Any]:
    text = (DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")
    return {document["kind"]: document for document in yaml.safe_load_all(text)}


@pytest.fixture
def compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


@pytest.fixture
def pod(manifest: dict[str, Any]) -> dict[str, Any]:
    return manifest["Deployment"]["spec"]["template"]["spec"]


@contextmanager
def gateway(folder: Path) -> Iterator[str]:
    """A gateway with the configuration of the manifests; its servers and ports are other ones."""
    text = TOML.replace("0.0.0.0:8766", "127.0.0.1:0")
    text = re.sub(r"\[servers\.docs\].*", "", text, flags=re.DOTALL)
    text += f"[servers.talker]\ncommand = '{sys.executable}'\nargs = ['{TALKER}']\n"
    (folder / "gateway.toml").write_text(text, encoding="utf-8")
    variables = {
        "TOOLSCOUT_STORE": shared_server().new_database(), "TOOLSCOUT_HOME": str(folder),
        "TOOLSCOUT_KEY": "k" * 40, "TOOLSCOUT_EMBEDDER": "none", "ANN_TOKEN": "t" * 20,
    }  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-m", "toolscout.cli", "serve", "--wait", "60", "--http", "127.0.0.1:0",
         "--config", str(folder / "gateway.toml")],
        env={**os.environ, **variables}, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            yield _read_address(process).removesuffix("/mcp")
        finally:
            process.kill()


def _read_address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if "/mcp" in line:
            return line.split()[-1]
    raise AssertionError("The gateway ended before it listened.")


def probe(base: str, http_get: dict[str, Any]) -> int:
    headers = {pair["name"]: pair["value"] for pair in http_get["httpHeaders"]}
    return httpx2.get(base + http_get["path"], headers=headers, trust_env=False).status_code


def test_the_probes_are_answered_by_a_gateway_with_the_configuration_of_the_manifest(
    pod: dict[str, Any], tmp_path: Path
):
    (container,) = pod["containers"]
    probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")]
    assert [each["port"] for each in probes] == ["http"] * 3
    with gateway(tmp_path) as base:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while probe(base, probes[-1]) != 200:  # while its server starts
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert [probe(base, each) for each in probes] == [200] * 3
        # The way of Kubernetes without httpHeaders: the address of the pod.
        assert httpx2.get(f"{base}/health", headers={"Host": "10.1.2.3:8765"}).status_code == 421
    assert container["livenessProbe"]["httpGet"]["path"] == "/health/live"


def test_an_update_replaces_replicas_one_by_one_without_a_gap(manifest: dict[str, Any]):
    spec = manifest["Deployment"]["spec"]
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels
    assert manifest["Service"]["spec"]["selector"] == labels
    for kind in ("PodDisruptionBudget", "NetworkPolicy"):
        selector = manifest[kind]["spec"].get("selector") or manifest[kind]["spec"]["podSelector"]
        assert selector["matchLabels"] == labels
    assert manifest["PodDisruptionBudget"]["spec"]["maxUnavailable"] < spec["replicas"]


def test_the_ports_are_those_of_the_gateway_and_of_its_internal_route(
    manifest: dict[str, Any], pod: dict[str, Any]
):
    (container,) = pod["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    internal = tomllib.loads(TOML)["gateway"]["internal_address"]
    assert ports == {"http": DEFAULT_PORT, "internal": int(internal.rpartition(":")[2])}
    assert container["args"][-1] == f"0.0.0.0:{DEFAULT_PORT}"
    known = {name for option in command.params for name in option.opts}
    assert {name for name in container["args"] if name.startswith("--")} <= known
    public, private = manifest["NetworkPolicy"]["spec"]["ingress"]
    assert public["ports"] == [{"port": "http"}]
    assert (private["ports"], "from" in private) == ([{"port": "internal"}], True)


def test_settings_exist_and_secrets_are_not_in_the_files(
    pod: dict[str, Any], compose: dict[str, Any]
):
    (container,) = pod["containers"]
    replicas = [s for name, s in compose["services"].items() if name.startswith("toolscout-")]
    assert len(replicas) == 3
    variables = {each["name"] for each in container["env"]} | set(replicas[0]["environment"])
    settings = {f"TOOLSCOUT_{name.upper()}" for name in Config.model_fields} | OTHER_VARIABLES
    named = set(re.findall(r"\$\{(\w+)\}", TOML))
    assert variables - settings == named
    assert all("secretKeyRef" in each["valueFrom"] for each in container["env"])
    secrets = {"PGPASSWORD", "TOOLSCOUT_KEY", *named}
    assert all(replicas[0]["environment"][name].startswith("${") for name in secrets)


def test_files_are_mounted_where_the_image_reads_and_writes(
    manifest: dict[str, Any], pod: dict[str, Any], compose: dict[str, Any]
):
    image = (PROJECT / "Dockerfile").read_text(encoding="utf-8")
    (container,) = pod["containers"]
    mounts = {each["mountPath"] for each in container["volumeMounts"]}
    assert mounts == {"/etc/toolscout", "/var/lib/toolscout", "/tmp"}
    assert "TOOLSCOUT_HOME=/var/lib/toolscout" in image
    assert "postgres" in re.findall(r'"\.\[(.+)\]"', image)[0].split(",")
    assert pod["securityContext"]["runAsUser"] == int(re.findall(r"^USER (\d+)", image, re.M)[0])
    assert manifest["ConfigMap"]["data"]["gateway.toml"].strip() == TOML.strip()
    for service in compose["services"].values():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() or source in compose["volumes"]


def test_the_balancer_of_the_compose_file_is_that_of_the_page(compose: dict[str, Any]):
    text = (DEPLOY / "haproxy.cfg").read_text(encoding="utf-8")

    def backend(text: str) -> list[str]:
        lines = text.split("backend toolscout\n    balance")[1].split("```")[0].splitlines()
        return [line for line in lines if not line.strip().startswith(("server ", "default-"))]

    assert backend(text) == backend(PAGE)
    servers = re.findall(r"^    server \w+ ([\w-]+):(\d+)$", text, re.M)
    replicas = [name for name in compose["services"] if name.startswith("toolscout-")]
    assert servers == [(name, str(DEFAULT_PORT)) for name in replicas]
    assert f"bind :{DEFAULT_PORT}\n" in text
