"""An MCP server over stdio whose tool answers with the `_meta` of its call; no SDK behind it."""

from __future__ import annotations

import json
import sys
from typing import Any

WEIGH = {
    "name": "weigh",
    "description": "Weigh a parcel.",
    "inputSchema": {"type": "object", "properties": {"parcel": {"type": "string"}}},
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            return {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "echo_meta", "version": "1"},
            }
        case "tools/list":
            return {"tools": [WEIGH]}
        case "tools/call":
            text = json.dumps(params.get("_meta", {}))
            return {"content": [{"type": "text", "text": text}]}
        case _:
            return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        result = answer(message["method"], message.get("params", {}))
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}))
        sys.stdout.write("\n")
        sys.stdout.flush()
