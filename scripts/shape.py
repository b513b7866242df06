"""The shape of the code in figures, compared with well-made libraries.

    python scripts/shape.py [--json] [--only-ours] [--participles]

Every figure is computed from the source alone, in the same way for every tree. The other
libraries are read from their wheels, which pip downloads into `.cache/shape`. The last figures,
the files that take part in a call, come from running Toolscout (see `traces.py`).
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import subprocess
import sys
import tokenize
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[1]
CACHE = PROJECT / ".cache" / "shape"
PEERS = {"httpx": "httpx", "starlette": "starlette", "pydantic-ai-slim": "pydantic_ai"}
FRAGMENT_LINES = 110
TRACES = ("CLI search", "tool_search", "MCP call", "agent step")

# A function is named by a participle when the first word of its name is one. Words that end in
# -ed or -ing and are nouns or plain verbs do not count; neither do names that read as claims.
_IRREGULAR_WORDS = """
begun borne bound broken brought built caught chosen done drawn driven fallen felt forgotten
found given gone grown heard held hidden kept known laid led left lent lost made meant met paid
said seen sent shown sold spelt spent spoken stood stuck taken thought thrown told torn
understood woken won worn written
"""
IRREGULAR = frozenset(_IRREGULAR_WORDS.split())
_NOT_PARTICIPLES_WORDS = """
bed breed bring ceiling embed embedding encoding everything exceed feed heading heed hundred
indeed king listing mapping need nothing padding ping proceed ranking red ring seed setting shed
speed spring string succeed swing thing warning
"""
NOT_PARTICIPLES = frozenset(_NOT_PARTICIPLES_WORDS.split())


@dataclass(frozen=True, slots=True)
class Shape:
    """The figures of one tree."""

    modules: int
    lines: int
    module_median: int
    module_p90: int
    module_max: int
    functions: int
    function_p90: int
    participle_share: float
    comment_share: float
    repeated_class_names: int
    fragments_with_one_importer: int
    modules_in_cycles: int


def is_participle(name: str) -> bool:
    """Whether a function's name begins with a participle."""
    words = [word for word in name.strip("_").split("_") if word]
    if not words or words[0] in NOT_PARTICIPLES:
        return False
    first = words[0]
    return first in IRREGULAR or (len(first) > 3 and first.endswith(("ed", "ing")))


def python_files(folder: Path) -> dict[str, Path]:
    """Every module of a package by its dotted name."""
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method; the names of dunder methods are fixed."""
    for node in ast.walk(tree):
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function and not node.name.startswith("__"):
            yield node


def import_targets(tree: ast.AST, package: str) -> Iterator[tuple[str, str]]:
    """What a module imports anywhere in its text: a module and perhaps a name in it."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from ((alias.name, "") for alias in node.names)
            case ast.ImportFrom():
                parts = package.split(".")
                base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
                module = ".".join(filter(None, [base, node.module]))
                yield from ((module, alias.name) for alias in node.names)
            case _:
                pass


def import_graph(files: dict[str, Path], trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Which modules of a package each of them imports; lazy and typing-only imports count."""
    edges: dict[str, set[str]] = {}
    for name, path in files.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        edges[name] = set()
        for module, inner in import_targets(trees[name], package):
            target = f"{module}.{inner}" if f"{module}.{inner}" in files else module
            if target in files and target != name:
                edges[name].add(target)
    return edges


def modules_in_cycles(edges: dict[str, set[str]]) -> set[str]:
    """Modules that can reach themselves by following imports."""

    def reaches_itself(start: str) -> bool:
        seen: set[str] = set()
        todo = list(edges[start])
        while todo:
            module = todo.pop()
            if module == start:
                return True
            if module not in seen:
                seen.add(module)
                todo += edges[module]
        return False

    return {module for module in edges if reaches_itself(module)}


def comment_lines(text: str) -> int:
    """Lines with a comment; those that only configure a tool do not count."""
    steering = ("# noqa", "# type:", "# pyright:", "# fmt:", "#!", "# pragma")
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [t for t in tokens if t.type == tokenize.COMMENT]
    return len({t.start[0] for t in comments if not t.string.startswith(steering)})


def percentile(values: Sequence[int], share: float) -> int:
    """The value that this share of the others does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def measure(folder: Path) -> Shape:
    """The figures of one package."""
    files = python_files(folder)
    texts = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    lengths = {name: len(text.splitlines()) for name, text in texts.items()}
    found = [node for tree in trees.values() for node in functions(tree)]
    sizes = [(node.end_lineno or node.lineno) - node.lineno + 1 for node in found]
    classes = Counter(
        node.name for t in trees.values() for node in ast.walk(t) if isinstance(node, ast.ClassDef)
    )
    edges = import_graph(files, trees)
    importers = Counter(target for targets in edges.values() for target in targets)
    fragments = [
        name
        for name, path in files.items()
        if lengths[name] < FRAGMENT_LINES and importers[name] == 1 and path.name != "__init__.py"
    ]
    comments = sum(comment_lines(text) for text in texts.values())
    lines = sum(lengths.values())
    return Shape(
        modules=len(files),
        lines=lines,
        module_median=percentile([*lengths.values()], 0.5),
        module_p90=percentile([*lengths.values()], 0.9),
        module_max=max(lengths.values()),
        functions=len(found),
        function_p90=percentile(sizes, 0.9),
        participle_share=sum(is_participle(node.name) for node in found) / len(found),
        comment_share=comments / lines,
        repeated_class_names=sum(count > 1 for count in classes.values()),
        fragments_with_one_importer=len(fragments),
        modules_in_cycles=len(modules_in_cycles(edges)),
    )


def fetch(distribution: str, package: str) -> Path:
    """The package of a distribution, unpacked from its wheel."""
    folder = CACHE / distribution
    if not folder.exists():
        wheels = CACHE / "wheels" / distribution
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d"]
        subprocess.run([*command, str(wheels), distribution], check=True)
        (wheel,) = wheels.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    return folder / package


def files_of_a_call(name: str) -> int:
    """How many files take part in one call, in a separate process."""
    script = Path(__file__).with_name("traces.py")
    done = subprocess.run(
        [sys.executable, str(script), name], capture_output=True, text=True, check=True
    )
    return len(json.loads(done.stdout))


def print_table(shapes: dict[str, Shape]) -> None:
    """One row per figure, one column per tree."""
    rows = {name: asdict(shape) for name, shape in shapes.items()}
    print(f"{'':30}" + "".join(f"{name:>18}" for name in rows))
    for figure in next(iter(rows.values())):
        values = [row[figure] for row in rows.values()]
        texts = [f"{v:.1%}" if isinstance(v, float) else f"{v:,}" for v in values]
        print(f"{figure.replace('_', ' '):30}" + "".join(f"{text:>18}" for text in texts))


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--json", action="store_true", help="print JSON")
    options.add_argument("--only-ours", action="store_true", help="leave the other libraries out")
    options.add_argument("--participles", action="store_true", help="list the names that count")
    asked = options.parse_args()
    ours = PROJECT / "src" / "toolscout"
    if asked.participles:
        for path in python_files(ours).values():
            for node in functions(ast.parse(path.read_text(encoding="utf-8"))):
                if is_participle(node.name):
                    print(f"{path.relative_to(PROJECT)}:{node.lineno} {node.name}")
        return
    shapes = {"toolscout": measure(ours)}
    if not asked.only_ours:
        shapes |= {name: measure(fetch(name, package)) for name, package in PEERS.items()}
    traces = {name: files_of_a_call(name) for name in TRACES}
    if asked.json:
        rows = {name: asdict(shape) for name, shape in shapes.items()}
        print(json.dumps({"shapes": rows, "files_of_a_call": traces}, indent=2))
        return
    print_table(shapes)
    print()
    for name, count in traces.items():
        print(f"{'files of one ' + name:30}{count:>18}")


if __name__ == "__main__":
    main()
