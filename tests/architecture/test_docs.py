"""The documentation runs, says what the code says, and leaves nothing out."""

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click
import pytest
import yaml
from scripts.pages import PAGES as WRITTEN
from scripts.pages import PIECE, written
from tests.wire.aside import aside
from tests.wire.turns import Say

from toolscout.agent.stream_events import STREAM_EVENTS
from toolscout.cli.app import COMMANDS, app
from toolscout.config import Config
from toolscout.events import (
    KINDS,
    DiscoveryResultEvent,
    Event,
    LearningFailureEvent,
    RankerTimeEvent,
    ShadowRankEvent,
    ToolCallEvent,
    ToolHeldEvent,
    ToolRefusedEvent,
    UpstreamReadyEvent,
)
from toolscout.gateway.gateway import Gateway
from toolscout.gateway.imports.clients import CLIENTS, ClientApp, is_gateway, read_entries
from toolscout.gateway.limits.limit_settings import LimitSettings
from toolscout.gateway.operations import health as status
from toolscout.gateway.settings import (
    JWT,
    AccessPolicy,
    APISpec,
    Auth,
    GatewayOptions,
    GatewaySettings,
)
from toolscout.gateway.setup import Setup
from toolscout.sources.mcp.server_config import read_server_config
from toolscout.sources.mcp.servers import Server, ServerLimits
from toolscout.telemetry.otlp_settings import TelemetrySettings

PROJECT = Path(__file__).parents[2]
SOURCE = PROJECT / "src" / "toolscout"
DOCS = PROJECT / "docs"
PAGES = [*sorted(PROJECT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DATA = re.compile(r"^```(json|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CLIENT_DATA = re.compile(r"^```(json|toml|yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)")
SERVERS = ("mcpServers", "servers", "mcp_servers")
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")
SHELL = re.compile(r"^(?:\$ |    )(toolscout .*)$", re.MULTILINE)


def examples() -> list[object]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            name = page.relative_to(PROJECT).as_posix()
            found.append(pytest.param(page, line, match[1], id=f"{name}:{line}"))
    return found


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Model services within reach of examples that talk to one."""
    mail = ("send_email", '{"to": "Ann", "subject": "Invoice"}')
    with aside(Say(calls=(mail,)), Say("The invoice is on its way.")) as wire:
        for name, path in (("ANTHROPIC", ""), ("OPENAI", "/v1")):
            monkeypatch.setenv(f"{name}_API_KEY", "key-of-the-test")
            monkeypatch.setenv(f"{name}_BASE_URL", wire.url + path)
        yield


@pytest.mark.parametrize(("page", "line", "code"), examples())
def test_an_example_runs(page: Path, line: int, code: str, tmp_path, monkeypatch, request):
    if re.search(r"(AsyncAnthropic|AsyncOpenAI)\(\)", code):
        request.getfixturevalue("services")
    monkeypatch.chdir(tmp_path)
    padded = "\n" * line + code  # so that a failure names the line of the page
    exec(compile(padded, str(page), "exec"), {"__name__": "__main__"})


def data(*pages: Path) -> list[object]:
    found = []
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for match in DATA.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            name = page.relative_to(PROJECT).as_posix()
            found.append(pytest.param(match[1], match[2], id=f"{name}:{line}"))
    return found


def parsed(kind: str, text: str) -> dict[str, object]:
    if kind == "toml":
        return tomllib.loads(text)
    try:
        return json.loads(text)
    except ValueError:  # or a record a line
        return {"records": [json.loads(line) for line in text.splitlines()]}


def named(text: str) -> dict[str, str]:
    """A value for every variable that a configuration asks for."""
    return {name: f"value-of-{name.lower()}" for name in VARIABLE.findall(text)}


GENERAL = [page for page in PAGES if page.parent.name != "clients" or page.stem == "other"]


@pytest.mark.parametrize(("kind", "text"), data(*GENERAL))
def test_a_configuration_that_a_page_shows_is_read_without_a_complaint(
    kind: str, text: str, tmp_path: Path
):
    found = parsed(kind, text)
    tables = {*SERVERS, *GatewaySettings.model_fields, "settings"} & set(found)
    if not tables:  # a record, shown as JSON
        return
    path = tmp_path / f"config.{kind}"
    path.write_text(text, encoding="utf-8")
    if not tables & set(SERVERS):  # the rest of some configuration
        path.write_text(f"{text}\n[servers]\n", encoding="utf-8")
    setup = Setup.read(path, variables=named(text))
    assert setup.problems == ()
    assert setup.document.warnings == ()
    assert set(setup.document.rest) <= {*GatewaySettings.model_fields, "settings"}
    assert setup.profile
    assert len(setup.apis) == len(setup.settings.openapi)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_the_page_of_a_client_agrees_with_what_is_imported_from_it(
    client: ClientApp, tmp_path: Path
):
    page = DOCS / "clients" / f"{client.name}.md"
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# {client.title}\n")
    assert [place for place in client.places if f"`{place}`" not in text] == []
    assert f"$ toolscout import {client.name} " in text
    blocks = CLIENT_DATA.findall(text)
    assert {kind for kind, _ in blocks} == {client.kind}
    ways = []
    for kind, block in blocks:
        path = tmp_path / f"theirs.{kind}"
        path.write_text(block, encoding="utf-8")
        found = read_entries(client, path, home=tmp_path, folder=tmp_path)
        imported = {server.name: server.entry for server in found}
        ways.append(is_gateway(imported["toolscout"], name="toolscout"))
        ours = tmp_path / "mcp.json"
        ours.write_text(json.dumps({"mcpServers": imported}), encoding="utf-8")
        read_back = read_server_config(ours, variables=named(ours.read_text(encoding="utf-8")))
        assert [server.problem for server in read_back.servers] == [""]
        assert read_back.warnings == ()
    assert ways == [True, True]  # over stdio, then over HTTP


def test_every_key_of_the_configuration_has_an_entry_and_is_shown_in_use(tmp_path: Path):
    page = (DOCS / "gateway.md").read_text(encoding="utf-8")
    whole = next(text for kind, text in DATA.findall(page) if kind == "toml")
    path = tmp_path / "gateway.toml"
    path.write_text(whole, encoding="utf-8")
    setup = Setup.read(path, variables=named(whole))
    plain, used = Server("x"), set[str]()
    for server in setup.document.servers:
        used |= {
            f.name for f in fields(Server) if getattr(server, f.name) != getattr(plain, f.name)
        }
    assert {f.name for f in fields(Server)} - used == {"problem"}
    limits = [s.limits for s in setup.document.servers]
    usual = ServerLimits()
    unused = {f.name for f in fields(ServerLimits)
              if all(getattr(x, f.name) == getattr(usual, f.name) for x in limits)}  # fmt: skip
    assert unused == set()
    settings = setup.settings
    assert set(GatewayOptions.model_fields) == settings.gateway.model_fields_set
    assert set(APISpec.model_fields) == settings.openapi["shop"].model_fields_set
    assert set(LimitSettings.model_fields) == settings.limits.model_fields_set
    assert set(TelemetrySettings.model_fields) == settings.telemetry.model_fields_set
    telemetry = (DOCS / "telemetry.md").read_text(encoding="utf-8")
    assert [k for k in TelemetrySettings.model_fields if f"| `{k}` |" not in telemetry] == []
    shown = set[str]().union(*(p.model_fields_set for p in settings.policies.values()))
    assert set(AccessPolicy.model_fields) == shown
    keys = [*GatewayOptions.model_fields, *AccessPolicy.model_fields, *Auth.model_fields]
    keys += [*LimitSettings.model_fields, *(f.name for f in fields(ServerLimits))]
    assert [key for key in keys if f"| `{key}` |" not in page] == []
    assert [
        key for key in (*JWT.model_fields, *APISpec.model_fields) if f"`{key}`" not in page
    ] == []


def test_every_figure_of_the_gateway_has_an_entry(tmp_path: Path):
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": {"one": {"command": "x"}}}', encoding="utf-8")
    config = Config.read(home=str(tmp_path / "home"), embedder="none")
    gateway = Gateway(Setup.read(path, config=config))
    for event in (
        ToolCallEvent(tool="x", server="one"),
        DiscoveryResultEvent(tool="tool_search"),
        RankerTimeEvent(arm="bm25f", took_ms=1.0),
        ToolRefusedEvent(tool="x"),
        ToolHeldEvent(server="one", tool="x", standing="new"),
        UpstreamReadyEvent(server="one"),
        ShadowRankEvent(tool="x", base=2, learned=1),
        LearningFailureEvent(why="x"),
    ):
        gateway.operations.metrics(event)
    figures = re.findall(r"^# TYPE (\w+) ", status.render_metrics(gateway), re.MULTILINE)
    page = (DOCS / "gateway.md").read_text(encoding="utf-8")
    assert figures
    assert set(re.findall(r"^\| `(toolscout_\w+)` \|", page, re.MULTILINE)) == set(figures)


def test_every_promise_names_the_tests_that_hold_it():
    page = (DOCS / "security.md").read_text(encoding="utf-8")
    promised = page.split("## What is promised")[1].split("\n## ")[0]
    rows = [row for row in promised.splitlines() if row.startswith("| ")][1:]
    assert len(rows) > 10
    for row in rows:
        files = re.findall(r"`(tests/[\w/]+\.py)`", row)
        assert files, row
        assert [file for file in files if not (PROJECT / file).is_file()] == []


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_generated_pages_match_the_code(page: Path):
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


def descendants(cls: type[Event]) -> Iterator[type[Event]]:
    """The classes below a class that Toolscout itself defines."""
    for inner in cls.__subclasses__():
        if inner.__module__.startswith("toolscout."):
            yield inner
        yield from descendants(inner)


def test_every_event_has_an_entry():
    page = (DOCS / "events.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([a-z_]+)` \| `(\w+Event)` \|", page, re.MULTILINE)
    assert len(listed) == len({*listed})
    known = {*KINDS.values(), *STREAM_EVENTS}
    assert {*listed} == {(cls.kind, cls.__name__) for cls in known}
    # By name, since `slots` makes every class a second time. One without a kind is only a base.
    names = {cls.__name__ for cls in descendants(Event) if cls.kind}
    assert names == {cls.__name__ for cls in known}


def test_every_event_is_emitted_somewhere():
    names = {cls.__name__ for cls in KINDS.values()}
    built = {getattr(call.func, "id", "") for call in calls(*names)}
    assert names - built == set()


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
    told = {t for c in calls("_add_error", "_add_warning", "_warning") for a in c.args[1:2]
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


@pytest.mark.slow
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
    assert "toolscout.toolbox.toolbox.Toolbox.session" in reference


def test_the_navigation_is_yaml_that_anybody_can_read():
    class Loader(yaml.SafeLoader):
        """Tags of MkDocs are passed over."""

    Loader.add_multi_constructor("tag:", lambda *_: None)
    Loader.add_multi_constructor("!", lambda *_: None)
    nav = yaml.load((PROJECT / "mkdocs.yml").read_text(encoding="utf-8"), Loader)["nav"]
    assert nav[0] == {"Toolscout": "index.md"}
