"""Node parts for tests: installed once into a cache folder, exactly the versions named here."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent / ".cache" / "node"
SERVERS = {
    "@modelcontextprotocol/server-everything": "2026.8.31",
    "@modelcontextprotocol/server-filesystem": "2026.8.31",
    "@modelcontextprotocol/server-memory": "2026.8.31",
    "@modelcontextprotocol/inspector": "2.12.0",
    "node": "22.23.3",
}
ISSUER = {"oidc-provider": "9.13.3", "node": "22.23.3"}
SUITE = {"@modelcontextprotocol/conformance": "0.1.16", "node": "22.23.3"}
STATELESS_SUITE = {"@modelcontextprotocol/conformance": "0.2.0-alpha.12", "node": "22.23.3"}


def missing() -> str:
    """Why Node parts cannot be used here; empty if they can."""
    return "" if shutil.which("npm") and shutil.which("node") else "Node and npm are not installed"


def installed(name: str, packages: dict[str, str]) -> Path:
    """A folder with these packages; what is there already is not asked for again."""
    folder = ROOT / name
    wanted = {"private": True, "dependencies": packages}
    manifest = folder / "package.json"
    done = folder / ".installed"
    if done.exists() and json.loads(done.read_text()) == wanted:
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    manifest.write_text(json.dumps(wanted))
    npm = shutil.which("npm")
    assert npm is not None
    subprocess.run([npm, "install", "--silent", "--no-audit", "--no-fund"], cwd=folder, check=True)
    done.write_text(json.dumps(wanted))
    return folder
