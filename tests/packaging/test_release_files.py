"""The files of a release: a pure wheel from the sdist alone, and metadata for package indexes."""

import email
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from scripts.dist import check_purity

PROJECT = Path(__file__).parents[2]
REPOSITORY = "https://github.com/toolscout/toolscout"
TABLE = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def build(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", *options],
        capture_output=True, text=True, check=False, env={**os.environ, **environment},
    )  # fmt: skip


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, unpacked: all that a package index has."""
    folder = tmp_path_factory.mktemp("sdist")
    done = build("--sdist", "--outdir", str(folder), str(PROJECT))
    assert done.returncode == 0, done.stderr
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = (path for path in folder.iterdir() if path.is_dir())
    return unpacked


@pytest.fixture(scope="module")
def pure_wheel(tree: Path) -> Path:
    done = build("--wheel", "--outdir", str(tree.parent), str(tree))
    assert done.returncode == 0, done.stderr
    (wheel,) = tree.parent.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def metadata(pure_wheel: Path) -> Message:
    with zipfile.ZipFile(pure_wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def test_the_wheel_is_pure_python(pure_wheel: Path):
    with zipfile.ZipFile(pure_wheel) as archive:
        names = archive.namelist()
        (facts,) = (archive.read(n).decode() for n in names if n.endswith(".dist-info/WHEEL"))
    assert pure_wheel.name == f"toolscout-{TABLE['version']}-py3-none-any.whl"
    assert "Root-Is-Purelib: true" in facts
    assert re.findall("^Tag: (.*)$", facts, re.MULTILINE) == ["py3-none-any"]
    plain = (
        ".py",
        ".typed",
        ".md",
        ".jsonl",
        ".json",
        ".toml",
        ".yaml",
        ".yml",
        ".txt",
        ".html",
        ".js",
        ".css",
        ".svg",
        ".LICENSE",
        "LICENSE",
    )
    package = [name for name in names if name.startswith("toolscout/")]
    assert [name for name in package if not name.endswith(plain)] == []
    assert "toolscout/search/recipe.py" in names
    check_purity(pure_wheel)


@pytest.mark.parametrize(
    ("name", "member"),
    [
        ("toolscout-1-py3-none-any.whl", "toolscout/loops.so"),
        ("toolscout-1-py3-none-linux_x86_64.whl", "toolscout/loops.py"),
    ],
)
def test_a_release_refuses_a_wheel_of_one_system(tmp_path: Path, name: str, member: str):
    with zipfile.ZipFile(tmp_path / name, "w") as archive:
        archive.writestr(member, "")
    with pytest.raises(SystemExit, match="not a pure wheel"):
        check_purity(tmp_path / name)


@pytest.mark.slow
def test_pip_installs_the_wheel_into_an_empty_environment_and_the_command_runs(
    pure_wheel: Path, tmp_path: Path
):
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    programs = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    pip = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    pins = ["--constraint", str(PROJECT / "requirements.txt")]
    done = subprocess.run(
        [*pip, *pins, str(pure_wheel)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    home = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TOOLSCOUT"))}
    home["TOOLSCOUT_HOME"] = str(tmp_path / "home")
    done = subprocess.run(
        [str(programs / "toolscout"), "search", "send an email", "--json"],
        capture_output=True, text=True, check=False, env=home, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["hits"][0]["name"] == "send_email"


def test_the_page_of_a_package_index_has_no_relative_link(metadata: Message):
    page = metadata.get_payload()
    assert isinstance(page, str)
    targets = LINK.findall(page)
    assert len(targets) > 10
    assert [t for t in targets if not urlsplit(t).scheme and not t.startswith("#")] == []


def test_every_link_into_the_repository_names_a_file_of_this_version(metadata: Message):
    page = metadata.get_payload()
    assert isinstance(page, str)
    base = f"{REPOSITORY}/blob/v{TABLE['version']}/"
    raw = f"https://raw.githubusercontent.com/toolscout/toolscout/v{TABLE['version']}/"
    paths = re.findall(f"(?:{re.escape(base)}|{re.escape(raw)})([^)#\\s\"']+)", page)
    assert paths
    assert [path for path in paths if not (PROJECT / path).exists()] == []


def test_the_metadata_names_the_project_and_the_versions_of_python(metadata: Message):
    assert metadata["Description-Content-Type"] == "text/markdown"
    urls = dict(entry.split(", ", 1) for entry in metadata.get_all("Project-URL", []))
    assert urls["Repository"] == REPOSITORY
    assert {"Homepage", "Documentation", "Changelog", "Issues"} <= urls.keys()
    assert [url for url in urls.values() if not url.startswith("https://")] == []
    said = metadata.get_all("Classifier", [])
    assert [
        v for v in (11, 12, 13, 14) if f"Programming Language :: Python :: 3.{v}" not in said
    ] == []


def rewrite(text: str, folder: Path) -> str:
    """`absolute_links` of the build hook, run where hatchling is installed."""
    program = (
        "import sys; from hatch_build import absolute_links;"
        " sys.stdout.write(absolute_links(sys.stdin.read(), 'https://github.com/o/n', 'v1'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=text, capture_output=True, text=True, check=True,
        cwd=folder,
    )  # fmt: skip
    return done.stdout


PAGES = "https://github.com/o/n/blob/v1/"
FILES = "https://raw.githubusercontent.com/o/n/v1/"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[a](docs/a.md#b)", f"[a]({PAGES}docs/a.md#b)"),
        ("[a](./LICENSE)", f"[a]({PAGES}LICENSE)"),
        ("![a](docs/run.svg)", f"![a]({FILES}docs/run.svg)"),
        ('<img width="9" src="docs/run.svg">', f'<img width="9" src="{FILES}docs/run.svg">'),
        ("[a]: docs/a.md", f"[a]: {PAGES}docs/a.md"),
        ("[a](#here)", "[a](#here)"),
        ("[a](https://example.com/x)", "[a](https://example.com/x)"),
        ("[a](mailto:a@example.com)", "[a](mailto:a@example.com)"),
        ("```python\nf[0](x)\n```", "```python\nf[0](x)\n```"),
    ],
)
def test_a_link_is_made_absolute_and_code_stays(before: str, after: str):
    assert rewrite(before, PROJECT) == after
