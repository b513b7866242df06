"""A server in which every text is found nowhere else: `python guarded.py NAME TOOLS [covered]`.

Names begin with `nm`, descriptions have `tx`, results `rs`, logs `lg`, progress `pg` and
completions `cp`, each followed by a code of the server, the kind and the number. Without an SDK
behind it, so that it starts at once. The tool with the number 0 adds a tool that was not there
before, and announces it; the one with the number 1 announces that the first resource changed.
"""

from __future__ import annotations

import json
import sys
from typing import Any

PROMPTS = RESOURCES = 2
CAPABILITIES = {
    "tools": {"listChanged": True},
    "prompts": {},
    "resources": {"subscribe": True},
    "completions": {},
    "logging": {},
}


def code(server: str, kind: str, number: int) -> str:
    """What is in all texts of an item, and in no other text."""
    return f"{server}{kind}{chr(97 + number // 26)}{chr(97 + number % 26)}"


def define_tool(server: str, number: int) -> dict[str, Any]:
    own = code(server, "t", number)
    return {
        "name": f"nm{own}",
        "description": f"Handles the tx{own} of things.",
        "inputSchema": {"type": "object", "properties": {"note": {"type": "string"}}},
        "annotations": {"readOnlyHint": number % 2 == 0},
    }


def uri(server: str, kind: str, number: int) -> str:
    return f"ur{code(server, kind, number)}://x" + ("/{id}" if kind == "m" else "")


class Server:
    """The answers of one server."""

    def __init__(self, name: str, tools: int, *, has_covered: bool = False) -> None:
        self.name = name
        self.tools = tools
        self.has_covered = has_covered

    def _list(self, kind: str, count: int, *keys: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        for number in range(count):
            own = code(self.name, kind, number)
            item = {"name": f"nm{own}", "description": f"Has the tx{own}."}
            items.append(item | dict.fromkeys(keys, uri(self.name, kind, number)))
        return items

    def _covered(self) -> list[dict[str, Any]]:
        """A resource that is listed, and that the template covers too."""
        address = uri(self.name, "m", 0).replace("{id}", "listed")
        return [{"name": "covered", "uri": address}] if self.has_covered else []

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        match method:
            case "initialize":
                return {
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": CAPABILITIES,
                    "serverInfo": {"name": self.name, "version": "1"},
                }
            case "tools/list":
                return {"tools": [define_tool(self.name, n) for n in range(self.tools)]}
            case "tools/call":
                return self._call(params)
            case "prompts/list":
                return {"prompts": self._list("p", PROMPTS)}
            case "prompts/get":
                text = "rs" + params["name"].removeprefix("nm")
                return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
            case "resources/list":
                return {"resources": [*self._list("r", RESOURCES, "uri"), *self._covered()]}
            case "resources/templates/list":
                return {"resourceTemplates": self._list("m", 1, "uriTemplate")}
            case "resources/read":
                text = "rs" + params["uri"].removeprefix("ur").partition(":")[0]
                return {"contents": [{"uri": params["uri"], "text": text}]}
            case "completion/complete":
                return {"completion": {"values": [f"cp{self.name}"]}}
            case _:
                return {}

    def _call(self, params: dict[str, Any]) -> dict[str, Any]:
        own = params["name"].removeprefix("nm")
        send("notifications/message", level="error", data=f"lg{own}")
        if token := params.get("_meta", {}).get("progressToken"):
            send("notifications/progress", progressToken=token, progress=1, message=f"pg{own}")
        if own == code(self.name, "t", 0):
            self.tools += 1
            send("notifications/tools/list_changed")
        if own == code(self.name, "t", 1):
            send("notifications/resources/updated", uri=uri(self.name, "r", 0))
        return {"content": [{"type": "text", "text": f"rs{own}"}]}


def send(method: str, **params: Any) -> None:
    write({"method": method, "params": params})


def write(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def serve(server: Server) -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        if message["method"] == "server/discover":
            write({"id": message["id"], "error": {"code": -32601, "message": "Unknown method"}})
        else:
            result = server.answer(message["method"], message.get("params") or {})
            write({"id": message["id"], "result": result})


if __name__ == "__main__":
    serve(Server(sys.argv[1], int(sys.argv[2]), has_covered="covered" in sys.argv))
