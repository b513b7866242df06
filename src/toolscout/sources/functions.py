"""Python functions as tools: what their signatures and docstrings say is all that is needed."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, Self, TypedDict, TypeVar, Unpack, cast, overload

from pydantic import ValidationError

from ..catalog.failure import TOOL_FAILURES, failure_result
from ..catalog.result import Content, Result
from ..catalog.sanitization import JSONEncodeError, clean, clean_line, encode_json
from ..catalog.tool import DEFERRALS, RISKS, Annotations, Deferral, Extraction, Risk, Tool
from ..catalog.tool_text import signature
from ..errors import CatalogError, InvalidArguments, SourceError
from .docstrings import Docstring, parse_docstring
from .signatures import FunctionSignature, read_signature
from .thread_pool import DaemonThreadPool

F = TypeVar("F", bound=Callable[..., Any])
_MARK = "__toolscout__"
MOST_YIELDED = 10_000
"""How many items are taken of a generator, which may have no end."""


class ToolOptions(TypedDict, total=False):
    """What `@tool` may say of a function beyond its signature and docstring."""

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
    """Mark a function as a tool; it stays the function it was.

    Everything has a default: the name is the function's, the description its docstring, the
    schema its type hints, and the parameter descriptions those of the docstring.
    """
    said = _validate_options(cast("dict[str, Any]", options))

    def mark(marked: F) -> F:
        setattr(marked, _MARK, said)
        return marked

    return mark if function is None else mark(function)


def tool_of(function: Callable[..., Any]) -> Tool:
    """The tool that a function is, marked or not."""
    return _describe_function(function)[0]


@dataclass(frozen=True, slots=True)
class _FunctionTool:
    """A function, ready to be called with arguments from outside."""

    tool: Tool
    function: Callable[..., Any]
    arguments: FunctionSignature
    threads: DaemonThreadPool = field(default_factory=DaemonThreadPool)

    async def run(self, given: Mapping[str, Any]) -> Result:
        try:
            positional, named = self.arguments.split(self.arguments.check(given))
        except ValidationError as error:
            return _invalid_arguments(self.tool, error)
        try:
            return Result.of(await self._invoke(positional, named))
        except TOOL_FAILURES as error:
            return failure_result(self.tool.name, error)

    async def _invoke(self, positional: list[Any], named: dict[str, Any]) -> Any:
        if _is_async(self.function):
            value = self.function(*positional, **named)
        else:
            value = await self.threads.run(self._call_in_thread, positional, named)
        if inspect.isawaitable(value):
            value = await value
        if isinstance(value, AsyncIterator):
            return await _collect_async(cast("AsyncIterator[Any]", value))
        if isinstance(value, Iterator):
            return await self.threads.run(_collect, cast("Iterator[Any]", value))
        return value

    def _call_in_thread(self, positional: list[Any], named: dict[str, Any]) -> Any:
        """Call the function in this thread, and take there what it yields."""
        try:
            return _collect(self.function(*positional, **named))
        except StopIteration as error:  # no future can carry it, so its waiter would hang
            return failure_result(self.tool.name, error)


def _collect(value: Any) -> object:
    """What a generator yields, as the list that it stands for; anything else as it is."""
    if not isinstance(value, Iterator):
        return value
    return _limit_items([*islice(cast("Iterator[Any]", value), MOST_YIELDED + 1)])


async def _collect_async(items: AsyncIterator[Any]) -> object:
    """The same of one that is async."""
    taken: list[Any] = []
    async for item in items:
        taken.append(item)
        if len(taken) > MOST_YIELDED:
            break
    return _limit_items(taken)


def _limit_items(taken: list[Any]) -> object:
    """A list that may have no end, with a word where it was cut."""
    if len(taken) <= MOST_YIELDED:
        return taken
    result = Result.of(taken[:MOST_YIELDED])
    note = f"There is more: only the first {MOST_YIELDED:,} items were taken."
    return replace(result, content=(*result.content, Content(text=note)))


class FunctionSource:
    """Python functions; those that are not async run in a thread, so that nobody waits."""

    def __init__(self, functions: Iterable[Callable[..., Any]], *, name: str = "functions") -> None:
        self.name = name
        self._callees: dict[str, _FunctionTool] = {}
        for function in functions:
            described, arguments = _describe_function(function)
            if described.name in self._callees:
                raise CatalogError(
                    f"Two functions are both called {described.name!r}.",
                    hint='Name one of them: @tool(name="…").',
                )
            self._callees[described.name] = _FunctionTool(described, function, arguments)

    async def tools(self) -> Sequence[Tool]:
        """One tool a function, in the order given."""
        return [callee.tool for callee in self._callees.values()]

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:
        """Check the arguments, run the function, and wrap whatever it returns or raises."""
        callee = self._callees.get(tool.local_name)
        if callee is None:
            raise SourceError(
                f"Source {self.name!r} has no function {tool.local_name!r}.",
                hint=f"It has: {', '.join(self._callees)}.",
            )
        return await callee.run(arguments)

    def merge(self, others: FunctionSource) -> Self:
        """The functions of both, under this name; of two with one name, that of this source."""
        both = type(self)((), name=self.name)
        both._callees = others._callees | self._callees
        return both

    async def close(self) -> None:
        """Nothing to let go of."""


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
    """The options as fields of a tool, or an error where they are written."""
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


def _validate_option(key: str, given: Any) -> Any:
    kind = _KINDS.get(key, object)
    if not isinstance(given, kind):
        raise CatalogError(
            f"@tool({key}=…) must be {kind.__name__}, not {type(given).__name__}.",
            hint=f"Give one, or leave {key} out.",
        )
    if key in _LISTS:
        return _clean_texts(key, given)
    if key == "metadata":
        return _encode_metadata(given)
    if isinstance(given, str):
        return clean(given) if key in _PROSE else clean_line(given)
    return given


def _clean_texts(key: str, given: Any) -> tuple[str, ...]:
    """Several texts, each once; a single one may stand alone, as in a file."""
    is_many = isinstance(given, Iterable) and not isinstance(given, str)
    items: list[Any] = list(cast("Iterable[Any]", given)) if is_many else [given]
    if not all(isinstance(item, str) for item in items):
        raise CatalogError(f"@tool({key}=…) must be texts.", hint=f'Write {key}=["…", "…"].')
    return tuple(dict.fromkeys(text for item in items if (text := clean_line(item))))


def _encode_metadata(given: Mapping[str, Any]) -> str:
    try:
        return encode_json(dict(given))
    except JSONEncodeError as error:
        raise CatalogError(f"@tool(metadata=…) {error}.", hint=error.remedy) from error


def _describe_function(function: Callable[..., Any]) -> tuple[Tool, FunctionSignature]:
    said: dict[str, Any] = getattr(function, _MARK, {})
    doc = _read_docstring(_unwrap_partial(function))
    arguments = read_signature(function, doc.parameters)
    fields: dict[str, Any] = {"description": clean(doc.text)} | said
    fields["name"] = _tool_name(function, said)
    return Tool(parameters=arguments.schema, output=arguments.output, **fields), arguments


def _read_docstring(base: Any) -> Docstring:
    """What is written of a function; of an object that can be called, first what its call says."""
    own = parse_docstring(inspect.getdoc(base))
    call = None if inspect.isroutine(base) or isinstance(base, type) else type(base).__call__
    if not inspect.isfunction(call):
        return own
    said = parse_docstring(inspect.getdoc(call))
    return Docstring(said.text or own.text, own.parameters | said.parameters)


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


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  asking what kind it is, not whether
    )


def _invalid_arguments(tool: Tool, error: ValidationError) -> Result:
    lines = [
        f"- {'.'.join(map(str, item['loc'])) or 'arguments'}: {item['msg']}"
        for item in error.errors(include_url=False, include_context=False)
    ]
    text = "\n".join([f"The arguments do not fit {tool.name}:", *lines, f"Call {signature(tool)}"])
    return Result.error(text, code=InvalidArguments.code)
