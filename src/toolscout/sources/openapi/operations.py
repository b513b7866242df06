"""OpenAPI operations as tools, with the place of each argument in the request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, cast

from ...catalog.sanitization import clean, clean_line
from ...catalog.schema import Schema
from ...catalog.tool import Annotations, Tool, qualify_name, wire_name
from ...errors import SchemaError
from .document import Document
from .schemas import SchemaTranslator, is_read_only

ParameterLocation = Literal["path", "query", "header", "cookie"]
_METHODS = ("get", "put", "post", "delete", "head", "patch", "options")
_READ_ONLY = ("get", "head", "options")
_JSON = re.compile(r"^application/(?:[\w.+-]+\+)?json\b")
_IN_PATH = re.compile(r"\{([^{}]+)\}")
_UNSAFE = re.compile(r"[^A-Za-z0-9]+")
# Headers that the client sets itself. OpenAPI says to ignore them as parameters.
_OWN_HEADERS = frozenset({"accept", "content-type", "authorization"})


@dataclass(frozen=True, slots=True)
class OperationFilter:
    """Selects operations; patterns match operation ids, paths and tags."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()

    def admits(self, method: str, *names: str) -> bool:
        """Whether an operation is selected."""
        if self.methods and method not in self.methods:
            return False
        if any(fnmatchcase(n, p) for n in names for p in self.exclude):
            return False
        return not self.include or any(fnmatchcase(n, p) for n in names for p in self.include)


@dataclass(frozen=True, slots=True)
class OperationParameter:
    """One argument outside the body: its place in the request and its serialisation."""

    argument: str
    name: str
    place: ParameterLocation
    style: str
    explodes: bool


@dataclass(frozen=True, slots=True)
class RequestBody:
    """How the body is built: from one argument, or from several that are its fields."""

    media: str
    argument: str = ""
    fields: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    is_required: bool = False

    @property
    def is_multipart(self) -> bool:
        """Whether it is sent as a form of several parts."""
        return self.media.startswith("multipart/")

    @property
    def is_json(self) -> bool:
        """Whether it is sent as JSON."""
        return _JSON.match(self.media) is not None


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: its tool, and how to request it."""

    tool: Tool
    method: str
    path: str
    parameters: tuple[OperationParameter, ...] = ()
    body: RequestBody | None = None
    security: tuple[tuple[str, ...], ...] = ()
    base_url: str = ""


def iter_operations(
    document: Document, *, server: str, filters: OperationFilter, problems: list[str]
) -> Iterator[Operation]:
    """All selected operations in document order; broken ones are added to `problems`."""
    taken: set[str] = set()
    known: set[str] = set()
    for method, path, item in _path_operations(document):
        operation = cast("dict[str, Any]", item[method])
        local = str(operation.get("operationId") or "")
        if not local or local in known:
            local = f"{method} {path}"
        tags = [str(t) for t in _as_list(operation.get("tags"))]
        if not filters.admits(method, local, path, *tags):
            continue
        document.context = repr(local)
        try:
            operation_tool = _OperationBuilder(document, server, method, path, item).build(
                local, taken
            )
        except SchemaError as error:
            problems.append(f"{local!r} is skipped: {error.message}")
        except RecursionError:
            problems.append(f"{local!r} is skipped: it nests without end.")
        else:
            taken.add(operation_tool.tool.name)
            known.add(local)
            yield operation_tool


def _path_operations(document: Document) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The operations of each path with their path item, references resolved."""
    document.context = "the paths"
    for path, item in document.resolve(document.value.get("paths")).items():
        document.context = repr(path)
        table = document.resolve(item)
        for method in _METHODS:
            node = table.get(method)
            document.context = repr(f"{method} {path}")
            operation = document.resolve(node)
            if isinstance(node, dict) and (operation or not node):
                yield method, path, {**table, method: operation}


def _as_list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


class _OperationBuilder:
    """Builds one operation."""

    def __init__(
        self,
        document: Document,
        server: str,
        method: str,
        path: str,
        item: dict[str, Any],
    ) -> None:
        self._document = document
        self._server = server
        self._method = method
        self._path = path
        self._operation = cast("dict[str, Any]", item[method])
        self._shared = _as_list(item.get("parameters"))
        self._servers = (self._operation.get("servers"), item.get("servers"))
        self._translator = SchemaTranslator(document)
        self._properties: dict[str, Any] = {}
        self._required: list[str] = []

    def build(self, local: str, taken: set[str]) -> Operation:
        parameters = tuple(self._build_parameters())
        body = self._build_body()
        schema: dict[str, Any] = {"type": "object", "properties": self._properties}
        if self._required:
            schema["required"] = self._required
        if definitions := self._translator.definitions():
            schema["$defs"] = definitions
        return Operation(
            tool=self._build_tool(local, schema, taken),
            method=self._method,
            path=self._path,
            parameters=parameters,
            body=body,
            security=self._security_requirements(),
            base_url=self._document.base_url(*self._servers),
        )

    def _build_tool(self, local: str, schema: dict[str, Any], taken: set[str]) -> Tool:
        spelled = _UNSAFE.sub("_", local).strip("_") or "operation"
        name = wire_name(qualify_name(self._server, spelled))
        if name in taken:
            name = wire_name(f"{name} {self._method} {self._path}")
        operation = self._operation
        summary = clean_line(str(operation.get("summary") or ""))
        description = clean(str(operation.get("description") or ""))
        tags = [clean_line(str(t)) for t in _as_list(operation.get("tags"))]
        notes = [] if not operation.get("deprecated") else ["Deprecated."]
        return Tool(
            name=name,
            title=summary,
            description="\n".join(dict.fromkeys(t for t in (*notes, summary, description) if t)),
            parameters=Schema.of(schema),
            server=self._server,
            category=tags[0] if tags else "",
            tags=tuple(tags),
            annotations=_annotations(self._method),
            local=local,
        )

    def _build_parameters(self) -> Iterator[OperationParameter]:
        own = [self._document.resolve(p) for p in _as_list(self._operation.get("parameters"))]
        seen = {(p.get("name"), p.get("in")) for p in own}
        shared = [self._document.resolve(p) for p in self._shared]
        nodes = [*own, *(p for p in shared if (p.get("name"), p.get("in")) not in seen)]
        # A path cannot be requested without its parts, even if they are not declared.
        declared = {p.get("name") for p in nodes if p.get("in") == "path"}
        names = dict.fromkeys(_IN_PATH.findall(self._path))
        nodes += [{"name": n, "in": "path"} for n in names if n not in declared]
        for node in nodes:
            name, place = node.get("name"), node.get("in")
            if not isinstance(name, str) or place not in ("path", "query", "header", "cookie"):
                continue
            if place == "header" and name.lower() in _OWN_HEADERS:
                continue
            yield self._build_parameter(node, name, place)

    def _build_parameter(
        self, node: dict[str, Any], name: str, place: ParameterLocation
    ) -> OperationParameter:
        # A path and a query parameter may have the same name.
        argument = name if name not in self._properties else f"{name}_{place}"
        content = self._document.resolve(node.get("content"))
        media = next(iter(content.values()), None)
        schema = self._document.resolve(media).get("schema") if media else node.get("schema")
        self._add_property(
            argument, schema, node, is_required=place == "path" or bool(node.get("required"))
        )
        # The defaults of OpenAPI.
        style = str(node.get("style") or ("form" if place in ("query", "cookie") else "simple"))
        explodes = node.get("explode", style == "form")
        return OperationParameter(argument, name, place, "json" if media else style, bool(explodes))

    def _add_property(
        self, argument: str, schema: Any, node: dict[str, Any], *, is_required: bool
    ) -> None:
        translated = self._translator.translate(schema)
        if description := node.get("description"):
            translated = {**translated, "description": clean(str(description))}
        self._properties[argument] = translated
        if is_required:
            self._required.append(argument)

    def _build_body(self) -> RequestBody | None:
        node = self._document.resolve(self._operation.get("requestBody"))
        content = self._document.resolve(node.get("content"))
        if not content:
            return None
        media = next((m for m in content if _JSON.match(m)), next(iter(content)))
        schema = self._document.resolve(content[media]).get("schema")
        is_required = bool(node.get("required"))
        files = tuple(self._file_fields(schema)) if media.startswith("multipart/") else ()
        fields = self._object_fields(schema) if _JSON.match(media) or "form" in media else {}
        # The fields become arguments beside the parameters, unless a name occurs in both.
        if fields and not any(f in self._properties for f in fields):
            required = _as_list(self._document.resolve(schema).get("required"))
            fields = {f: v for f, v in fields.items() if not is_read_only(v)}
            for field, value in fields.items():
                self._add_property(field, value, {}, is_required=is_required and field in required)
            return RequestBody(media, fields=tuple(fields), files=files, is_required=is_required)
        argument = "body" if "body" not in self._properties else "request_body"
        is_structured = _JSON.match(media) or "form" in media
        body_schema = schema if is_structured else {"type": "string"}
        self._add_property(argument, body_schema, node, is_required=is_required)
        return RequestBody(media, argument=argument, files=files, is_required=is_required)

    def _file_fields(self, schema: Any) -> Iterator[str]:
        """The fields of a form that are files."""
        for name, value in self._document.resolve(
            self._document.resolve(schema).get("properties")
        ).items():
            field = self._document.resolve(value)
            if field.get("type") == "array":
                field = self._document.resolve(field.get("items"))
            if field.get("format") == "binary" or "contentMediaType" in field:
                yield name

    def _object_fields(self, schema: Any) -> dict[str, Any]:
        """The fields of a plain object; a body with any other schema is one argument."""
        table = self._document.resolve(schema)
        complex_keywords = ("oneOf", "anyOf", "allOf", "not", "if", "patternProperties")
        if table.get("type") != "object" or any(k in table for k in complex_keywords):
            return {}
        if table.get("additionalProperties"):
            return {}
        properties = table.get("properties")
        return cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}

    def _security_requirements(self) -> tuple[tuple[str, ...], ...]:
        requirements = self._operation.get("security", self._document.value.get("security"))
        return tuple(tuple(self._document.resolve(r)) for r in _as_list(requirements))


def _annotations(method: str) -> Annotations:
    return Annotations(
        read_only=method in _READ_ONLY,
        destructive=True if method == "delete" else None,
        idempotent=method in (*_READ_ONLY, "put", "delete"),
        open_world=True,
    )
