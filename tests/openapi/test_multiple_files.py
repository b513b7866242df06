"""Documents spread over several files: what is followed, from where, and what is told."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import tarfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.gateway import node

from toolscout.catalog.tool import Tool
from toolscout.errors import SourceError
from toolscout.sources.openapi.api_source import API, OpenAPISource
from toolscout.sources.openapi.operations import OperationFilter

MAIN = """
openapi: 3.1.0
info: {title: Pets, version: '1'}
paths:
  /pets:
    $ref: paths/pets.yaml
  /owners/{id}:
    get: {$ref: './paths/owners.yml#/operations/read~1one'}
  /plain:
    get: {operationId: plain}
components:
  schemas:
    $ref: schemas/_index.yaml
    """

SPREAD = {
    "openapi.yaml": MAIN,
    "paths/pets.yaml": """
post:
  operationId: addPet
  parameters: [{$ref: '../common.json#/parameters/trace'}]
  requestBody:
    content:
      application/json: {schema: {$ref: ../schemas/pet.yaml}}
    """,
    "paths/owners.yml": """
shared: {name: id, in: path, required: true, schema: {type: integer}}
operations:
  read/one: {operationId: readOwner, parameters: [{$ref: '#/shared'}]}
    """,
    "schemas/_index.yaml": "Pet: {$ref: pet.yaml}\nOwner: {$ref: './owner.json'}\n",
    "schemas/pet.yaml": """
$schema: https://json-schema.org/draft/2020-12/schema
$id: https://example.com/pet
type: object
required: [name]
properties:
  name: {type: string}
  mother: {$ref: '#'}
  tag: {$ref: '#/$defs/tag'}
  owner: {$ref: '../openapi.yaml#/components/schemas/Owner'}
  error: {$ref: '../common.json#/Error'}
$defs:
  tag: {type: string, maxLength: 8}
    """,
    "schemas/owner.json": json.dumps(
        {"type": "object", "properties": {"pets": {"type": "array", "items": {"$ref": "pet.yaml"}}}}
    ),
    "common.json": json.dumps(
        {
            "parameters": {
                "trace": {"name": "X-Trace", "in": "header", "schema": {"$ref": "#/Error"}}
            },
            "Error": {"type": "string"},
        }
    ),
}
TOOLS = ["addPet", "readOwner", "plain"]


def lay(folder: Path, files: Mapping[str, str]) -> Path:
    """Files on disk; the path of the first."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / next(iter(files))


def referring(*references: str, **more: Any) -> str:
    """A document of one operation for each reference, which is its parameter."""
    paths = {
        f"/{number}": {"get": {"operationId": f"op{number}", "parameters": [{"$ref": reference}]}}
        for number, reference in enumerate(references)
    }
    return json.dumps({"openapi": "3.0.3", "paths": paths, **more})


async def listed(document: Path | str, **options: Any) -> tuple[dict[str, Tool], str]:
    """The tools of a document by their own names, and all that is told about it."""
    source = OpenAPISource(API(name="api", document=str(document), **options))
    tools = await source.tools()
    return {t.local_name: t for t in tools}, "\n".join(source.problems)


@asynccontextmanager
async def served(
    files: Mapping[str, str], status: Callable[[str], str] = lambda _: "200 OK"
) -> AsyncIterator[tuple[str, list[str]]]:
    """The files on loopback: their address, and the requests for them."""
    heads: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        heads.append(head)
        name = head.split()[1].partition("?")[0].lstrip("/")
        text = files.get(name)
        line = "404 Not Found" if text is None else status(name)
        body = (text or "").encode()
        writer.write(f"HTTP/1.1 {line}\r\ncontent-length: {len(body)}\r\n".encode())
        writer.write(b"connection: close\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", heads
    finally:
        server.close()


def asked(heads: list[str]) -> list[str]:
    return [head.split()[1] for head in heads]


def are_the_pets(tools: Mapping[str, Tool]) -> None:
    assert list(tools) == TOOLS
    schema = tools["addPet"].parameters.value
    assert schema["properties"] == {
        "X-Trace": {"$ref": "#/$defs/Error"},
        "name": {"type": "string"},
        "mother": {"$ref": "#/$defs/pet"},
        "tag": {"$ref": "#/$defs/tag"},
        "owner": {"$ref": "#/$defs/Owner"},
        "error": {"$ref": "#/$defs/Error"},
    }
    definitions = schema["$defs"]
    assert set(definitions) == {"Error", "pet", "tag", "Owner", "owner"}
    assert definitions["Owner"] == {"$ref": "#/$defs/owner"}
    assert definitions["owner"]["properties"]["pets"]["items"] == {"$ref": "#/$defs/pet"}
    assert definitions["tag"] == {"type": "string", "maxLength": 8}
    assert definitions["pet"]["required"] == ["name"]
    assert not {"$id", "$schema", "$defs"} & set(definitions["pet"])
    (owner,) = tools["readOwner"].parameters.top_level()
    assert (owner.name, owner.required) == ("id", True)


async def test_files_are_followed_from_where_each_reference_stands(tmp_path: Path) -> None:
    tools, told = await listed(lay(tmp_path, SPREAD))
    are_the_pets(tools)
    assert told == ""


async def test_a_document_in_a_folder_that_is_a_link_is_followed_too(tmp_path: Path) -> None:
    lay(tmp_path / "there", SPREAD)
    (tmp_path / "here").symlink_to(tmp_path / "there")
    tools, told = await listed(tmp_path / "here" / "openapi.yaml")
    are_the_pets(tools)
    assert told == ""


async def test_two_definitions_of_one_name_stay_two(tmp_path: Path) -> None:
    document = {
        "openapi": "3.0.3",
        "paths": {
            "/a": {
                "get": {
                    "operationId": "a",
                    "parameters": [
                        {"name": n, "in": "query", "schema": {"$ref": reference}}
                        for n, reference in {
                            "mine": "#/components/schemas/Id",
                            "theirs": "other.json#/components/schemas/Id",
                            "file": "id%20s.json",
                            "again": "./id%20s.json#/",
                        }.items()
                    ],
                }
            }
        },
        "components": {"schemas": {"Id": {"type": "integer"}}},
    }
    other = {"components": {"schemas": {"Id": {"type": "string"}}}}
    files = {"api.json": json.dumps(document), "other.json": json.dumps(other)}
    tools, told = await listed(lay(tmp_path, {**files, "id s.json": '{"type": "boolean"}'}))
    schema = tools["a"].parameters.value
    assert {n: v["$ref"] for n, v in schema["properties"].items()} == {
        "mine": "#/$defs/Id",
        "theirs": "#/$defs/Id_2",
        "file": "#/$defs/id_s",
        "again": "#/$defs/id_s",
    }
    kinds = {name: value["type"] for name, value in schema["$defs"].items()}
    assert kinds == {"Id": "integer", "Id_2": "string", "id_s": "boolean"}
    assert told == ""


async def test_only_files_that_some_wanted_operation_needs_are_read() -> None:
    answers = {"200": {"$ref": "answer.json"}}
    operation = {"parameters": [{"$ref": "p.json"}], "responses": answers}
    unwanted = {"parameters": [{"$ref": "unwanted.json"}]}
    item = {"get": operation, "put": operation, "post": unwanted}
    document = {"openapi": "3.0.3", "paths": {"/a": item}}
    files = {"api.json": json.dumps(document), "p.json": '{"name": "q", "in": "query"}'}
    async with served(files) as (url, heads):
        filters = OperationFilter(methods=("get", "put"))
        tools, told = await listed(f"{url}/api.json", filters=filters)
        assert [[p.name for p in t.parameters.top_level()] for t in tools.values()] == [
            ["q"],
            ["q"],
        ]
        assert asked(heads) == ["/api.json", "/p.json"]
        assert told == ""


async def test_a_reference_that_cannot_be_followed_is_reported_where_needed_and_the_rest_works(
    tmp_path: Path,
) -> None:
    references = {
        "gone.yaml": "there is no such file",
        "bad.yaml": "Not valid YAML",
        "bad.json": "Cannot be read",
        "latin.yaml": "it is not UTF-8",
        "good.json#/nowhere": "there is nothing at that place",
        "good.json#list/7": "it is not a path",
        "good.json#/list/7": "there is nothing at that place",
        "#/nowhere": "there is nothing at that place",
        "round.json": "it is longer than 32 references, or circular",
        "empty.yaml#/a": "there is nothing at that place",
    }
    files = {
        "api.json": referring(*references, "good.json#/list/0"),
        "bad.yaml": "a: [",
        "bad.json": '{"a": ',
        "good.json": '{"list": [{"name": "q", "in": "query"}]}',
        "round.json": '{"$ref": "other.json"}',
        "other.json": '{"$ref": "round.json"}',
        "empty.yaml": "",
    }
    path = lay(tmp_path, files)
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9")
    tools, told = await listed(path)
    assert list(tools) == [f"op{n}" for n in range(len(references) + 1)]
    assert [p.name for p in list(tools.values())[-1].parameters.top_level()] == ["q"]
    lines = told.splitlines()
    assert len(lines) == len(references)
    for number, (reference, why) in enumerate(references.items()):
        if reference != "round.json":  # of a circle, either end may be named
            assert lines[number].startswith(f"{reference} cannot be followed: {why}")
        assert why in lines[number]
        assert lines[number].endswith(f"It is needed by 'op{number}'.")


async def test_many_users_of_one_file_are_reported_in_one_line(tmp_path: Path) -> None:
    _, told = await listed(lay(tmp_path, {"api.json": referring(*["gone.json"] * 7)}))
    assert told.count("\n") == 0
    assert "'op0', 'op1', 'op2', 'op3', 'op4' and 2 more" in told
    _, told = await listed(
        lay(tmp_path, {"api.json": referring(*(f"{n}.json" for n in range(30)))})
    )
    assert told.splitlines()[-1] == "10 more references cannot be followed."


async def test_an_unreadable_path_or_operation_is_reported_by_its_name(
    tmp_path: Path,
) -> None:
    paths = {"/a": {"$ref": "gone.yaml"}, "/b": {"get": {"$ref": "gone.yaml#/b"}, "put": {}}}
    text = json.dumps({"openapi": "3.0.3", "paths": paths})
    tools, told = await listed(lay(tmp_path, {"api.json": text}))
    assert list(tools) == ["put /b"]
    assert "gone.yaml cannot be followed: there is no such file. It is needed by '/a'." in told
    assert "It is needed by 'get /b'." in told


async def test_no_file_outside_the_documents_folder_is_read(tmp_path: Path) -> None:
    parameter = '{"name": "s3cret", "in": "query"}'
    outside = lay(tmp_path, {"outside.json": parameter})
    references = {
        "../outside.json": "../outside.json",
        "in/../../outside.json": "../outside.json",
        "%2e%2e/outside.json": "%2e%2e/outside.json",
        "link.json": "link.json",
        "linked/outside.json": "linked/outside.json",
        str(outside): str(outside),
        f"%2F{str(outside)[1:]}": f"%2F{str(outside)[1:]}",
        outside.as_uri(): outside.as_uri(),
        "http://127.0.0.1:9/outside.json": "http://127.0.0.1:9/outside.json",
        "//127.0.0.1:9/outside.json": "//127.0.0.1:9/outside.json",
        "http://[::1/outside.json": "http://[::1/outside.json",
        "in/a%00b.json": "in/a%00b.json",
        "loop.json": "loop.json",
        "notes.txt": "notes.txt",
        "in": "in",
    }
    folder = tmp_path / "api"
    files = {"api.json": referring(*references), "in/x.json": parameter, "notes.txt": parameter}
    path = lay(folder, files)
    (folder / "link.json").symlink_to(outside)
    (folder / "linked").symlink_to(tmp_path)
    (folder / "loop.json").symlink_to("loop.json")
    tools, told = await listed(path)
    assert len(tools) == len(references)
    assert not any(tool.parameters.top_level() for tool in tools.values())
    for reference in references.values():
        assert f"{reference} cannot be followed: " in told
    for words in ("it is outside", "only files in the document's folder", "does not end in .json"):
        assert words in told


async def test_a_document_has_bounds_however_it_is_spread(tmp_path: Path) -> None:
    chain = {f"{n}.json": json.dumps({"$ref": f"{n + 1}.json"}) for n in range(40)}
    _, told = await listed(lay(tmp_path, {"api.json": referring("0.json"), **chain}))
    assert "it is longer than 32 references" in told

    deep = {
        f"{n}.json": json.dumps({"properties": {"a": {"$ref": f"{n + 1}.json"}}}) for n in range(40)
    }
    schema = {"name": "q", "in": "query", "schema": {"$ref": "0.json"}}
    main = referring("#/q", q=schema)
    _, told = await listed(lay(tmp_path, {"api.json": main, **deep}))
    assert "32.json cannot be followed: it is more than 32 files away" in told

    crowd = {f"n{n}.json": "{}" for n in range(2_010)}
    tools, told = await listed(lay(tmp_path, {"api.json": referring(*crowd), **crowd}))
    assert len(tools) == 2_010
    assert told.count("the document has more than 2,000 files") == 10

    (tmp_path / "big.json").write_bytes(b"{" + b" " * 70_000_000 + b"}")
    _, told = await listed(lay(tmp_path, {"api.json": referring("big.json")}))
    assert "big.json cannot be followed: the document is larger than 64 MB" in told
    with pytest.raises(SourceError, match="larger than 64 MB"):
        await listed(tmp_path / "big.json")


async def test_yaml_that_would_break_a_parser_fails_only_for_its_users(tmp_path: Path) -> None:
    bomb = ["a0: &a0 {type: string}"]
    bomb += [f"a{n}: &a{n} {{allOf: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 12)]
    files = {
        "api.json": referring("deep.yaml", "bomb.yaml#/p", "endless.yaml#/p", "fine.yaml"),
        "deep.yaml": "[" * 200_000,
        "bomb.yaml": "\n".join([*bomb, "p: {name: q, in: query, schema: *a11}"]),
        "endless.yaml": "p: {name: q, in: query, schema: &s {not: *s}}",
        "fine.yaml": "{name: q, in: query}",
    }
    tools, told = await listed(lay(tmp_path, files))
    assert [p.name for p in tools["op3"].parameters.top_level()] == ["q"]
    assert "nested more than 200 levels deep" in told
    for name, operation in (("bomb", "op1"), ("endless", "op2")):
        why = "Not valid YAML: more than 5,000,000 values, with each alias written out"
        needed = f"It is needed by {operation!r}."
        assert f"{name}.yaml#/p cannot be followed: {why}. {needed}" in told
    with pytest.raises(SourceError, match="200 levels"):
        await listed(tmp_path / "deep.yaml")


async def test_the_parts_of_a_path_are_asked_for_though_nobody_declares_them(
    tmp_path: Path,
) -> None:
    item = {"get": {"operationId": "it", "parameters": [{"$ref": "gone.json"}]}}
    text = json.dumps({"openapi": "3.0.3", "paths": {"/a/{id}": item}})
    tools, told = await listed(lay(tmp_path, {"api.json": text}))
    (part,) = tools["it"].parameters.top_level()
    assert (part.name, part.required) == ("id", True)
    assert "gone.json" in told


async def test_a_security_scheme_may_stand_in_a_file_of_its_own(tmp_path: Path) -> None:
    async with served({"a": "{}"}) as (url, heads):
        schemes = {"key": {"$ref": "auth.yaml#/key"}}
        document = {
            "openapi": "3.0.3",
            "security": [{"key": []}],
            "paths": {"/a": {"get": {"operationId": "it"}}},
            "components": {"securitySchemes": schemes},
        }
        files = {
            "api.json": json.dumps(document),
            "auth.yaml": "key: {type: apiKey, in: header, name: X-Key}",
        }
        api = API(
            name="api",
            document=str(lay(tmp_path, files)),
            base_url=url,
            auth={"key": "s3cret-key"},
        )
        source = OpenAPISource(api)
        (tool,) = await source.tools()
        await source.call(tool, {})
        await source.close()
        assert "s3cret-key" in heads[0]
        assert source.problems == ()


async def test_files_are_fetched_from_the_documents_own_host() -> None:
    async with served({f"spec/{name}": text for name, text in SPREAD.items()}) as (url, heads):
        tools, told = await listed(f"{url}/spec/openapi.yaml")
        are_the_pets(tools)
        assert told == ""
        assert sorted(asked(heads)) == sorted(f"/spec/{name}" for name in SPREAD)


async def test_no_other_host_is_asked_and_no_secret_travels() -> None:
    parameter = {"p.json": '{"name": "q", "in": "query"}'}
    async with served(parameter) as (other, others), served({}) as (closed, _):
        port = other.rpartition(":")[2]
        references = (
            f"{other}/p.json",
            f"//127.0.0.1:{port}/p.json",
            f"http://localhost:{port}/p.json",
            "http://169.254.169.254/p.json",
            "https://127.0.0.1/p.json",
            "file:///etc/hostname.json",
            "http://[::1/p.json",
            "moved.json",
            "p.json",
        )
        files = {"api.json": referring(*references), "moved.json": "", **parameter}

        def status(name: str) -> str:
            moved = name == "moved.json"
            return f"302 Found\r\nlocation: {other}/p.json" if moved else "200 OK"

        async with served(files, status) as (url, heads):
            address = url.replace("//", "//me:s3cret-word@") + "/api.json?key=s3cret-key"
            headers = {"Authorization": "Bearer s3cret-token"}
            tools, told = await listed(address, headers=headers, auth={}, base_url=closed)
            assert [n for n, t in tools.items() if t.parameters.top_level()] == ["op8"]
            assert others == []
            assert asked(heads) == ["/api.json?key=s3cret-key", "/moved.json", "/p.json"]
            assert "s3cret-token" not in "".join(heads)
        assert told.count("it is not on the document's own host") == 4  # two spell one address
        assert "file:///etc/hostname.json cannot be followed: it is not a valid URL" in told
        assert "moved.json cannot be followed: HTTP 302 Found" in told
        assert "http://[::1/p.json cannot be followed: it is not a valid URL" in told
        assert "s3cret" not in told


async def test_a_part_that_never_comes_ends_with_the_time_limit() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        body = referring("slow.json").encode() if b"/api.json" in head else b""
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (len(body) or 9))
        writer.write(body)
        await writer.drain()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    tools, told = await listed(f"{url}/api.json", timeout_seconds=0.5)
    server.close()
    assert list(tools) == ["op0"]
    assert "slow.json cannot be followed: it took more than 0.5 seconds" in told


def unpacked(package: str, version: str) -> Path:
    """What an npm package holds, without what it depends on."""
    folder = node.ROOT / f"{package.replace('/', '-')}-{version}"
    if not (folder / ".done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        npm = shutil.which("npm")
        assert npm is not None
        command = [npm, "pack", "--silent", f"{package}@{version}"]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (archive,) = folder.glob("*.tgz")
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")
        (folder / ".done").touch()
    return folder / "package"


@pytest.mark.skipif(bool(node.missing()), reason=node.missing() or "never")
@pytest.mark.parametrize("version", ["v1_0 v1.0", "v2_0_ISO20022 v2.0-ISO20022"])
async def test_a_real_api_in_files_has_the_tools_that_its_makers_bundle_has(version: str) -> None:
    folder, name = version.split()
    package = unpacked("@mojaloop/api-snippets", "17.10.2")
    spread, told = await listed(package / "fspiop" / folder / "openapi3" / "openapi.yaml")
    bundled, _ = await listed(package / "docs" / f"fspiop-rest-{name}-openapi3-snippets.yaml")
    assert spread == bundled
    assert len(spread) > 20
    assert told == ""
