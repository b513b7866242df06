"""Python functions as tools, described by their signatures and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Self, TypedDict, TypeVar, Unpack, cast, overload

from ..catalog.result import Result
from ..catalog.sanitization import JSONEncodeError, clean, clean_line, encode_json
from ..catalog.tool import DEFERRALS, RISKS, Annotations, Deferral, Extraction, Risk, Tool
from ..errors import CatalogError, SourceError
from .docstrings import Docstring, parse_docstring
from .function_runner import FunctionRunner
from .signatures import FunctionSignature, read_signature

F = TypeVar("F", bound=Callable[..., Any])
_OPTIONS_ATTRIBUTE = "__toolscout__"


class ToolOptions(TypedDict, total=False):
    """Options of `@tool` beyond signature and docstring."""

    name: str
    title: str
    description: str
    category: str
    phrases: Sequence[str] | str
    tags: Sequence[str] | str
    related: Sequence[str] | str
    usage: str
    skill: str
    risk: Risk
    requires_confirmation: bool
    defer: Deferral
    annotations: Annotations
    extraction: Extraction
    metadata: Mapping[str, Any]


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
def tool(function: F | None = None, /, **options: Unpack[ToolOptions]) -> F | Callable[[F], F]:
    """Mark a function as a tool; the function itself is unchanged.

    Everything has a default: the name is the function's, the description its docstring, the schema
    comes from its type hints, and the parameter descriptions from the docstring.
    """
    fields = _validate_options(cast("dict[str, Any]", options))

    def mark(marked: F) -> F:
        setattr(marked, _OPTIONS_ATTRIBUTE, fields)
        return marked

    return mark if function is None else mark(function)


def tool_of(function: Callable[..., Any]) -> Tool:
    """Describe a function as a tool, whether or not it has the decorator."""
    return _describe_function(function)[0]


class FunctionSource:
    """A source of Python functions; those that are not async run in threads."""

    def __init__(self, functions: Iterable[Callable[..., Any]], *, name: str = "functions") -> None:
        self.name = name
        self._runners: dict[str, FunctionRunner] = {}
        for function in functions:
            described, signature = _describe_function(function)
            if described.name in self._runners:
                raise CatalogError(
                    f"Two functions are both called {described.name!r}.",
                    hint='Name one of them: @tool(name="…").',
                )
            self._runners[described.name] = FunctionRunner(described, function, signature)

    async def tools(self) -> Sequence[Tool]:
        """One tool per function, in the order of the functions."""
        return [runner.tool for runner in self._runners.values()]

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:
        """Check the arguments, run the function, and wrap what it returns or raises."""
        runner = self._runners.get(tool.local_name)
        if runner is None:
            raise SourceError(
                f"Source {self.name!r} has no function {tool.local_name!r}.",
                hint=f"It has: {', '.join(self._runners)}.",
            )
        return await runner.run(arguments)

    def merge(self, others: FunctionSource) -> Self:
        """The functions of both sources; if both have a name, this source's function wins."""
        both = type(self)((), name=self.name)
        both._runners = others._runners | self._runners
        return both

    async def close(self) -> None:
        """Nothing to close."""


_KINDS: dict[str, type] = {
    **dict.fromkeys(("name", "title", "description", "category", "usage", "skill"), str),
    "requires_confirmation": bool,
    "annotations": Annotations,
    "extraction": Extraction,
    "metadata": Mapping,
}
_PROSE = ("description", "usage")
_LISTS = ("phrases", "tags", "related")


def _validate_options(options: dict[str, Any]) -> dict[str, Any]:
    """Check and clean the options, so that a wrong one raises where it is written."""
    unknown = options.keys() - ToolOptions.__annotations__.keys()
    if unknown:
        raise CatalogError(
            f"@tool has no option {', '.join(sorted(unknown))}.",
            hint=f"It has: {', '.join(ToolOptions.__annotations__)}.",
        )
    for key, allowed in (("risk", RISKS), ("defer", DEFERRALS)):
        if options.get(key, allowed[0]) not in allowed:
            raise CatalogError(
                f"@tool({key}={options[key]!r}) is not known.", hint=f"Use one of {allowed}."
            )
    return {
        key: _validate_option(key, value) for key, value in options.items() if value is not None
    }


def _validate_option(key: str, value: Any) -> Any:
    kind = _KINDS.get(key, object)
    if not isinstance(value, kind):
        raise CatalogError(
            f"@tool({key}=…) must be {kind.__name__}, not {type(value).__name__}.",
            hint=f"Give one, or remove {key}.",
        )
    if key in _LISTS:
        return _clean_texts(key, value)
    if key == "metadata":
        return _encode_metadata(value)
    if isinstance(value, str):
        return clean(value) if key in _PROSE else clean_line(value)
    return value


def _clean_texts(key: str, value: Any) -> tuple[str, ...]:
    """Several texts without duplicates; a single text need not be in a list."""
    is_many = isinstance(value, Iterable) and not isinstance(value, str)
    items: list[Any] = list(cast("Iterable[Any]", value)) if is_many else [value]
    if not all(isinstance(item, str) for item in items):
        raise CatalogError(f"@tool({key}=…) must be texts.", hint=f'Write {key}=["…", "…"].')
    return tuple(dict.fromkeys(text for item in items if (text := clean_line(item))))


def _encode_metadata(value: Mapping[str, Any]) -> str:
    try:
        return encode_json(dict(value))
    except JSONEncodeError as error:
        raise CatalogError(f"@tool(metadata=…) {error}.", hint=error.remedy) from error


def _describe_function(function: Callable[..., Any]) -> tuple[Tool, FunctionSignature]:
    options: dict[str, Any] = getattr(function, _OPTIONS_ATTRIBUTE, {})
    doc = _read_docstring(_unwrap_partial(function))
    signature = read_signature(function, doc.parameters)
    fields: dict[str, Any] = {"description": clean(doc.text)} | options
    fields["name"] = _tool_name(function, options)
    return Tool(parameters=signature.schema, output=signature.output, **fields), signature


def _read_docstring(base: Any) -> Docstring:
    """The docstring of a function; for a callable object, that of `__call__` comes first."""
    own = parse_docstring(inspect.getdoc(base))
    call = None if inspect.isroutine(base) or isinstance(base, type) else type(base).__call__
    if not inspect.isfunction(call):
        return own
    doc = parse_docstring(inspect.getdoc(call))
    return Docstring(doc.text or own.text, own.parameters | doc.parameters)


def _unwrap_partial(function: Callable[..., Any]) -> Any:
    return cast("partial[Any]", function).func if isinstance(function, partial) else function


def _tool_name(function: Callable[..., Any], options: Mapping[str, Any]) -> str:
    base = _unwrap_partial(function)
    name = clean_line(options.get("name") or getattr(base, "__name__", type(base).__name__))
    if not name or name == "<lambda>":
        raise CatalogError(
            "A function without a name cannot be a tool.", hint='Name it: tool(name="…")(function).'
        )
    return name
