"""The documentation runs, says what the code says, and leaves nothing out."""

import ast
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from scripts.pages import PAGES as WRITTEN
from scripts.pages import PIECE, written

from toolscout.cli.app import COMMANDS, app
from toolscout.config import Config
from toolscout.events import KINDS

PROJECT = Path(__file__).parents[2]
SOURCE = PROJECT / "src" / "toolscout"
DOCS = PROJECT / "docs"
PAGES = [*sorted(PROJECT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")
SHELL = re.compile(r"^(?:\$ |    )(toolscout .*)$", re.MULTILINE)
TELLS = {"Event", "emit", "_emit", "tell", "_tell", "note"}


def examples() -> list[object]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            name = page.relative_to(PROJECT).as_posix()
            found.append(pytest.param(page, line, match[1], id=f"{name}:{line}"))
    return found


@pytest.mark.parametrize(("page", "line", "code"), examples())
def test_an_example_runs(page: Path, line: int, code: str, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    padded = "\n" * line + code  # so that a failure names the line of the page
    exec(compile(padded, str(page), "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_what_is_written_from_the_code_is_as_the_code_has_it_now(page: Path):
    text = page.read_text(encoding="utf-8")
    assert PIECE.search(text)
    assert text == written(text), "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_links_lead_somewhere(page: Path):
    text = page.read_text(encoding="utf-8")
    gone = [target for target, _ in LINK.findall(text) if not (page.parent / target).exists()]
    assert gone == []


def calls(*names: str) -> Iterator[ast.Call]:
    """Every call of a function of one of these names in the source."""
    for path in SOURCE.rglob("*.py"):
        if path.parent.name == "cli":  # it prints, and tells no events
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name in names:
                    yield node


def texts(node: ast.AST) -> Iterator[str]:
    """The texts that an expression may give, without those it only compares with."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp():
            yield from (*texts(node.body), *texts(node.orelse))
        case _:
            pass


def test_every_event_has_an_entry():
    kinds = {t for call in calls(*TELLS) for a in call.args[:1] for t in texts(a)}
    kinds = {k for k in kinds if re.fullmatch(r"[a-z]+(_[a-z]+)*", k)}
    assert len(kinds) > 20
    page = (DOCS / "events.md").read_text(encoding="utf-8")
    assert [k for k in sorted({*kinds, *KINDS}) if f"| `{k}` |" not in page] == []
    listed = set(re.findall(r"^\| `([a-z_]+)` \|", page, re.MULTILINE))
    assert listed - kinds - {*KINDS} == set()


def test_every_error_code_has_an_entry():
    module = ast.parse((SOURCE / "errors.py").read_text(encoding="utf-8"))
    classes = {
        cls.name: text
        for cls in module.body
        if isinstance(cls, ast.ClassDef)
        for node in cls.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and "code" in ast.unparse(node)
        for text in texts(node.value or node)
    }
    page = (DOCS / "errors.md").read_text(encoding="utf-8")
    assert len(classes) > 15
    assert [c for n, c in classes.items() if f"| `{c}` | `{n}` |" not in page] == []
    used = {t for c in calls("error", "Result") for k in c.keywords if k.arg == "code"
            for t in texts(k.value)}  # fmt: skip
    assert "timeout" in used
    assert [code for code in sorted(used) if f"| `{code}` |" not in page] == []


def test_every_kind_of_problem_has_an_entry():
    given = {t for c in calls("Problem") for k in c.keywords if k.arg == "code"
             for t in texts(k.value)}  # fmt: skip
    given |= {t for c in calls("Problem") for a in c.args[4:5] for t in texts(a)}
    told = {t for c in calls("_error", "_warn", "_problem") for a in c.args[1:2]
            for t in texts(a)}  # fmt: skip
    page = (DOCS / "errors.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \| (?:error|warning)", page, re.MULTILINE)
    assert given | told | {"schema"} == {*listed}  # whose severity is decided where it is told


def test_every_setting_has_an_entry():
    page = (DOCS / "settings.md").read_text(encoding="utf-8")
    for name in Config.model_fields:
        assert f"| `{name}` | `TOOLSCOUT_{name.upper()}` |" in page


def test_every_command_is_explained():
    page = (DOCS / "command-line.md").read_text(encoding="utf-8")
    reference = (DOCS / "reference" / "commands.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"## toolscout {name}" in page, name
        assert f"## toolscout {name}\n" in reference


def shown_commands() -> list[object]:
    found = {}
    for page in PAGES:
        for line in SHELL.findall(page.read_text(encoding="utf-8")):
            found.setdefault(line, page.name)
    return [pytest.param(line, id=f"{name}: {line[:60]}") for line, name in found.items()]


@pytest.mark.parametrize("line", shown_commands())
def test_a_command_that_a_page_shows_is_one_that_is_understood(line: str):
    words = shlex.split(line, comments=True)[1:]
    command: click.Command = app
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        inner = command.get_command(click.Context(command), words[0])
        assert inner is not None, words[0]
        command, words = inner, words[1:]
    command.make_parser(click.Context(command)).parse_args(words)


def test_every_page_is_in_the_navigation_and_has_a_title():
    listed = re.findall(r"[\w/-]+\.md", (PROJECT / "mkdocs.yml").read_text(encoding="utf-8"))
    there = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert there - set(listed) == set()
    assert all(page.read_text(encoding="utf-8").startswith("# ") for page in PAGES)


def test_the_site_can_be_built(tmp_path: Path):
    done = subprocess.run(  # not quietly: then links to anchors that are not there would pass
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=PROJECT, capture_output=True, text=True, check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3_000:]
    made = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "Toolscout" in made
    reference = (tmp_path / "site" / "reference" / "library" / "index.html").read_text("utf-8")
    assert "toolscout.toolbox.box.Toolbox.session" in reference


def test_the_navigation_is_yaml_that_anybody_can_read():
    class Loader(yaml.SafeLoader):
        """Tags of MkDocs are passed over."""

    Loader.add_multi_constructor("tag:", lambda *_: None)
    Loader.add_multi_constructor("!", lambda *_: None)
    nav = yaml.load((PROJECT / "mkdocs.yml").read_text(encoding="utf-8"), Loader)["nav"]
    assert nav[0] == {"Toolscout": "index.md"}
