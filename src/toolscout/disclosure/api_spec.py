"""Tools as an OpenAPI document: how the published design B describes them in its code mode."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import yaml

from ..catalog.sanitization import compact_json
from ..catalog.tool import Tool
from .prompts import Prompt, PromptContext, join_paragraphs
from .python_stubs import signature_of

CUSTOM = "custom"
"""The name under which tools without a server are grouped."""

_HOW_TO_CALL = (
    "You write Python programs that call tools. `get_api_spec(server_name, tool_name)` returns the "
    "OpenAPI document of a server or of one tool; `x-call` in it is the call to write in a program "
    "for `run_code`. These tools exist:"
)


def group_of(tool: Tool) -> str:
    """The server of a tool, or the group of tools without one."""
    return tool.server or CUSTOM


def write_api_spec(group: str, tools: Sequence[Tool]) -> str:
    """The tools of a server as an OpenAPI 3.0.3 document in YAML."""
    document = {
        "openapi": "3.0.3",
        "info": {"title": f"Tools of {group}", "version": "1"},
        "paths": {_path(tool): {"post": _operation(tool)} for tool in tools},
    }
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=1_000)


def _path(tool: Tool) -> str:
    place = f"mcp/{tool.server}" if tool.server else CUSTOM
    return f"/tools/{place}/{tool.local_name}"


def _operation(tool: Tool) -> dict[str, Any]:
    result: dict[str, Any] = tool.output.value if tool.output is not None else {}
    return {
        "operationId": tool.name,
        "description": tool.description,
        "x-call": signature_of(tool),
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": tool.parameters.value}},
        },
        "responses": {
            "200": {
                "description": "The result",
                "content": {"application/json": {"schema": result}},
            }
        },
    }


def index_text(tools: Iterable[Tool]) -> str:
    """The names of all tools by server, as JSON."""
    names: dict[str, list[str]] = defaultdict(list)
    for tool in tools:
        names[group_of(tool)].append(tool.local_name)
    index = {group: {"tools": sorted(found)} for group, found in sorted(names.items())}
    return compact_json(index)


def index_prompt(context: PromptContext) -> Prompt:
    """Instructions with the index of all tools that the caller may use."""
    return Prompt(join_paragraphs(_HOW_TO_CALL, index_text(context.scope.tools)))
