"""Tools as typed Python stubs: what a model reads in code mode, and what programs are checked by.

`github__create_issue` is `await github.create_issue(title=…)` in a program. A name that two tools
would share, or an argument that is not an identifier, is left to `call_tool("name", {…})`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ..catalog.tool import Tool
from .python_types import ANY, TypeWriter, is_identifier, to_class_name, to_identifier

LOCAL_TOOLS = "tools"
"""The namespace of tools that belong to no server."""

# What a program may use by itself, so no server can be called that.
RESERVED_NAMES = frozenset({"call_tool", "search", "describe", "asyncio", "print", "json", "re"})
_IMPORTS = "from typing import Any, Literal, NotRequired, TypedDict, overload"
_NOTE_CHARS = 200


@dataclass(frozen=True, slots=True)
class ToolPath:
    """Where a program finds a tool: `github.create_issue`."""

    namespace: str
    method: str

    def __str__(self) -> str:
        return f"{self.namespace}.{self.method}"


def tool_path(tool: Tool) -> ToolPath | None:
    """The attribute form of a tool; None if its names leave nothing to write."""
    namespace = to_identifier(tool.server) if tool.server else LOCAL_TOOLS
    if namespace in RESERVED_NAMES:
        namespace = f"{namespace}_"
    method = to_identifier(tool.local_name)
    return ToolPath(namespace, method) if namespace and method else None


def unique_paths(tools: Iterable[Tool]) -> Mapping[ToolPath, str]:
    """The attribute forms that mean exactly one tool, with its name."""
    names: dict[ToolPath, list[str]] = defaultdict(list)
    for tool in tools:
        if (path := tool_path(tool)) is not None:
            names[path].append(tool.name)
    return {path: found[0] for path, found in names.items() if len(found) == 1}


WRAPPED = "result"
"""The key under which FastMCP returns a value that is not an object."""


def wraps_result(tool: Tool) -> bool:
    """Whether its values are wrapped because they are not objects; programs get them unwrapped."""
    output = tool.output.value if tool.output is not None else {}
    properties = output.get("properties")
    return bool(output.get("x-fastmcp-wrap-result")) and [*(properties or ())] == [WRAPPED]


@dataclass(frozen=True, slots=True)
class _Signature:
    """One tool as text: its parameters and its type of result.

    `parameters` is None if an argument is not an identifier; then there is only `call_tool`.
    """

    parameters: str | None
    arguments: str
    returns: str


def _signature(tool: Tool, classes: dict[str, str] | None = None) -> _Signature:
    """The signature; its classes are added to those of other tools, under names of their own."""
    classes = {} if classes is None else classes
    base = to_class_name(tool.server, tool.local_name)
    schema = tool.parameters.value
    writer = TypeWriter(schema, classes=classes)
    fields = schema.get("properties")
    properties = cast("dict[str, object]", fields) if isinstance(fields, dict) else {}
    required = schema.get("required")
    names = cast("list[object]", required) if isinstance(required, list) else []
    # Required ones first, as a reader expects; all are given by name.
    ordered = sorted(properties, key=lambda key: key not in names)
    parameters = None
    if all(map(is_identifier, ordered)) and "self" not in ordered:
        typed = {key: writer.write(properties[key], base + to_class_name(key)) for key in ordered}
        parts = [f"{k}: {t}" if k in names else f"{k}: {t} = ..." for k, t in typed.items()]
        parameters = f"self, *, {', '.join(parts)}" if parts else "self"
    arguments = writer.write(schema, f"{base}Arguments") if parameters is None else ""
    returns = ANY
    if tool.output is not None:
        output = tool.output.value
        shown: Any = output["properties"][WRAPPED] if wraps_result(tool) else output
        returns = TypeWriter(output, classes=classes).write(shown, f"{base}Result")
    return _Signature(parameters, arguments or "dict[str, Any]", returns)


def describe_stubs(tools: Sequence[Tool]) -> str:
    """The stubs of some tools for a model: signature, description, notes on arguments, result."""
    classes: dict[str, str] = {}
    methods: dict[str, list[str]] = defaultdict(list)
    paths = unique_paths(tools)
    for tool in tools:
        signature = _signature(tool, classes)
        path = tool_path(tool)
        if signature.parameters is None or path is None or paths.get(path) != tool.name:
            methods[""].append(_dispatched_stub(tool, signature))
        else:
            line = f"    async def {path.method}({signature.parameters}) -> {signature.returns}:"
            methods[path.namespace].append(f"{line}\n{_docstring(tool, indent=8)}")
    blocks = [*classes.values()]
    blocks += [f"class {name}:\n" + "\n".join(found) for name, found in methods.items() if name]
    return "\n".join((*blocks, *methods.get("", ())))


def _dispatched_stub(tool: Tool, signature: _Signature) -> str:
    call = f"# await call_tool({tool.name!a}, arguments: {signature.arguments})"
    return f"{call} -> {signature.returns}\n{_docstring(tool, indent=0)}"


def _docstring(tool: Tool, *, indent: int) -> str:
    notes = [
        f"{p.name}: {' '.join(p.description.split())[:_NOTE_CHARS]}"
        for p in tool.parameters.top_level()
        if p.description
    ]
    # A description is data: it must not end the docstring that it stands in.
    text = "\n".join((tool.description.strip(), *notes)).replace("\\", "\\\\").replace('"""', "'''")
    lines = f'"""{text}"""'.splitlines()
    return "\n".join(f"{' ' * indent}{line}".rstrip() for line in lines)


def checker_stubs(tools: Iterable[Tool], paths: Mapping[ToolPath, str]) -> str:
    """The stubs that a program is checked by: only types, no text of any tool."""
    classes: dict[str, str] = {}
    methods: dict[str, list[str]] = defaultdict(list)
    overloads: list[str] = []
    for tool in tools:
        signature = _signature(tool, classes)
        path = tool_path(tool)
        if path is not None and paths.get(path) == tool.name and signature.parameters is not None:
            head = f"    async def {path.method}({signature.parameters})"
            methods[path.namespace].append(f"{head} -> {signature.returns}: ...")
        overloads.append(
            f"@overload\nasync def call_tool(name: Literal[{tool.name!a}], "
            f"arguments: dict[str, Any] = ...) -> {signature.returns}: ..."
        )
    blocks = [_IMPORTS, *classes.values()]
    for namespace, found in methods.items():
        body = "\n".join(found)
        blocks.append(f"class _Server_{namespace}:\n{body}\n{namespace}: _Server_{namespace}")
    general = "async def call_tool(name: str, arguments: dict[str, Any] = ...) -> Any: ..."
    # An overload needs a second one beside it.
    blocks += [*overloads, f"@overload\n{general}"] if overloads else [general]
    blocks += [
        "def search(query: str, limit: int = ...) -> list[dict[str, Any]]: ...",
        "def describe(name: str) -> str: ...",
    ]
    return "\n".join(blocks)


def prelude(paths: Mapping[ToolPath, str]) -> str:
    """The code that runs before a program: the namespaces, whose methods call the tools."""
    methods: dict[str, list[str]] = defaultdict(list)
    for path, name in paths.items():
        methods[path.namespace].append(
            f"    async def {path.method}(self, **arguments):\n"
            f"        return await call_tool({name!a}, arguments)"
        )
    blocks: list[str] = []
    for name, found in methods.items():
        blocks += [f"class _Server_{name}:", *found, f"{name} = _Server_{name}()"]
    return "\n".join(blocks)


def signature_of(tool: Tool) -> str:
    """The call of a tool in one line, for an error message."""
    signature, path = _signature(tool), tool_path(tool)
    if signature.parameters is None or path is None:
        return f"await call_tool({tool.name!a}, {signature.arguments}) -> {signature.returns}"
    inner = signature.parameters.removeprefix("self").removeprefix(", *, ")
    return f"await {path}({inner}) -> {signature.returns}"
