"""Arguments on their way: path, query, headers and body, each written as its document says."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import quote

from ....errors import InvalidArguments
from .operations import Body, Operation, Parameter

_DELIMITERS = {"spaceDelimited": " ", "pipeDelimited": "|"}


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request, complete but for the server's address and who sends it."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content: bytes | None = None


def outgoing(operation: Operation, arguments: Mapping[str, Any]) -> Outgoing:
    """Write a call's arguments into a request."""
    path = operation.path
    query: list[tuple[str, str]] = []
    headers: dict[str, str] = {}
    cookies: list[str] = []
    for parameter in operation.parameters:
        if parameter.argument not in arguments or arguments[parameter.argument] is None:
            continue
        value = arguments[parameter.argument]
        match parameter.place:
            case "path":
                path = path.replace(f"{{{parameter.name}}}", _segment(parameter, value))
            case "query":
                query += _pairs(parameter, value)
            case "header":
                headers[parameter.name] = _line(parameter, value)
            case "cookie":
                cookies += [f"{k}={quote(v, safe='')}" for k, v in _pairs(parameter, value)]
    if cookies:
        headers["Cookie"] = "; ".join(cookies)
    content = None
    if operation.body is not None and (body := _body(operation.body, arguments)) is not None:
        content = body
        headers["Content-Type"] = _media(operation.body, body)
    return Outgoing(operation.method.upper(), path, tuple(query), headers, content)


def _segment(parameter: Parameter, value: Any) -> str:
    """A value within a path; it can never leave its segment."""
    name = quote(parameter.name, safe="")
    match parameter.style:
        case "label":
            return "." + _written(parameter, value, "." if parameter.explodes else ",")
        case "matrix" if isinstance(value, dict) and parameter.explodes:
            return ";" + _written(parameter, value, ";")
        case "matrix" if isinstance(value, list) and parameter.explodes:
            items = cast("list[Any]", value)
            return "".join(f";{name}={quote(_text(item), safe='')}" for item in items)
        case "matrix":
            return f";{name}={_written(parameter, value, ',')}"
        case _:
            return _written(parameter, value, ",")


def _written(parameter: Parameter, value: Any, delimiter: str) -> str:
    """A value as one text; whatever is in it stays in it."""
    if isinstance(value, dict):
        between = "=" if parameter.explodes else ","
        table = cast("dict[str, Any]", value)
        items = [f"{quote(k, safe='')}{between}{_quoted(v)}" for k, v in table.items()]
    else:
        items = [_quoted(v) for v in _each(value)]
    text = delimiter.join(items)
    if text in ("", ".", ".."):
        raise InvalidArguments(f"{parameter.argument} cannot be {_text(value)!r} in a path.")
    return text


def _quoted(value: Any) -> str:
    return quote(_text(value), safe=",")


def _line(parameter: Parameter, value: Any) -> str:
    text = _joined(value, ",")
    if "\r" in text or "\n" in text:
        raise InvalidArguments(f"{parameter.argument} goes into a header: it must be one line.")
    if not text.isascii():
        raise InvalidArguments(f"{parameter.argument} goes into a header: only ASCII fits there.")
    return text


def _pairs(parameter: Parameter, value: Any) -> list[tuple[str, str]]:
    name = parameter.name
    if parameter.style == "json":
        return [(name, json.dumps(value))]
    if isinstance(value, list):
        items = [_text(v) for v in cast("list[Any]", value)]
        if parameter.explodes and parameter.style == "form":
            return [(name, item) for item in items]
        return [(name, _DELIMITERS.get(parameter.style, ",").join(items))]
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        if parameter.style == "deepObject":
            return [(f"{name}[{k}]", _text(v)) for k, v in table.items()]
        if parameter.explodes:
            return [(k, _text(v)) for k, v in table.items()]
        return [(name, ",".join(f"{k},{_text(v)}" for k, v in table.items()))]
    return [(name, _text(value))]


def _joined(value: Any, delimiter: str) -> str:
    if isinstance(value, list):
        return delimiter.join(_text(v) for v in cast("list[Any]", value))
    if isinstance(value, dict):
        return delimiter.join(f"{k},{_text(v)}" for k, v in cast("dict[str, Any]", value).items())
    return _text(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return json.dumps(value)
    return "" if value is None else str(value)


def _body(body: Body, arguments: Mapping[str, Any]) -> bytes | None:
    """The body's bytes; one that the API insists on is sent even with nothing in it."""
    if body.argument:
        return _encoded(body, arguments[body.argument]) if body.argument in arguments else None
    given = {f: arguments[f] for f in body.fields if f in arguments}
    return _encoded(body, given) if given or body.is_required else None


def _items(table: Any) -> list[tuple[str, Any]]:
    """The fields of a form; a list is its field once for each item."""
    fields = cast("dict[str, Any]", table).items()
    return [(name, item) for name, value in fields for item in _each(value)]


def _each(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _parts(body: Body, table: Any) -> bytes:
    """A form of several parts: files are base64 as they come, and bytes as they go."""
    parts: list[bytes] = []
    for name, value in _items(table):
        label = name.replace('"', "%22").replace("\r", "").replace("\n", "")
        head = f'Content-Disposition: form-data; name="{label}"'
        data = _text(value).encode()
        if name in body.files:
            head += f'; filename="{label}"\r\nContent-Type: application/octet-stream'
            data = _bytes(value, f"{name} is a file: it")
        elif isinstance(value, dict | list):
            head += "\r\nContent-Type: application/json"
        parts.append(f"{head}\r\n\r\n".encode() + data + b"\r\n")
    mark = _boundary(b"".join(parts)).encode()
    return b"".join(b"--" + mark + b"\r\n" + part for part in parts) + b"--" + mark + b"--\r\n"


def _boundary(content: bytes) -> str:
    return f"toolscout-{hashlib.sha256(content).hexdigest()[:32]}"


def _media(body: Body, content: bytes) -> str:
    if not body.is_multipart:
        return body.media
    first = content[2 : content.index(b"\r\n")].decode() if content.startswith(b"--") else ""
    return f"{body.media}; boundary={first.removesuffix('--')}"


def _bytes(value: Any, what: str) -> bytes:
    try:
        return base64.b64decode(_text(value), validate=True)
    except ValueError:
        raise InvalidArguments(f"{what} must be base64.") from None


def _encoded(body: Body, value: Any) -> bytes:
    if body.is_json:
        return json.dumps(value).encode()
    if "x-www-form-urlencoded" in body.media and isinstance(value, dict):
        return "&".join(f"{quote(k)}={quote(_text(v), safe='')}" for k, v in _items(value)).encode()
    if body.is_multipart and isinstance(value, dict):
        return _parts(body, value)
    if body.media.startswith("text/"):
        return _text(value).encode()
    return _bytes(value, f"The body ({body.media})")
