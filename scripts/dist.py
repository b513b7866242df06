#!/usr/bin/env python3
"""Build the files of a release into a folder: an sdist and a wheel.

    scripts/dist.py             into dist/
    scripts/dist.py --to DIR

The wheel is built from the sdist, as a package index would get it. It has to be pure Python, which
serves every system. Then `twine check --strict` and `check-wheel-contents` check the result.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
TOOLS = PROJECT / ".cache" / "release"
COMPILED = (".so", ".pyd", ".dll", ".dylib", ".a", ".o")
REQUIREMENTS = PROJECT / "requirements-release.txt"


def run(command: list[str], **environment: str) -> str:
    """Run a command and return its output; exit with its errors if it fails."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    if done.returncode:
        sys.exit(f"failed: {' '.join(command)}\n{done.stdout[-2_000:]}\n{done.stderr[-4_000:]}")
    return done.stdout + done.stderr


def find_tool(name: str) -> str:
    """A program of requirements-release.txt, installed into a separate environment."""
    folder = TOOLS / ("Scripts" if os.name == "nt" else "bin")
    stamp = TOOLS / "requirements.txt"
    wanted = REQUIREMENTS.read_text(encoding="utf-8")
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != wanted:
        print("installing the tools of requirements-release.txt", flush=True)
        run([sys.executable, "-m", "venv", str(TOOLS)])
        pip = [str(folder / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
        run([*pip, "--quiet", "-r", str(REQUIREMENTS)])
        stamp.write_text(wanted, encoding="utf-8")
    return str(folder / name)


def build_sdist(folder: Path) -> Path:
    build = [find_tool("python"), "-m", "build", "--no-isolation", "--sdist"]
    run([*build, "--outdir", str(folder), str(PROJECT)])
    (sdist,) = folder.glob("*.tar.gz")
    return sdist


def build_wheel(sdist: Path, folder: Path) -> Path:
    """Build the wheel from the sdist."""
    with tempfile.TemporaryDirectory(prefix="toolscout-dist-") as name:
        with tarfile.open(sdist) as archive:
            archive.extractall(name, filter="data")
        (tree,) = Path(name).iterdir()
        build = [find_tool("python"), "-m", "build", "--no-isolation", "--wheel"]
        run([*build, "--outdir", name, str(tree)])
        (wheel,) = Path(name).glob("*.whl")
        return Path(shutil.move(wheel, folder / wheel.name))


def check_purity(wheel: Path) -> None:
    """Exit unless the wheel serves every system: its tag says so, and nothing in it is compiled."""
    with zipfile.ZipFile(wheel) as archive:
        compiled = [name for name in archive.namelist() if name.endswith(COMPILED)]
    if compiled or not wheel.name.endswith("-py3-none-any.whl"):
        sys.exit(f"not a pure wheel: {wheel.name} {' '.join(compiled)}")


def build_all(folder: Path) -> list[Path]:
    """Build and check the sdist and the wheel."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("*.whl"), *folder.glob("*.tar.gz")):
        old.unlink()
    sdist = build_sdist(folder)
    wheel = build_wheel(sdist, folder)
    check_purity(wheel)
    run([find_tool("twine"), "check", "--strict", str(sdist), str(wheel)])
    run([find_tool("check-wheel-contents"), str(wheel)])
    for file in (sdist, wheel):
        print(f"{file.stat().st_size / 1e6:6.1f} MB  {file.name}")
    return [sdist, wheel]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--to", type=Path, default=PROJECT / "dist", metavar="DIR")
    build_all(parser.parse_args().to)


if __name__ == "__main__":
    main()
