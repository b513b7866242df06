"""HTTP APIs as tools: what is listed, and just what is sent."""

from __future__ import annotations

import asyncio
import base64
import html
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email import message_from_string
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscout.catalog.result import Result
from toolscout.catalog.tool import Annotations, Tool
from toolscout.errors import InvalidArgumentsError, SourceError
from toolscout.sources.openapi.api_source import API, OpenAPISource
from toolscout.sources.openapi.operations import Operation, OperationFilter, OperationParameter
from toolscout.sources.openapi.requests import build_request

SHOP: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Shop", "version": "1"},
    "servers": [
        {"url": "https://{region}.example.com/v1", "variables": {"region": {"default": "eu"}}}
    ],
    "security": [{"key": []}],
    "paths": {
        "/orders/{id}": {
            "parameters": [{"$ref": "#/components/parameters/id"}],
            "get": {
                "operationId": "orders/get",
                "summary": "Get an order",
                "tags": ["orders"],
                "parameters": [
                    {
                        "name": "fields",
                        "in": "query",
                        "schema": {"type": "array", "items": {"type": "string"}},
                    },
                    {
                        "name": "filter",
                        "in": "query",
                        "style": "deepObject",
                        "schema": {"type": "object"},
                    },
                    {
                        "name": "tags",
                        "in": "query",
                        "explode": False,
                        "schema": {"type": "array", "items": {"type": "string"}},
                    },
                    {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                    {"name": "theme", "in": "cookie", "schema": {"type": "string"}},
                ],
            },
            "delete": {"operationId": "orders/delete", "deprecated": True},
        },
        "/orders": {
            "post": {
                "operationId": "orders/create",
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/Order"}}
                    },
                },
            }
        },
        "/notes": {
            "put": {"requestBody": {"content": {"text/plain": {"schema": {"type": "string"}}}}},
            "post": {
                "operationId": "notes/upload",
                "requestBody": {
                    "content": {"application/octet-stream": {"schema": {"type": "string"}}}
                },
            },
        },
        "/login": {
            "post": {
                "operationId": "login",
                "security": [],
                "requestBody": {
                    "content": {
                        "application/x-www-form-urlencoded": {
                            "schema": {"type": "object", "properties": {"user": {"type": "string"}}}
                        }
                    }
                },
            }
        },
    },
    "components": {
        "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}},
        "parameters": {
            "id": {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
        },
        "schemas": {
            "Order": {
                "type": "object",
                "required": ["item"],
                "properties": {
                    "item": {"type": "string", "nullable": True, "example": "tea"},
                    "count": {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
                    "parent": {"$ref": "#/components/schemas/Order"},
                },
            }
        },
    },
}


class Seen:
    """What the API was asked, and what it answers."""

    def __init__(self) -> None:
        self.text = ""
        self.keeps_open = False
        self.reply = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{}"

    @property
    def line(self) -> str:
        return self.text.split("\r\n")[0]

    @property
    def body(self) -> str:
        return self.text.partition("\r\n\r\n")[2]

    def header(self, name: str) -> str:
        lines = self.text.split("\r\n")
        return next((h.split(": ", 1)[1] for h in lines if h.lower().startswith(name + ":")), "")


@asynccontextmanager
async def shop(folder: Path, **options: Any) -> AsyncIterator[tuple[OpenAPISource, Seen]]:
    """The API behind its document, on loopback."""
    seen = Seen()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        seen.text = head.decode()
        size = int(seen.header("content-length") or 0)
        seen.text += (await reader.readexactly(size)).decode()
        writer.write(seen.reply)
        await writer.drain()
        if seen.keeps_open:
            await reader.read()
        writer.close()
        await writer.wait_closed()

    def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers.append(asyncio.create_task(answer(reader, writer)))

    answers: list[asyncio.Task[None]] = []
    server = await asyncio.start_server(served, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    path = folder / "shop.json"
    document = options.pop("document", SHOP)
    base = f"http://127.0.0.1:{port}"
    path.write_text(json.dumps(document(base) if callable(document) else document))
    options = {"base_url": f"{base}/v1", **options}
    source = OpenAPISource(API(name="shop", document=str(path), **options))
    try:
        yield source, seen
    finally:
        await source.close()
        server.close()
        await asyncio.gather(*answers, return_exceptions=True)


async def call(source: OpenAPISource, name: str, /, **arguments: Any) -> Result:
    tool = next(t for t in await source.tools() if t.local_name == name)
    return await source.call(tool, arguments)


async def test_operations_are_tools_with_their_parameters(tmp_path: Path) -> None:
    async with shop(tmp_path) as (source, _):
        tools = {t.local_name: t for t in await source.tools()}
        order = tools["orders/get"]
        assert (order.name, order.title, order.category) == (
            "shop__orders_get",
            "Get an order",
            "orders",
        )
        names = {p.name: p.required for p in order.parameters.top_level()}
        assert names == {
            "fields": False,
            "filter": False,
            "tags": False,
            "X-Trace": False,
            "theme": False,
            "id": True,
        }
        assert order.annotations == Annotations(read_only=True, idempotent=True, open_world=True)
        gone = tools["orders/delete"].annotations
        assert gone is not None
        assert gone.destructive
        assert tools["orders/delete"].description.startswith("Deprecated.")
        assert "put /notes" in tools


async def test_schemas_of_3_0_become_json_schema(tmp_path: Path) -> None:
    async with shop(tmp_path) as (source, _):
        create = next(t for t in await source.tools() if t.local_name == "orders/create")
        schema = create.parameters.value
        assert schema["properties"]["item"] == {"type": ["string", "null"]}
        assert schema["properties"]["count"] == {"type": "integer", "exclusiveMinimum": 0}
        assert schema["properties"]["parent"] == {"$ref": "#/$defs/Order"}
        assert schema["required"] == ["item"]
        assert schema["$defs"]["Order"]["properties"]["parent"] == {"$ref": "#/$defs/Order"}


async def test_arguments_travel_as_the_document_says(tmp_path: Path) -> None:
    async with shop(tmp_path, auth={"key": "s3cret-key"}) as (source, seen):
        seen.reply = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{"total": 3}'
        result = await call(
            source,
            "orders/get",
            id="a/b ?",
            fields=["x", "y"],
            filter={"open": True},
            tags=["p", "q"],
            theme="dark",
            **{"X-Trace": "t1"},
        )
        assert result.value == {"total": 3}
        path, _, query = seen.line.split()[1].partition("?")
        assert path == "/v1/orders/a%2Fb%20%3F"
        assert unquote(query).split("&") == [
            "fields=x",
            "fields=y",
            "filter[open]=true",
            "tags=p,q",
        ]
        assert seen.header("x-trace") == "t1"
        assert seen.header("cookie") == "theme=dark"
        assert seen.header("x-key") == "s3cret-key"


async def test_bodies_are_json_forms_text_or_bytes(tmp_path: Path) -> None:
    async with shop(tmp_path) as (source, seen):
        await call(source, "orders/create", item="tea", count=2)
        assert json.loads(seen.body) == {"item": "tea", "count": 2}
        assert seen.header("content-type") == "application/json"
        await call(source, "login", user="a b&c")
        assert seen.body == "user=a%20b%26c"
        await call(source, "put /notes", body="plain words")
        assert seen.body == "plain words"
        await call(source, "notes/upload", body=base64.b64encode(b"raw").decode())
        assert seen.body == "raw"
        with pytest.raises(InvalidArgumentsError, match="base64"):
            await call(source, "notes/upload", body="not base64!")


async def test_a_refusal_is_a_result_that_hides_the_secret(tmp_path: Path) -> None:
    async with shop(tmp_path, headers={"Authorization": "Bearer s3cret-token"}) as (source, seen):
        seen.reply = b"HTTP/1.1 403 Forbidden\r\n\r\nbad token s3cret-token"
        refused = await call(source, "orders/get", id="1")
        assert refused.is_error
        assert "HTTP 403" in refused.text
        assert "s3cret" not in refused.text
        assert seen.header("authorization") == "Bearer s3cret-token"


async def test_a_refusal_hides_the_credentials_as_they_were_sent(tmp_path: Path) -> None:
    login = "apiuser:p4ss/w0rd&1"
    auth = {"securitySchemes": {"key": {"type": "http", "scheme": "basic"}}}
    document = {**SHOP, "components": {**SHOP["components"], **auth}}
    async with shop(tmp_path, document=document, auth={"key": login}) as (source, seen):
        sent = f"Basic {base64.b64encode(login.encode()).decode()}"
        wrong = f"{sent} {json.dumps(sent)[1:-3]} {quote(login, safe='')} {html.escape(login)}"
        wrong += " p4ss/w0rd&1"
        seen.reply = f"HTTP/1.1 403 Forbidden\r\n\r\n{wrong}".encode()
        refused = await call(source, "orders/get", id="1")
        assert seen.header("authorization") == sent
        assert refused.text == "HTTP 403 Forbidden: Basic ••• Basic ••• ••• ••• •••"


@pytest.mark.parametrize(
    ("reply", "kind", "said"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", "text", "HTTP 204 No Content"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\n\r\nPNG", "image", ""),
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<p>", "text", "<p>"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: application/zip\r\n\r\nPK", "resource", ""),
        (b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{broken", "text", "{broken"),
    ],
)
async def test_answers_of_every_kind_are_results(
    tmp_path: Path, reply: bytes, kind: str, said: str
) -> None:
    async with shop(tmp_path) as (source, seen):
        seen.reply = reply
        result = await call(source, "orders/get", id="1")
        assert result.content[0].type == kind
        assert result.text == said


async def test_a_redirect_is_an_error_that_says_where_it_leads(tmp_path: Path) -> None:
    async with shop(tmp_path, headers={"X-Key": "s3cret-key"}) as (source, seen):
        seen.reply = b"HTTP/1.1 302 Found\r\nlocation: /v2/orders?key=s3cret-key\r\n\r\n"
        result = await call(source, "orders/get", id="1")
        assert result.is_error
        assert "HTTP 302 Found: it redirects to http://127.0.0.1:" in result.text
        assert "/v2/orders?key=•••, which is not followed" in result.text
        assert seen.line == "GET /v1/orders/1 HTTP/1.1"
        seen.reply = b"HTTP/1.1 304 Not Modified\r\n\r\n"
        assert (await call(source, "orders/get", id="1")).is_error


async def test_an_endless_answer_is_cut_off(tmp_path: Path) -> None:
    async with shop(tmp_path) as (source, seen):
        seen.reply = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 11_000_000
        result = await call(source, "orders/get", id="1")
        assert "larger than" in result.text


MAY_HAVE_RUN = "It may still have run: check before calling again."
SENT_AND_UNCLEAR = {
    "500": b"HTTP/1.1 500 Internal Server Error\r\n\r\nlost after commit",
    "503": b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\n\r\n",
    "504": b"HTTP/1.1 504 Gateway Timeout\r\n\r\n<html>",
    "408": b"HTTP/1.1 408 Request Timeout\r\n\r\n",
    "redirect": b"HTTP/1.1 303 See Other\r\nlocation: /v1/orders/7\r\n\r\n",
    "broken gzip": b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\nnot gzip",
    "cut off": b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{",
    "closed": b"",
    "not HTTP": b"220 ready\r\n\r\n",
    "too large": b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 11_000_000,
}


@pytest.mark.parametrize("reply", SENT_AND_UNCLEAR.values(), ids=SENT_AND_UNCLEAR.keys())
async def test_a_sent_call_without_a_clear_answer_says_that_it_may_have_run(
    tmp_path: Path, reply: bytes
) -> None:
    async with shop(tmp_path) as (source, seen):
        seen.reply = reply
        with pytest.raises(SourceError) as caught:
            await call(source, "orders/create", item="tea")
        assert seen.line == "POST /v1/orders HTTP/1.1"
        assert str(caught.value).endswith(MAY_HAVE_RUN)
        assert "Cannot reach" not in str(caught.value)
        # A call that is safe to repeat does not need the warning.
        text = ""
        try:
            text = (await call(source, "orders/get", id="1")).text
        except SourceError as error:
            text = str(error)
        assert "shop" in text or "HTTP" in text or "larger than" in text
        assert "may still have run" not in text


async def test_a_sent_call_that_gets_no_answer_in_time_says_that_it_may_have_run(
    tmp_path: Path,
) -> None:
    async with shop(tmp_path, timeout_seconds=0.3) as (source, seen):
        seen.reply, seen.keeps_open = b"", True
        with pytest.raises(SourceError) as caught:
            await call(source, "orders/create", item="tea")
        assert "did not answer within 0.3 seconds" in str(caught.value)
        assert str(caught.value).endswith(MAY_HAVE_RUN)


async def test_a_refused_call_or_one_that_was_not_sent_does_not_claim_that_it_may_have_run(
    tmp_path: Path,
) -> None:
    async with shop(tmp_path) as (source, seen):
        for status in ("400 Bad Request", "409 Conflict", "429 Too Many Requests"):
            seen.reply = f"HTTP/1.1 {status}\r\n\r\nno".encode()
            refused = await call(source, "orders/create", item="tea")
            assert refused.is_error
            assert refused.text == f"HTTP {status}: no"
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    async with shop(tmp_path, base_url=f"http://127.0.0.1:{port}") as (source, _):
        with pytest.raises(SourceError, match="Cannot reach shop") as caught:
            await call(source, "orders/create", item="tea")
        assert "may still have run" not in str(caught.value)


async def test_filters_choose_operations(tmp_path: Path) -> None:
    for filters, expected in (
        (OperationFilter(include=("orders/*",)), {"orders/get", "orders/delete", "orders/create"}),
        (OperationFilter(exclude=("orders", "/orders*", "/notes", "login")), set[str]()),
        (OperationFilter(methods=("get",)), {"orders/get"}),
        (OperationFilter(include=("orders",)), {"orders/get"}),
    ):
        async with shop(tmp_path, filters=filters) as (source, _):
            assert {t.local_name for t in await source.tools()} == expected


async def test_the_servers_variables_are_filled_in_and_inside_is_not_reached(
    tmp_path: Path,
) -> None:
    document = {
        **SHOP,
        "servers": [
            {"url": "http://{host}:9", "variables": {"host": {"default": "169.254.169.254"}}}
        ],
    }
    path = tmp_path / "inside.json"
    path.write_text(json.dumps(document))
    source = OpenAPISource(API(name="inside", document=str(path)))
    with pytest.raises(SourceError, match="not a public address"):
        await call(source, "orders/get", id="1")
    await source.close()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "neither JSON nor YAML"),
        ("- a\n- b", "does not contain"),
        ('{"swagger": "2.0"}', "no version of OpenAPI"),
        ("openapi: 4.0.0", "version 4.0.0"),
    ],
)
async def test_an_invalid_document_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(SourceError, match=says):
        await OpenAPISource.from_path(path).tools()
    with pytest.raises(SourceError, match="Cannot read"):
        await OpenAPISource.from_path(tmp_path / "none.json").tools()


async def test_yaml_and_3_1_are_read_and_oddities_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(
        """
        openapi: 3.1.0
        paths:
          /a:
            get: {parameters: [{name: x, in: nowhere}, {in: query}, {$ref: '#/missing'}]}
            post: not an operation
          /b: {$ref: '#/missing'}
          /c:
            get: {operationId: twice}
            put: {operationId: twice}
        """
    )
    tools = await OpenAPISource.from_path(path).tools()
    assert [t.local_name for t in tools] == ["get /a", "twice", "put /c"]


GET = Operation(
    tool=Tool(name="t"),
    method="get",
    path="/files/{name}/raw",
    parameters=(OperationParameter("name", "name", "path", "simple", explodes=False),),
)


@given(st.text(min_size=1))
def test_no_argument_leaves_its_segment_of_the_path(name: str) -> None:
    try:
        path = build_request(GET, {"name": name}).path
    except InvalidArgumentsError:
        assert name in (".", "..")
        return
    assert path.count("/") == 3
    assert ".." not in path.split("/")
    assert unquote(path.split("/")[2]) == name


def one(operation: dict[str, Any], *, path: str = "/x", **more: Any) -> dict[str, Any]:
    """A document of one operation, called `it`."""
    method = "post" if "requestBody" in operation else "get"
    item = {method: {"operationId": "it", **operation}, **more.pop("item", {})}
    return {"openapi": "3.0.3", "info": {}, "paths": {path: item}, **more}


def body(schema: dict[str, Any], media: str = "application/json") -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {media: {"schema": schema}}}}


async def test_a_form_of_several_parts_carries_files_lists_and_objects(tmp_path: Path) -> None:
    fields = {
        "file": {"type": "string", "format": "binary"},
        "label": {"type": "array", "items": {"type": "string"}},
        "about": {"type": "object"},
    }
    document = one(body({"type": "object", "properties": fields}, "multipart/form-data"))
    async with shop(tmp_path, document=document) as (source, seen):
        data = base64.b64encode(b"raw bytes").decode()
        await call(source, "it", file=data, label=["a", "b"], about={"x": 1})
        text = f"content-type: {seen.header('content-type')}\r\n\r\n{seen.body}"
        parts = message_from_string(text).get_payload()
        assert isinstance(parts, list)
        sent = [(p.get_param("name", header="content-disposition"), p.get_payload()) for p in parts]
        assert sent == [
            ("file", "raw bytes"),
            ("label", "a"),
            ("label", "b"),
            ("about", '{"x": 1}'),
        ]
        assert parts[0].get_filename() == "file"
        with pytest.raises(InvalidArgumentsError, match="file is a file: it must be base64"):
            await call(source, "it", file="not base64!")


@pytest.mark.parametrize(
    ("media", "sent"),
    [
        ("application/json", "{}"),
        ("application/x-www-form-urlencoded", ""),
        ("multipart/form-data", "--MARK--\r\n"),
    ],
)
async def test_a_body_that_must_be_there_is_sent_with_nothing_in_it(
    tmp_path: Path, media: str, sent: str
) -> None:
    document = one(body({"type": "object", "properties": {"limit": {"type": "integer"}}}, media))
    async with shop(tmp_path, document=document) as (source, seen):
        await call(source, "it")
        kind, _, mark = seen.header("content-type").partition("; boundary=")
        assert kind == media
        assert seen.body == sent.replace("MARK", mark)


async def test_a_body_that_may_be_left_out_is_left_out(tmp_path: Path) -> None:
    operation = body({"type": "object", "properties": {"limit": {"type": "integer"}}})
    operation["requestBody"]["required"] = False
    async with shop(tmp_path, document=one(operation)) as (source, seen):
        await call(source, "it")
        assert (seen.header("content-type"), seen.body) == ("", "")


async def test_a_list_in_a_form_is_its_field_again_and_again(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"tag": {"type": "array"}}}
    document = one(body(schema, "application/x-www-form-urlencoded"))
    async with shop(tmp_path, document=document) as (source, seen):
        await call(source, "it", tag=["a", "b"])
        assert seen.body == "tag=a&tag=b"


async def test_nobody_is_asked_for_what_only_stands_in_answers(tmp_path: Path) -> None:
    properties = {
        "id": {"type": "integer", "readOnly": True},
        "name": {"type": "string"},
        "inner": {"$ref": "#/components/schemas/Pet"},
    }
    pet = {"type": "object", "required": ["id", "name"], "properties": properties}
    document = one(body({"$ref": "#/components/schemas/Pet"}), components={"schemas": {"Pet": pet}})
    async with shop(tmp_path, document=document) as (source, seen):
        (tool,) = await source.tools()
        schema = tool.parameters.value
        for table in (schema, schema["$defs"]["Pet"]):
            assert table["required"] == ["name"]
            assert set(table["properties"]) == {"name", "inner"}
        await call(source, "it", name="Rex")
        assert json.loads(seen.body) == {"name": "Rex"}


@pytest.mark.parametrize(
    ("style", "explode", "value", "written"),
    [
        ("simple", False, {"a": 1, "b": 2}, "a,1,b,2"),
        ("simple", True, {"a": 1, "b": 2}, "a=1,b=2"),
        ("label", False, "x", ".x"),
        ("label", True, ["x", "y/z"], ".x.y%2Fz"),
        ("matrix", False, "m m", ";id=m%20m"),
        ("matrix", False, ["x", "y"], ";id=x,y"),
        ("matrix", True, ["x", "y"], ";id=x;id=y"),
        ("matrix", True, {"a": 1, "b": 2}, ";a=1;b=2"),
    ],
)
def test_paths_are_written_in_every_style(
    style: str, explode: bool, value: Any, written: str
) -> None:
    operation = Operation(
        tool=Tool(name="t"),
        method="get",
        path="/{id}/raw",
        parameters=(OperationParameter("id", "id", "path", style, explodes=explode),),
    )
    assert build_request(operation, {"id": value}).path == f"/{written}/raw"


async def test_a_header_that_cannot_be_sent_is_reported(tmp_path: Path) -> None:
    document = one({"parameters": [{"name": "X-Name", "in": "header"}]})
    async with shop(tmp_path, document=document) as (source, _):
        with pytest.raises(InvalidArgumentsError, match="must be ASCII"):
            await call(source, "it", **{"X-Name": "Jürgen"})


async def test_the_nearest_server_is_asked_unless_the_address_is_given(tmp_path: Path) -> None:
    def document(base: str) -> dict[str, Any]:
        near = {"servers": [{"url": f"{base}/near"}]}
        return one({}, item=near, servers=[{"url": f"{base}/far"}])

    async with shop(tmp_path, document=document, base_url="") as (source, seen):
        await call(source, "it")
        assert seen.line.split()[1] == "/near/x"
    async with shop(tmp_path, document=document) as (source, seen):
        await call(source, "it")
        assert seen.line.split()[1] == "/v1/x"


async def test_a_call_that_comes_while_the_source_closes_is_answered_and_the_closing_ends(
    tmp_path: Path,
) -> None:
    def document(base: str) -> dict[str, Any]:
        paths = {
            f"/{name}": {"servers": [{"url": f"{base}/{name}"}], "get": {"operationId": name}}
            for name in ("near", "far")
        }
        return {"openapi": "3.0.3", "info": {}, "paths": paths}

    async with shop(tmp_path, document=document, base_url="") as (source, seen):
        seen.keeps_open = True
        seen.reply = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
        await call(source, "near")
        calling = asyncio.create_task(call(source, "far"))
        await source.close()
        assert not (await calling).is_error


async def test_a_closed_source_may_be_used_again(tmp_path: Path) -> None:
    async with shop(tmp_path, document=one({})) as (source, _):
        await call(source, "it")
        await source.close()
        assert not (await call(source, "it")).is_error


async def test_a_secret_is_used_though_saying_nothing_is_allowed_too(tmp_path: Path) -> None:
    schemes = {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}
    document = one({"security": [{}, {"key": []}]}, components={"securitySchemes": schemes})
    async with shop(tmp_path, document=document, auth={"key": "s3cret-key"}) as (source, seen):
        await call(source, "it")
        assert seen.header("x-key") == "s3cret-key"


async def test_dates_of_yaml_stay_the_texts_they_are(tmp_path: Path) -> None:
    path = tmp_path / "dates.yaml"
    path.write_text(
        """
        openapi: 3.0.0
        info: {title: Dates, version: 2020-01-01}
        paths:
          /a:
            get:
              operationId: dated
              parameters:
                - {name: since, in: query, schema: {type: string, default: 2020-01-01}}
        """
    )
    (tool,) = await OpenAPISource.from_path(path).tools()
    assert tool.parameters.value["properties"]["since"]["default"] == "2020-01-01"


async def test_unusable_parts_of_a_document_are_named_and_the_rest_works(
    tmp_path: Path,
) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(
        """
        openapi: 3.0.0
        paths:
          /a:
            get:
              operationId: odd
              parameters: [{name: n, in: query, schema: {type: number, default: .nan}}]
          /b:
            get: {operationId: good, parameters: [{$ref: 'other.yaml#/p'}]}
        """
    )
    source = OpenAPISource(API(name="odd", document=str(path), auth={"kay": "s3cret-key"}))
    assert [t.local_name for t in await source.tools()] == ["good"]
    told = " ".join(source.problems)
    assert "'odd' is skipped" in told
    assert "other.yaml#/p" in told
    assert "'kay'" in told
    assert "s3cret" not in told
