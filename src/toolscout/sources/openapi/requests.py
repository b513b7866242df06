"""Build HTTP requests from arguments: path, query, headers and body as OpenAPI serialises them."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import quote

from ...errors import InvalidArgumentsError
from .operations import Operation, OperationParameter, RequestBody

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_DELIMITERS = {"spaceDelimited": " ", "pipeDelimited": "|"}


@dataclass(frozen=True, slots=True)
class OperationRequest:
    """A request without the base URL and the credentials."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content: bytes | None = None

    @property
    def is_safe(self) -> bool:
        """Whether it changes nothing at the API, so that it can be sent again."""
        return self.method in _SAFE_METHODS


def build_request(operation: Operation, arguments: Mapping[str, Any]) -> OperationRequest:
    """Build the request of a call from its arguments."""
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
                path = path.replace(f"{{{parameter.name}}}", _path_segment(parameter, value))
            case "query":
                query += _name_value_pairs(parameter, value)
            case "header":
                headers[parameter.name] = _header_value(parameter, value)
            case "cookie":
                cookies += [
                    f"{k}={quote(v, safe='')}" for k, v in _name_value_pairs(parameter, value)
                ]
    if cookies:
        headers["Cookie"] = "; ".join(cookies)
    content = None
    if (
        operation.body is not None
        and (body := _body_content(operation.body, arguments)) is not None
    ):
        content = body
        headers["Content-Type"] = _content_type(operation.body, body)
    return OperationRequest(operation.method.upper(), path, tuple(query), headers, content)


def _path_segment(parameter: OperationParameter, value: Any) -> str:
    """Serialise a value in a path by its style; it can never leave its segment."""
    name = quote(parameter.name, safe="")
    match parameter.style:
        case "label":
            return "." + _serialise_path_value(parameter, value, "." if parameter.explodes else ",")
        case "matrix" if isinstance(value, dict) and parameter.explodes:
            return ";" + _serialise_path_value(parameter, value, ";")
        case "matrix" if isinstance(value, list) and parameter.explodes:
            items = cast("list[Any]", value)
            return "".join(f";{name}={quote(_to_text(item), safe='')}" for item in items)
        case "matrix":
            return f";{name}={_serialise_path_value(parameter, value, ',')}"
        case _:
            return _serialise_path_value(parameter, value, ",")


def _serialise_path_value(parameter: OperationParameter, value: Any, delimiter: str) -> str:
    """Join the parts of a value, each percent-encoded."""
    if isinstance(value, dict):
        between = "=" if parameter.explodes else ","
        table = cast("dict[str, Any]", value)
        items = [f"{quote(k, safe='')}{between}{_quote_value(v)}" for k, v in table.items()]
    else:
        items = [_quote_value(v) for v in _as_list(value)]
    text = delimiter.join(items)
    # An empty segment or a dot segment would lead to another path of the API.
    if text in ("", ".", ".."):
        raise InvalidArgumentsError(
            f"{parameter.argument} cannot be {_to_text(value)!r} in a path."
        )
    return text


def _quote_value(value: Any) -> str:
    return quote(_to_text(value), safe=",")


def _header_value(parameter: OperationParameter, value: Any) -> str:
    text = _join_values(value, ",")
    # A line break would start another header.
    if "\r" in text or "\n" in text:
        raise InvalidArgumentsError(
            f"{parameter.argument} is sent in a header, so it must be one line."
        )
    if not text.isascii():
        raise InvalidArgumentsError(
            f"{parameter.argument} is sent in a header, so it must be ASCII."
        )
    return text


def _name_value_pairs(parameter: OperationParameter, value: Any) -> list[tuple[str, str]]:
    name = parameter.name
    if parameter.style == "json":
        return [(name, json.dumps(value))]
    if isinstance(value, list):
        items = [_to_text(v) for v in cast("list[Any]", value)]
        if parameter.explodes and parameter.style == "form":
            return [(name, item) for item in items]
        return [(name, _DELIMITERS.get(parameter.style, ",").join(items))]
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        if parameter.style == "deepObject":
            return [(f"{name}[{k}]", _to_text(v)) for k, v in table.items()]
        if parameter.explodes:
            return [(k, _to_text(v)) for k, v in table.items()]
        return [(name, ",".join(f"{k},{_to_text(v)}" for k, v in table.items()))]
    return [(name, _to_text(value))]


def _join_values(value: Any, delimiter: str) -> str:
    if isinstance(value, list):
        return delimiter.join(_to_text(v) for v in cast("list[Any]", value))
    if isinstance(value, dict):
        return delimiter.join(
            f"{k},{_to_text(v)}" for k, v in cast("dict[str, Any]", value).items()
        )
    return _to_text(value)


def _to_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return json.dumps(value)
    return "" if value is None else str(value)


def _body_content(body: RequestBody, arguments: Mapping[str, Any]) -> bytes | None:
    """The bytes of the body, or None; a required body is sent even if it is empty."""
    if body.argument:
        return _encode_body(body, arguments[body.argument]) if body.argument in arguments else None
    fields = {f: arguments[f] for f in body.fields if f in arguments}
    return _encode_body(body, fields) if fields or body.is_required else None


def _form_fields(table: Any) -> list[tuple[str, Any]]:
    """The fields of a form; a list repeats its field for each item."""
    fields = cast("dict[str, Any]", table).items()
    return [(name, item) for name, value in fields for item in _as_list(value)]


def _as_list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _multipart_content(body: RequestBody, table: Any) -> bytes:
    """A multipart form; files come as base64 and are sent as bytes."""
    parts: list[bytes] = []
    for name, value in _form_fields(table):
        label = name.replace('"', "%22").replace("\r", "").replace("\n", "")
        head = f'Content-Disposition: form-data; name="{label}"'
        data = _to_text(value).encode()
        if name in body.files:
            head += f'; filename="{label}"\r\nContent-Type: application/octet-stream'
            data = _decode_base64(value, f"{name} is a file: it")
        elif isinstance(value, dict | list):
            head += "\r\nContent-Type: application/json"
        parts.append(f"{head}\r\n\r\n".encode() + data + b"\r\n")
    boundary = _boundary(b"".join(parts)).encode()
    body_parts = b"".join(b"--" + boundary + b"\r\n" + part for part in parts)
    return body_parts + b"--" + boundary + b"--\r\n"


def _boundary(content: bytes) -> str:
    # A hash of the content cannot occur in the content by chance, and the same call gives the same
    # bytes.
    return f"toolscout-{hashlib.sha256(content).hexdigest()[:32]}"


def _content_type(body: RequestBody, content: bytes) -> str:
    if not body.is_multipart:
        return body.media
    first = content[2 : content.index(b"\r\n")].decode() if content.startswith(b"--") else ""
    return f"{body.media}; boundary={first.removesuffix('--')}"


def _decode_base64(value: Any, subject: str) -> bytes:
    try:
        return base64.b64decode(_to_text(value), validate=True)
    except ValueError:
        raise InvalidArgumentsError(f"{subject} must be base64.") from None


def _encode_body(body: RequestBody, value: Any) -> bytes:
    if body.is_json:
        return json.dumps(value).encode()
    if "x-www-form-urlencoded" in body.media and isinstance(value, dict):
        return "&".join(
            f"{quote(k)}={quote(_to_text(v), safe='')}" for k, v in _form_fields(value)
        ).encode()
    if body.is_multipart and isinstance(value, dict):
        return _multipart_content(body, value)
    if body.media.startswith("text/"):
        return _to_text(value).encode()
    return _decode_base64(value, f"The body ({body.media})")
