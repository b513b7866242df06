#!/usr/bin/env python3
"""Check the files in deploy/, the Dockerfile and the workflows with their own linters.

hadolint, zizmor, kubernetes-validate and check-jsonschema come from requirements-release.txt, and
have all schemas with them; systemd-analyze and haproxy come from the system. A linter that the
system lacks is named and skipped.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from dist import PROJECT, find_tool, run

DEPLOY = PROJECT / "deploy"
UNIT = DEPLOY / "toolscout.service"
MAX_EXPOSURE = 2.0


def check_unit() -> None:
    """Verify the unit with a program that exists, and measure how exposed the system is."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        print("skipped: toolscout.service, because there is no systemd-analyze")
        return
    with tempfile.TemporaryDirectory() as folder:
        unit = Path(folder) / UNIT.name
        text = UNIT.read_text(encoding="utf-8")
        unit.write_text(text.replace("/opt/toolscout/bin/toolscout", "/bin/true"), encoding="utf-8")
        done = subprocess.run(
            [analyze, "verify", str(unit)], capture_output=True, text=True, check=False
        )
        if done.returncode or UNIT.name in done.stderr:
            sys.exit(f"systemd-analyze verify: {done.stdout}{done.stderr}")
        said = run([analyze, "security", "--offline=true", str(unit)])
    found = re.search(r"exposure level for \S+: ([\d.]+)", said)
    if not found or float(found[1]) > MAX_EXPOSURE:
        sys.exit(f"systemd-analyze security: {said[-300:]}")
    print(f"systemd-analyze: {UNIT.name} is valid, exposure {found[1]} of 10")


def check_manifests() -> None:
    """Validate Compose file and Kubernetes manifest against the schemas of their formats."""
    run([find_tool("kubernetes-validate"), "--strict", "--quiet", str(DEPLOY / "kubernetes.yaml")])
    print("kubernetes-validate: kubernetes.yaml is valid")
    schema = ["--builtin-schema", "vendor.compose-spec"]
    run([find_tool("check-jsonschema"), *schema, str(DEPLOY / "compose.yaml")])
    print("check-jsonschema: compose.yaml is valid")


def check_balancer() -> None:
    """Let HAProxy read its configuration; names of containers need not resolve here."""
    haproxy = shutil.which("haproxy")
    if haproxy is None:
        print("skipped: haproxy.cfg, because there is no haproxy")
        return
    text = (DEPLOY / "haproxy.cfg").read_text(encoding="utf-8")
    with tempfile.NamedTemporaryFile("w", suffix=".cfg", encoding="utf-8") as config:
        config.write(text.replace("init-addr libc,none", "init-addr none"))
        config.flush()
        run([haproxy, "-c", "-q", "-f", config.name])
    print("haproxy: haproxy.cfg is valid")


def main() -> None:
    run([find_tool("hadolint"), str(PROJECT / "Dockerfile")])
    print("hadolint: Dockerfile is clean")
    run([find_tool("zizmor"), "--offline", "--no-progress", str(PROJECT / ".github")])
    print("zizmor: the workflows are clean")
    check_manifests()
    check_balancer()
    check_unit()


if __name__ == "__main__":
    main()
