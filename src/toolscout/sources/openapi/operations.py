"""Each operation of a document as a tool, with the way its arguments travel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, cast

from ...catalog.names import qualify_name, wire_name
from ...catalog.sanitization import clean, clean_line
from ...catalog.schema import Schema
from ...catalog.tool import Annotations, Tool
from ...errors import SchemaError
from .document import Document
from .schemas import SchemaTranslator, is_read_only

ParameterLocation = Literal["path", "query", "header", "cookie"]
_METHODS = ("get", "put", "post", "delete", "head", "patch", "options")
_READ_ONLY = ("get", "head", "options")
_JSON = re.compile(r"^application/(?:[\w.+-]+\+)?json\b")
_IN_PATH = re.compile(r"\{([^{}]+)\}")
_UNSAFE = re.compile(r"[^A-Za-z0-9]+")
# What a client sets itself, whatever a document says.
_OWN_HEADERS = frozenset({"accept", "content-type", "authorization"})


@dataclass(frozen=True, slots=True)
class OperationFilter:
    """Which operations become tools; patterns are matched against ids, paths and tags."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()

    def admits(self, method: str, *names: str) -> bool:
        """Whether an operation is wanted."""
        if self.methods and method not in self.methods:
            return False
        if any(fnmatchcase(n, p) for n in names for p in self.exclude):
            return False
        return not self.include or any(fnmatchcase(n, p) for n in names for p in self.include)


@dataclass(frozen=True, slots=True)
class OperationParameter:
    """One argument outside the body: where it goes and how it is written."""

    argument: str
    name: str
    place: ParameterLocation
    style: str
    explodes: bool


@dataclass(frozen=True, slots=True)
class RequestBody:
    """How the body is made: of one argument, or of several that are its fields."""

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
    """One operation: the tool it is, and how to ask for it."""

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
    """All wanted operations, in the document's order; each name once, a broken one told."""
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
        document.asked_by = repr(local)
        try:
            made = _OperationBuilder(document, server, method, path, item).build(local, taken)
        except SchemaError as error:
            problems.append(f"{local!r} is left out: {error.message}")
        except RecursionError:
            problems.append(f"{local!r} is left out: it nests without end.")
        else:
            taken.add(made.tool.name)
            known.add(local)
            yield made


def _path_operations(document: Document) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The methods of each path, with what the path has; operations elsewhere are fetched in."""
    document.asked_by = "the paths"
    for path, item in document.resolve(document.value.get("paths")).items():
        document.asked_by = repr(path)
        table = document.resolve(item)
        for method in _METHODS:
            node = table.get(method)
            document.asked_by = repr(f"{method} {path}")
            operation = document.resolve(node)
            if isinstance(node, dict) and (operation or not node):
                yield method, path, {**table, method: operation}


def _as_list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


class _OperationBuilder:
    """Puts one operation together."""

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
        told = clean(str(operation.get("description") or ""))
        tags = [clean_line(str(t)) for t in _as_list(operation.get("tags"))]
        notes = [] if not operation.get("deprecated") else ["Deprecated."]
        return Tool(
            name=name,
            title=summary,
            description="\n".join(dict.fromkeys(t for t in (*notes, summary, told) if t)),
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
        # A path cannot be asked for without its parts, whether or not they are declared.
        declared = {p.get("name") for p in nodes if p.get("in") == "path"}
        named = dict.fromkeys(_IN_PATH.findall(self._path))
        nodes += [{"name": n, "in": "path"} for n in named if n not in declared]
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
        argument = name if name not in self._properties else f"{name}_{place}"
        content = self._document.resolve(node.get("content"))
        media = next(iter(content.values()), None)
        schema = self._document.resolve(media).get("schema") if media else node.get("schema")
        self._add_property(
            argument, schema, node, is_required=place == "path" or bool(node.get("required"))
        )
        style = str(node.get("style") or ("form" if place in ("query", "cookie") else "simple"))
        explodes = node.get("explode", style == "form")
        return OperationParameter(argument, name, place, "json" if media else style, bool(explodes))

    def _add_property(
        self, argument: str, schema: Any, node: dict[str, Any], *, is_required: bool
    ) -> None:
        translated = self._translator.translate(schema)
        if described := node.get("description"):
            translated = {**translated, "description": clean(str(described))}
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
        if fields and not any(f in self._properties for f in fields):
            needed = _as_list(self._document.resolve(schema).get("required"))
            fields = {f: v for f, v in fields.items() if not is_read_only(v)}
            for field, value in fields.items():
                self._add_property(field, value, {}, is_required=is_required and field in needed)
            return RequestBody(media, fields=tuple(fields), files=files, is_required=is_required)
        argument = "body" if "body" not in self._properties else "request_body"
        is_structured = _JSON.match(media) or "form" in media
        given = schema if is_structured else {"type": "string"}
        self._add_property(argument, given, node, is_required=is_required)
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
        """The fields of a plain object; anything cleverer stays one argument."""
        table = self._document.resolve(schema)
        clever = ("oneOf", "anyOf", "allOf", "not", "if", "patternProperties")
        if table.get("type") != "object" or any(k in table for k in clever):
            return {}
        if table.get("additionalProperties"):
            return {}
        properties = table.get("properties")
        return cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}

    def _security_requirements(self) -> tuple[tuple[str, ...], ...]:
        needs = self._operation.get("security", self._document.value.get("security"))
        return tuple(tuple(self._document.resolve(n)) for n in _as_list(needs))


def _annotations(method: str) -> Annotations:
    return Annotations(
        read_only=method in _READ_ONLY,
        destructive=True if method == "delete" else None,
        idempotent=method in (*_READ_ONLY, "put", "delete"),
        open_world=True,
    )
