#!/usr/bin/env python3
"""Build the files of a release into a folder: an sdist, a pure-Python wheel and platform wheels.

    scripts/dist.py                      everything, into dist/
    scripts/dist.py --to DIR linux       the platforms whose tag contains "linux"

Wheels are built from the sdist, as a package index would get it. Zig compiles for every platform:
one machine builds all of them. The Linux wheels run with every glibc from 2.17 (2012) on. Then
`twine check --strict`, `auditwheel` and `check-wheel-contents` check the result.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
TOOLS = PROJECT / ".cache" / "release"
REQUIREMENTS = PROJECT / "requirements-release.txt"

GLIBC = 17  # 2.17, of 2012: what manylinux2014 promises
# The tag that package indexes accept, and the platform as Zig names it.
PLATFORMS = {
    "manylinux_2_17_x86_64.manylinux2014_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux_2_17_aarch64.manylinux2014_aarch64": "aarch64-linux-gnu.2.17",
    "musllinux_1_2_x86_64": "x86_64-linux-musl",
    "musllinux_1_2_aarch64": "aarch64-linux-musl",
    "macosx_11_0_x86_64": "x86_64-macos.11.0",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
    "win_amd64": "x86_64-windows-gnu",
}


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


def build_wheel(sdist: Path, folder: Path, platform: str = "") -> Path:
    """Build one wheel from the sdist; without a platform the pure-Python one."""
    if platform:
        compiler = f"'{find_tool('python')}' -m ziglang cc -target {PLATFORMS[platform]}"
        environment = {"TOOLSCOUT_PLATFORM": platform, "CC": compiler}
    else:
        environment = {"TOOLSCOUT_PLAIN": "1"}
    with tempfile.TemporaryDirectory(prefix="toolscout-dist-") as name:
        with tarfile.open(sdist) as archive:
            archive.extractall(name, filter="data")
        (tree,) = Path(name).iterdir()
        build = [find_tool("python"), "-m", "build", "--no-isolation", "--wheel"]
        run([*build, "--outdir", name, str(tree)], **environment)
        (wheel,) = Path(name).glob("*.whl")
        return Path(shutil.move(wheel, folder / wheel.name))


def check_wheel(wheel: Path) -> None:
    """The name must say what the wheel holds: a library for one platform, or none at all."""
    with zipfile.ZipFile(wheel) as archive:
        libraries = [n for n in archive.namelist() if n.endswith((".so", ".dll", ".lib", ".pdb"))]
    is_pure = wheel.name.endswith("-py3-none-any.whl")
    if len(libraries) != (0 if is_pure else 1):
        sys.exit(f"{wheel.name} holds {libraries or 'no compiled library'}.")
    if "manylinux" in wheel.name:
        said = " ".join(run([find_tool("auditwheel"), "show", str(wheel)]).split())
        found = re.search(r'platform tag: "manylinux_2_(\d+)_', said)
        if not found or int(found[1]) > GLIBC:
            sys.exit(f"{wheel.name} needs another system than its tag says: {said}")


def check_all(files: list[Path]) -> None:
    run([find_tool("twine"), "check", "--strict", *map(str, files)])
    wheels = [file for file in files if file.suffix == ".whl"]
    for wheel in wheels:
        check_wheel(wheel)
    run([find_tool("check-wheel-contents"), *map(str, wheels)])


def build_all(folder: Path, wanted: str = "") -> list[Path]:
    """Build and check the sdist, the pure wheel, and the wheels of the wanted platforms."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("*.whl"), *folder.glob("*.tar.gz")):
        old.unlink()
    sdist = build_sdist(folder)
    files = [sdist, build_wheel(sdist, folder)]
    for platform in PLATFORMS:
        if wanted in platform:
            print(f"building for {platform}", flush=True)
            files.append(build_wheel(sdist, folder, platform))
    check_all(files)
    for file in files:
        print(f"{file.stat().st_size / 1e6:6.1f} MB  {file.name}")
    return files


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "platform", nargs="?", default="", help="only platforms with this in the tag"
    )
    parser.add_argument("--to", type=Path, default=PROJECT / "dist", metavar="DIR")
    options = parser.parse_args()
    if not any(options.platform in tag for tag in PLATFORMS):
        parser.error(f"no platform has {options.platform!r} in its tag: {', '.join(PLATFORMS)}")
    build_all(options.to, options.platform)


if __name__ == "__main__":
    main()
