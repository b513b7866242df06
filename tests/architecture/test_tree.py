"""The tree is one that a stranger can carry on: complete, named plainly, tied to no machine."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
SOURCE = PROJECT / "src" / "toolscout"
VAGUE = {"util", "utils", "helper", "helpers", "common", "core", "misc", "base"}
WORDS_FOR_NOTHING = re.compile(r"(Manager|Handler|Helper|Impl|Util|Utils)$")
SDKS = {"openai", "anthropic", "google", "mcp", "fastmcp"}
MAY_USE_SDKS = ("models/", "gateway/", "sources/mcp/")
PLACES = re.compile(r"(?<![\w.])/(?:home|root|work|Users|opt)/[\w.-]+")


def tracked() -> list[Path]:
    """Every file of the project as git has it, or as it lies there where git has nothing to say."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    names = listed.stdout.split("\0")[:-1]
    assert names, listed.stderr
    return [path for name in names if (path := PROJECT / name).is_file()]


def imported(path: Path) -> set[str]:
    """The packages that a module imports anywhere in its text."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import():
                found |= {alias.name.partition(".")[0] for alias in node.names}
            case ast.ImportFrom(level=0, module=str(module)):
                found.add(module.partition(".")[0])
            case _:
                pass
    return found


@pytest.mark.behaviour("E6")
def test_every_module_has_its_line_in_the_index_of_modules():
    page = (PROJECT / "docs/reference/modules.md").read_text(encoding="utf-8")
    names = [p.relative_to(SOURCE).as_posix() for p in SOURCE.rglob("*.py")]
    lines = {n: n.removesuffix("/__init__.py") for n in names if n != "__init__.py"}
    assert [name for name, said in lines.items() if f"- `{said}`: " not in page] == []


def test_the_seams_of_the_architecture_are_those_of_the_code():
    page = (PROJECT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    seams = page.partition("## Seams")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \| `(.+?)` \|$", seams, re.MULTILINE)
    assert len(rows) > 7
    for _, written, place in rows:
        text = (SOURCE / place).read_text(encoding="utf-8")
        for name in re.findall(r"`(\w+)(?:\(\w*\))?`", written):
            assert re.search(rf"^\s*(?:(?:async )?def |class )?{name}\b", text, re.MULTILINE), name


WALKS = {
    "A search": "tool_search",
    "A turn of a session": "session turn",
    "An MCP call": "MCP call",
    "An agent step": "agent step",
}
# Named as an example or for a special case, which the traced call is not.
EXAMPLES_IN_WALKS = {"models/anthropic.py", "agent/stream_events.py", "search/operators.py"}


def walk_modules(title: str) -> list[str]:
    """The modules that a walk of the architecture names, with their folders."""
    page = (PROJECT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    walk = page.partition(f"**{title}**")[2].partition("\n**")[0]
    found = []
    for line in walk.splitlines():
        folder = ""
        for name in re.findall(r"`([a-z_/0-9]+(?:\.py|/))`", line):
            if "/" in name and (SOURCE / name).exists():
                folder = name.rpartition("/")[0]
                found += [name] if name.endswith(".py") else []
            else:  # beside the one before, or below the same package
                near = [f"{folder}/{name}", f"{folder.partition('/')[0]}/{name}"]
                found.append(next((n for n in near if (SOURCE / n).is_file()), name))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("title", WALKS)
def test_a_walk_of_the_architecture_names_modules_that_really_run(title: str):
    named = walk_modules(title)
    assert len(named) >= 5
    done = subprocess.run(
        [sys.executable, str(PROJECT / "scripts" / "traces.py"), WALKS[title]],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2_000:]
    ran = {*json.loads(done.stdout)}
    assert [name for name in named if name not in ran | EXAMPLES_IN_WALKS] == []
    assert [name for name in named if not (SOURCE / name).is_file()] == []


def test_names_say_what_a_thing_is():
    for path in SOURCE.rglob("*.py"):
        assert not VAGUE & {path.stem, path.parent.name}, path
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                assert not WORDS_FOR_NOTHING.search(node.name), f"{path.name}: {node.name}"


@pytest.mark.behaviour("B4")
def test_only_the_edges_know_the_software_of_a_provider():
    knowing = {p.relative_to(SOURCE).as_posix() for p in SOURCE.rglob("*.py") if SDKS & imported(p)}
    assert knowing
    assert {name for name in knowing if not name.startswith(MAY_USE_SDKS)} == set()


@pytest.mark.behaviour("A35")
def test_every_module_can_be_imported_by_itself():
    names = [
        ".".join(("toolscout", *p.relative_to(SOURCE).with_suffix("").parts))
        for p in sorted(SOURCE.rglob("*.py"))
        if p.stem not in ("__init__", "__main__") and p.name != "jq_worker.py"
    ]
    code = "import importlib\nfor name in {}: importlib.import_module(name)\nprint('all')"
    done = subprocess.run(
        [sys.executable, "-W", "error::SyntaxWarning", "-c", code.format(names)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "all", done.stderr[-2_000:]


@pytest.mark.behaviour("A35")
def test_one_command_checks_format_lint_types_and_tests_and_ci_runs_just_that():
    planned = subprocess.run(
        ["make", "--dry-run", "test"], cwd=PROJECT, capture_output=True, text=True, check=True
    ).stdout
    for step in ("ruff format --check", "ruff check", "pyright", "pytest"):
        assert step in planned
    assert "make test" in (PROJECT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_pages_that_a_newcomer_looks_for_are_there():
    for name in ("README", "ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", "SECURITY"):
        assert (PROJECT / f"{name}.md").read_text(encoding="utf-8").startswith("# ")
    assert "Apache License" in (PROJECT / "LICENSE").read_text(encoding="utf-8")


def test_packages_are_pinned_exactly_and_from_nowhere_in_particular():
    lines = (PROJECT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[\w.]+", line)] == []
    names = [re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines]
    assert len(set(names)) == len(names)
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(d for e in extras if e != "all" for d in extras[e])]
    asked = {re.sub(r"[-_.]+", "-", re.split(r"[\[<>=]", d)[0]).lower() for d in wanted}
    assert asked - set(names) == set()


def test_every_pinned_package_has_hashes_of_its_files():
    text = (PROJECT / "requirements-hashes.txt").read_text(encoding="utf-8")
    entries = re.findall(
        r"^([A-Za-z0-9._-]+)==([\w.]+)( ; [^\\\n]+)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$",
        text,
        re.MULTILINE,
    )
    # Nothing else is in the file: no address of a registry, no package without a hash.
    rest = "".join(f"{n}=={v}{marker}{hashes}\n" for n, v, marker, hashes in entries)
    assert text.partition("\n")[2] == rest

    def normal(name: str) -> str:
        return re.sub(r"[-_.]+", "-", name).lower()

    hashed = {normal(name): version for name, version, *_ in entries}
    lines = (PROJECT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pinned = {normal(name): version for name, _, version in (p.partition("==") for p in lines)}
    # After an edit of requirements.txt: make lock ARGS=--hashes
    assert {name: hashed.get(name) for name in pinned} == pinned
    only_elsewhere = {normal(name) for name, _, marker, _ in entries if marker}
    assert hashed.keys() - pinned.keys() == only_elsewhere
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    assert "--require-hashes -r requirements-hashes.txt" in makefile


def test_nothing_names_a_place_of_one_machine():
    found = {}
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        places = {m for m in PLACES.findall(text) if not _is_made_up(m)}
        if places:
            found[path.relative_to(PROJECT).as_posix()] = places
    assert found == {}


def _is_made_up(place: str) -> bool:
    """Whether a path is an example rather than somebody's folder."""
    return place.rpartition("/")[2] in {"ann", "bob", "me", "you", "user", "x", "toolscout"}
