"""An MCP server of the older generation with one resource to watch; no SDK behind it.

`python watched.py FOLDER`: the second who subscribes waits at the pipe in the folder. With another
word behind it, the server lists its tools otherwise each time.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
URI = "test://watched"
HELLO: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}, "resources": {"subscribe": True}},
    "serverInfo": {"name": "watched", "version": "1"},
}
TOOLS = {
    "touch": "Changes the resource.",
    "asked": "Says what it was asked of the resource.",
    "end": "Ends the server.",
}
asked: list[str] = []
lists: list[str] = []


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method.split("/"):
        case ["initialize"]:
            return HELLO
        case ["tools", "list"]:
            lists.extend(sys.argv[2:])
            schema = {"type": "object", "title": " ".join(lists)}
            tools = [{"name": n, "description": d, "inputSchema": schema} for n, d in TOOLS.items()]
            return {"tools": tools}
        case ["tools", "call"]:
            if params["name"] == "end":
                sys.exit()
            if params["name"] == "touch":
                send(method="notifications/resources/updated", params={"uri": URI})
            return {"content": [{"type": "text", "text": " ".join(asked)}]}
        case ["resources", "list"]:
            return {"resources": [{"uri": URI, "name": "watched"}]}
        case ["resources", "templates", "list"]:
            return {"resourceTemplates": []}
        case ["resources", word]:
            asked.append(word)
            if asked == ["subscribe", "subscribe"]:
                (FOLDER / "gate").read_text()
            return {}
        case _:
            raise KeyError(method)


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    try:
        send(id=message["id"], result=answer(message["method"], message.get("params") or {}))
    except KeyError:
        send(id=message["id"], error={"code": -32601, "message": "Method not found"})
