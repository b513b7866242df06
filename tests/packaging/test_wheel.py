"""The wheel is whole: what it installs works without the tree it was built from."""

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from scripts.smoke import CHECKS

PROJECT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]
DATA = [
    "toolscout/py.typed",
    "toolscout/examples/tools.jsonl",
    "toolscout/examples/cms/demo.py",
    "toolscout/examples/cms/rules/images.md",
]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    done = subprocess.run([*command, str(PROJECT)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel laid out as pip would, in a folder of its own."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run(installed: Path, *arguments: str) -> str:
    """Run Python with the wheel and the packages it needs, and without the tree."""
    packages = Path(metadata.distribution("numpy").locate_file(""))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (installed, packages)))}
    done = subprocess.run(
        [sys.executable, "-S", *arguments],  # -S: what points to the tree is not read
        capture_output=True, text=True, check=False, env=environment, cwd=installed,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_has_the_package_its_data_and_nothing_else(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert [name for name in DATA if name not in names] == []
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"toolscout", next(t for t in tops if t.endswith(".dist-info"))}
    assert not any("__pycache__" in name or "/tests/" in name for name in names)


@pytest.mark.slow
def test_the_installed_package_searches_counts_and_plays_its_demo(installed: Path):
    where = run(installed, "-c", "import toolscout; print(toolscout.__file__)")
    assert where.startswith(str(installed))
    command = ("-m", "toolscout.cli")
    found = json.loads(run(installed, *command, "search", "send_email", "--embedder", "none",
                           "--json"))  # fmt: skip
    assert found["hits"]
    assert json.loads(run(installed, *command, "tokens", "--json"))["profiles"]["default"]
    demo = json.loads(run(installed, *command, "demo", "--json"))
    assert demo["questions"][0]["found"] == "send_email"
    cms = json.loads(run(installed, *command, "demo", "--profile", "cms", "--json"))
    assert len(cms["conversations"]) == 3


def test_the_wheel_says_what_it_needs(installed: Path):
    (text,) = installed.glob("*.dist-info/METADATA")
    said = text.read_text(encoding="utf-8")
    assert "License-Expression: Apache-2.0" in said
    assert "Requires-Dist: numpy" in said
    for extra in EXTRAS:
        assert f"Provides-Extra: {extra}" in said
    (points,) = installed.glob("*.dist-info/entry_points.txt")
    assert "toolscout = toolscout.cli:main" in points.read_text(encoding="utf-8")


def test_every_extra_is_tried_alone_and_listed_with_its_size():
    assert [*CHECKS] == ["base", *EXTRAS]
    page = (PROJECT / "docs" / "installation.md").read_text(encoding="utf-8")
    sizes = re.findall(r"^\| `toolscout(?:\[(\w+)\])?` \| \d+ \| \d+ \|$", page, re.MULTILINE)
    assert sizes == ["", *EXTRAS]
    assert [extra for extra in EXTRAS if f"`{extra}`" not in page] == []
