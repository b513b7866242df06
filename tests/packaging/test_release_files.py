"""The files of a release: a pure wheel from the sdist alone, and metadata for package indexes."""

import email
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
    (wheel,) = tree.parent.glob("*-py3-none-any.whl")
    return wheel


@pytest.fixture(scope="module")
def metadata(pure_wheel: Path) -> Message:
    with zipfile.ZipFile(pure_wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def test_the_wheel_is_pure_python(pure_wheel: Path):
    with zipfile.ZipFile(pure_wheel) as archive:
        names = archive.namelist()
    assert [name for name in names if name.endswith((".so", ".dll"))] == []
    assert "toolscout/search/recipe.py" in names


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
