"""Imports point down: never up, never sideways, never round, whether lazy, typing-only or plain."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
ROOT = "toolscout"

# From the ground up; those on one line are strangers to one another.
LAYERS = [
    ["errors"],
    ["folders", "program", "toml_edit"],
    ["events", "config", "tokens"],
    ["catalog", "store"],
    ["embedders"],
    ["search", "sources"],
    ["disclosure"],
    ["learning"],
    ["models", "guidance", "memory", "offload", "code_mode", "telemetry"],
    ["journal"],
    ["toolbox"],
    ["agent"],
    ["gateway", "evals", "examples"],
    ["console"],
    ["cli"],
    ["__main__"],
]
HEIGHT = {part: height for height, parts in enumerate(LAYERS) for part in parts}

Graph = dict[str, set[str]]


def modules(source: Path) -> dict[str, Path]:
    found = {}
    for path in sorted((source / ROOT).rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def targets(node: ast.AST, package: str) -> Iterator[tuple[str, str]]:
    """What a statement imports, as a module and perhaps a name in it."""
    match node:
        case ast.Import():
            yield from ((alias.name, "") for alias in node.names)
        case ast.ImportFrom():
            parts = package.split(".")
            base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            yield from ((module, alias.name) for alias in node.names)
        case ast.Call(
            func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            dots = len(name) - len(name.lstrip("."))
            parts = package.split(".")
            base = ".".join(parts[: len(parts) - dots + 1]) if dots else ""
            yield ".".join(filter(None, [base, name.lstrip(".")])), ""
        case _:
            pass


def graph(source: Path) -> Graph:
    """Every module of ours, with those that it imports anywhere in its text."""
    paths = modules(source)
    edges: Graph = {}
    for name, path in paths.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        edges[name] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for module, inner in targets(node, package):
                target = f"{module}.{inner}" if f"{module}.{inner}" in paths else module
                if target in paths and target != name:
                    edges[name].add(target)
    return edges


def part(module: str) -> str:
    return module.partition(".")[2].partition(".")[0]


def unplaced(edges: Graph) -> set[str]:
    return {part(m) for m in edges if part(m)} - HEIGHT.keys()


def faults(edges: Graph) -> list[str]:
    """Every import that does not point down; the package itself is a façade that none may use."""
    found = []
    for module, imported in sorted(edges.items()):
        for target in sorted(imported):
            mine, theirs = part(module), part(target)
            if not mine or mine == theirs or mine not in HEIGHT:
                continue
            if not theirs:
                found.append(f"{module} imports the façade")
            elif theirs in HEIGHT and HEIGHT[theirs] >= HEIGHT[mine]:
                way = "up" if HEIGHT[theirs] > HEIGHT[mine] else "sideways"
                found.append(f"{module} imports {way}: {target}")
    return found


def cycles(edges: Graph) -> list[list[str]]:
    """Groups of modules that import one another, by whatever way round."""
    reached = {m: reach(edges, m) for m in edges}
    found, seen = [], set[str]()
    for module in sorted(edges):
        if module in reached[module] and module not in seen:
            group = sorted(m for m in reached[module] if module in reached[m])
            seen.update(group)
            found.append(group)
    return found


def reach(edges: Graph, start: str) -> set[str]:
    seen: set[str] = set()
    todo = list(edges[start])
    while todo:
        module = todo.pop()
        if module not in seen:
            seen.add(module)
            todo += edges[module]
    return seen


def tree(folder: Path, **texts: str) -> Path:
    """A made-up package; `__` in a name stands for a folder."""
    for name, text in {"__init__": "", **texts}.items():
        path = folder / ROOT / f"{name.replace('__', '/') if name != '__init__' else name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_every_part_has_its_place_in_the_layers():
    assert unplaced(graph(SOURCE)) == set()


def test_imports_point_down():
    assert faults(graph(SOURCE)) == []


def test_no_modules_import_one_another_in_a_circle():
    assert cycles(graph(SOURCE)) == []


@pytest.mark.parametrize(
    "text",
    [
        "from ..search.engine import Engine",
        "from ..search import engine",
        "import toolscout.search.engine",
        "from toolscout.search.engine import Engine",
        "def late():\n    from ..search.engine import Engine",
        "import typing\nif typing.TYPE_CHECKING:\n    from ..search.engine import Engine",
        "from importlib import import_module\nimport_module('..search.engine', __package__)",
        "import importlib\nimportlib.import_module('toolscout.search.engine')",
    ],
)
def test_an_import_that_points_up_is_seen_in_every_form(text, tmp_path):
    source = tree(tmp_path, catalog__tool=text, search__engine="class Engine: ...")
    assert faults(graph(source)) == ["toolscout.catalog.tool imports up: toolscout.search.engine"]


def test_packages_without_a_layer_and_imports_of_the_facade_are_faults(tmp_path):
    source = tree(
        tmp_path,
        memory__notes="from ..guidance.rules import rule\nfrom .. import Toolbox",
        guidance__rules="rule = 1",
        odd__thing="",
    )
    edges = graph(source)
    assert faults(edges) == [
        "toolscout.memory.notes imports the façade",
        "toolscout.memory.notes imports sideways: toolscout.guidance.rules",
    ]
    assert unplaced(edges) == {"odd"}


def test_a_circle_is_seen_even_inside_one_part_and_through_lazy_imports(tmp_path):
    source = tree(
        tmp_path,
        catalog__a="from .b import x",
        catalog__b="def late():\n    from . import c",
        catalog__c="from .a import y",
        catalog__d="from .a import y",
    )
    names = ["toolscout.catalog.a", "toolscout.catalog.b", "toolscout.catalog.c"]
    assert cycles(graph(source)) == [names]


def test_importing_the_package_brings_nothing_but_itself_and_the_standard_library():
    code = (
        "import sys; before = {*sys.modules}\n"
        "import toolscout; dir(toolscout)\n"
        "came = {name.partition('.')[0] for name in {*sys.modules} - before}\n"
        "print(sorted(came - sys.stdlib_module_names))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['toolscout']"


def test_every_public_name_is_there_and_no_other():
    code = (
        "import toolscout\n"
        "assert set(toolscout.__all__) <= set(dir(toolscout))\n"
        "assert all(getattr(toolscout, name) is not None for name in toolscout.__all__)\n"
        "try:\n    toolscout.Nothing\nexcept AttributeError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "no attribute 'Nothing'" in done.stdout
