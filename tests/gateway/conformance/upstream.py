"""What the conformance scenarios ask of a server, on the SDK's plain server, over stdio.

It speaks both generations: asking the client is a request of its own in the handshake one, and
an unfinished result in the stateless one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAF"
    "BQIAX8jx0gAAAABJRU5ErkJggg=="
)
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
EMPTY: dict[str, Any] = {"type": "object", "properties": {}}
Request = ServerRequestContext[Any, Any]
Answer = types.CallToolResult | types.InputRequiredResult


def text(said: str) -> types.TextContent:
    return types.TextContent(type="text", text=said)


def said(*blocks: Any, is_error: bool = False) -> types.CallToolResult:
    content = [text(b) if isinstance(b, str) else b for b in blocks]
    return types.CallToolResult(content=content, is_error=is_error)


def image() -> types.ImageContent:
    return types.ImageContent(type="image", data=PNG, mime_type="image/png")


def embedded(uri: str, content: str, mime: str = "text/plain") -> types.EmbeddedResource:
    inner = types.TextResourceContents(uri=uri, mime_type=mime, text=content)
    return types.EmbeddedResource(type="resource", resource=inner)


def is_stateless(ctx: Request) -> bool:
    return ctx.protocol_version >= "2026"


def elicit(message: str, properties: dict[str, Any], *required: str) -> types.ElicitRequest:
    schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    return types.ElicitRequest(
        params=types.ElicitRequestFormParams(message=message, requested_schema=schema)
    )


def sample(prompt: str, tokens: int = 100) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=text(prompt))
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[message], max_tokens=tokens)
    )


ROOTS = types.ListRootsRequest(params=types.RequestParams())
RESULTS: dict[str, Any] = {
    "elicitation/create": types.ElicitResult,
    "sampling/createMessage": types.CreateMessageResult,
    "roots/list": types.ListRootsResult,
}


def can(ctx: Request, request: Any) -> bool:
    has = ctx.session.client_capabilities or types.ClientCapabilities()
    return {
        "elicitation/create": has.elicitation,
        "sampling/createMessage": has.sampling,
        "roots/list": has.roots,
    }[request.method] is not None


async def ask(ctx: Request, params: Any, key: str, request: Any, state: str | None = None) -> Any:
    """The client's answer, or the unfinished result that asks for it."""
    if not is_stateless(ctx):
        return await ctx.session.send_request(
            request,
            RESULTS[request.method],
            metadata=ServerMessageMetadata(related_request_id=ctx.request_id),
        )
    answer = (params.input_responses or {}).get(key)
    if isinstance(answer, RESULTS[request.method]):
        return answer
    return types.InputRequiredResult(input_requests={key: request}, request_state=state)


# Tools


async def simple(ctx: Request, params: Any) -> Answer:
    return said("This is a simple text response for testing.")


async def pictures(ctx: Request, params: Any) -> Answer:
    return said(image())


async def sounds(ctx: Request, params: Any) -> Answer:
    return said(types.AudioContent(type="audio", data=WAV, mime_type="audio/wav"))


async def resource_in_result(ctx: Request, params: Any) -> Answer:
    return said(embedded("test://embedded-resource", "This is an embedded resource content."))


async def mixed(ctx: Request, params: Any) -> Answer:
    data = json.dumps({"test": "data", "value": 123})
    inner = embedded("test://mixed-content-resource", data, "application/json")
    return said("Multiple content types test:", image(), inner)


async def log_away(ctx: Request, params: Any) -> Answer:
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        notification = types.LoggingMessageNotification(
            params=types.LoggingMessageNotificationParams(level="info", data=line)
        )
        await ctx.session.send_notification(notification, related_request_id=ctx.request_id)
        await asyncio.sleep(0.05)
    return said("Logged.")


async def fail(ctx: Request, params: Any) -> Answer:
    return said("This tool intentionally returns an error for testing", is_error=True)


async def progress(ctx: Request, params: Any) -> Answer:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100)
        await asyncio.sleep(0.05)
    return said("Done.")


async def sampling(ctx: Request, params: Any) -> Answer:
    got = await ask(ctx, params, "answer", sample((params.arguments or {}).get("prompt", "")))
    if isinstance(got, types.InputRequiredResult):
        return got
    return said(f"LLM response: {got.content.text}")


async def elicitation(ctx: Request, params: Any) -> Answer:
    fields = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    request = elicit((params.arguments or {}).get("message", ""), fields, "username", "email")
    return await elicited(ctx, params, request, "User response")


async def defaults(ctx: Request, params: Any) -> Answer:
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    }
    return await elicited(ctx, params, elicit("Check these", fields), "Elicitation completed")


async def enums(ctx: Request, params: Any) -> Answer:
    options = ["option1", "option2", "option3"]
    titled = [{"const": o, "title": f"Title of {o}"} for o in options]
    fields = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": options, "enumNames": ["One", "Two", "Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return await elicited(ctx, params, elicit("Choose", fields), "Elicitation completed")


async def elicited(ctx: Request, params: Any, request: Any, words: str) -> Answer:
    got = await ask(ctx, params, "answer", request)
    if isinstance(got, types.InputRequiredResult):
        return got
    return said(f"{words}: action={got.action}, content={json.dumps(got.content)}")


NAME = {"name": {"type": "string"}}


async def needs_elicitation(ctx: Request, params: Any) -> Answer:
    got = await ask(ctx, params, "user_name", elicit("What is your name?", NAME, "name"))
    if isinstance(got, types.InputRequiredResult):
        return got
    return said(f"Hello, {(got.content or {}).get('name')}!")


async def needs_sampling(ctx: Request, params: Any) -> Answer:
    got = await ask(ctx, params, "capital_question", sample("What is the capital of France?"))
    return got if isinstance(got, types.InputRequiredResult) else said(got.content.text)


async def needs_roots(ctx: Request, params: Any) -> Answer:
    got = await ask(ctx, params, "client_roots", ROOTS)
    if isinstance(got, types.InputRequiredResult):
        return got
    return said(f"{len(got.roots)} roots: {', '.join(str(r.uri) for r in got.roots)}")


async def needs_state(ctx: Request, params: Any) -> Answer:
    confirm = elicit("Please confirm", {"ok": {"type": "boolean"}}, "ok")
    got = await ask(ctx, params, "confirm", confirm, "state-1")
    if isinstance(got, types.InputRequiredResult):
        return got
    return said("state-ok" if params.request_state == "state-1" else "state-lost")


async def needs_many(ctx: Request, params: Any) -> Answer:
    requests = {
        "user_name": elicit("What is your name?", NAME, "name"),
        "greeting": sample("Generate a greeting", 50),
        "client_roots": ROOTS,
    }
    given = params.input_responses or {}
    missing = {k: r for k, r in requests.items() if k not in given and can(ctx, r)}
    if missing:
        return types.InputRequiredResult(input_requests=missing, request_state="many")
    return said(f"Hello {given['user_name'].content.get('name')}, state {params.request_state}")


async def needs_rounds(ctx: Request, params: Any) -> Answer:
    state = params.request_state
    if state is None:
        first = elicit("Step 1: What is your name?", NAME, "name")
        return types.InputRequiredResult(input_requests={"step1": first}, request_state="round-1")
    if state == "round-1":
        colour = {"color": {"type": "string"}}
        second = elicit("Step 2: What is your favorite color?", colour, "color")
        return types.InputRequiredResult(input_requests={"step2": second}, request_state="round-2")
    return said("All steps are done.")


async def needs_capabilities(ctx: Request, params: Any) -> Answer:
    requests = {
        "elicit": elicit("What is your name?", NAME, "name"),
        "sample": sample("Say something"),
        "roots": ROOTS,
    }
    declared = {k: r for k, r in requests.items() if can(ctx, r)}
    given = params.input_responses or {}
    if declared and not given:
        return types.InputRequiredResult(input_requests=declared, request_state="capabilities")
    return said("Nothing to ask." if not declared else "Thank you.")


async def missing_capability(ctx: Request, params: Any) -> Answer:
    if not can(ctx, sample("")):
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            "Sampling is required.",
            {"requiredCapabilities": {"sampling": {}}},
        )
    return said("It is there.")


async def touch(ctx: Request, params: Any) -> Answer:
    await ctx.session.send_resource_updated("test://watched-resource")
    return said("Touched.")


async def in_header(ctx: Request, params: Any) -> Answer:
    return said(json.dumps(params.arguments or {}))


Run = Callable[[Request, Any], Awaitable[Answer]]
PROMPT = {"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]}
MESSAGE = {
    "type": "object",
    "properties": {"message": {"type": "string"}},
    "required": ["message"],
}
MODERN_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "allOf": [{"anyOf": [{"required": ["name"]}, {"required": ["address"]}]}],
    "if": {"required": ["address"]},
    "then": {"required": ["name"]},
    "else": {},
    "additionalProperties": False,
}
HEADERS = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "query": {"type": "string"},
    },
    "required": ["region"],
}
TOOLS: dict[str, tuple[Run, dict[str, Any]]] = {
    "test_simple_text": (simple, EMPTY),
    "test_image_content": (pictures, EMPTY),
    "test_audio_content": (sounds, EMPTY),
    "test_embedded_resource": (resource_in_result, EMPTY),
    "test_multiple_content_types": (mixed, EMPTY),
    "test_tool_with_logging": (log_away, EMPTY),
    "test_error_handling": (fail, EMPTY),
    "test_tool_with_progress": (progress, EMPTY),
    "test_sampling": (sampling, PROMPT),
    "test_elicitation": (elicitation, MESSAGE),
    "test_elicitation_sep1034_defaults": (defaults, EMPTY),
    "test_elicitation_sep1330_enums": (enums, EMPTY),
    "json_schema_2020_12_tool": (simple, MODERN_SCHEMA),
    "test_reconnection": (simple, EMPTY),
    "test_input_required_result_elicitation": (needs_elicitation, EMPTY),
    "test_input_required_result_sampling": (needs_sampling, EMPTY),
    "test_input_required_result_list_roots": (needs_roots, EMPTY),
    "test_input_required_result_request_state": (needs_state, EMPTY),
    "test_input_required_result_multiple_inputs": (needs_many, EMPTY),
    "test_input_required_result_multi_round": (needs_rounds, EMPTY),
    "test_input_required_result_tampered_state": (needs_state, EMPTY),
    "test_input_required_result_capabilities": (needs_capabilities, EMPTY),
    "test_missing_capability": (missing_capability, EMPTY),
    "test_x_mcp_header": (in_header, HEADERS),
    "touch_watched_resource": (touch, EMPTY),
}


async def list_tools(ctx: Request, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(
        tools=[
            types.Tool(name=name, description=f"Conformance: {name}.", input_schema=schema)
            for name, (_, schema) in TOOLS.items()
        ]
    )


async def call_tool(ctx: Request, params: types.CallToolRequestParams) -> Answer:
    if params.name not in TOOLS:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
    return await TOOLS[params.name][0](ctx, params)


# Resources


async def list_resources(ctx: Request, params: Any) -> types.ListResourcesResult:
    rows = [
        ("test://static-text", "Static text", "text/plain"),
        ("test://static-binary", "Static binary", "image/png"),
        ("test://watched-resource", "Watched", "text/plain"),
    ]
    return types.ListResourcesResult(
        resources=[
            types.Resource(uri=u, name=n, description=f"{n} resource.", mime_type=m)
            for u, n, m in rows
        ]
    )


async def list_templates(ctx: Request, params: Any) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(
        uri_template="test://template/{id}/data", name="Template", mime_type="application/json"
    )
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(
    ctx: Request, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    uri = params.uri
    if uri == "test://static-binary":
        blob = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
        return types.ReadResourceResult(contents=[blob])
    if uri.startswith("test://template/"):
        number = uri.split("/")[3]
        data = {"id": number, "templateTest": True, "data": f"Data for ID: {number}"}
        return contents(uri, json.dumps(data), "application/json")
    known = {
        "test://static-text": "This is the content of the static text resource.",
        "test://watched-resource": "Watched resource content.",
    }
    if uri not in known:
        raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
    return contents(uri, known[uri], "text/plain")


def contents(uri: str, content: str, mime: str) -> types.ReadResourceResult:
    inner = types.TextResourceContents(uri=uri, mime_type=mime, text=content)
    return types.ReadResourceResult(contents=[inner])


async def subscribe(ctx: Request, params: Any) -> types.EmptyResult:
    return types.EmptyResult()


# Prompts


def user(content: Any) -> types.PromptMessage:
    return types.PromptMessage(role="user", content=content)


def argument(name: str) -> types.PromptArgument:
    return types.PromptArgument(name=name, description=f"The {name}.", required=True)


PROMPTS = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
    "test_input_required_result_prompt": [],
}


async def list_prompts(ctx: Request, params: Any) -> types.ListPromptsResult:
    return types.ListPromptsResult(
        prompts=[
            types.Prompt(
                name=n, description=f"Conformance: {n}.", arguments=[argument(a) for a in args]
            )
            for n, args in PROMPTS.items()
        ]
    )


async def get_prompt(ctx: Request, params: types.GetPromptRequestParams) -> Any:
    given = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            messages = [user(text("This is a simple prompt for testing."))]
        case "test_prompt_with_arguments":
            filled = f"arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'"
            messages = [user(text(f"Prompt with arguments: {filled}"))]
        case "test_prompt_with_embedded_resource":
            inner = embedded(given["resourceUri"], "Embedded resource content for testing.")
            messages = [user(inner), user(text("Please process the embedded resource above."))]
        case "test_prompt_with_image":
            messages = [user(image()), user(text("Please analyze the image above."))]
        case "test_input_required_result_prompt":
            fields = {"context": {"type": "string"}}
            question = elicit("What context should the prompt use?", fields, "context")
            got = await ask(ctx, params, "user_context", question)
            if isinstance(got, types.InputRequiredResult):
                return got
            messages = [user(text(f"Use this context: {(got.content or {}).get('context')}"))]
        case name:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {name}")
    return types.GetPromptResult(messages=messages)


async def complete(ctx: Request, params: Any) -> types.CompleteResult:
    values = [v for v in ("testing", "tested", "paris") if v.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=values, total=len(values)))


server: Server[Any] = Server(
    "conformance",
    version="1",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_list_resource_templates=list_templates,
    on_read_resource=read_resource,
    on_subscribe_resource=subscribe,
    on_unsubscribe_resource=subscribe,
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
    on_completion=complete,
)


async def main() -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
