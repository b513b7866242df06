"""An MCP server without an SDK behind it; `tools.json` says which tools it has."""

import json
import sys
from pathlib import Path


def called(name, arguments):
    if name == "export_log":
        return "\n".join(f"day {day}: watered bed {day % 7}" for day in range(1, 1_501))
    if name == "get_bed":
        return json.dumps({"id": arguments["bed"], "name": f"The {arguments['bed']} bed"})
    return f"{name}: done"


def answered(method, params):
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "garden", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": json.loads(Path("tools.json").read_text(encoding="utf-8"))}
    if method == "tools/call":
        said = called(params["name"], params.get("arguments") or {})
        return {"content": [{"type": "text", "text": said}]}
    raise KeyError(method)


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        reply["result"] = answered(message["method"], message.get("params") or {})
    except KeyError:
        reply["error"] = {"code": -32601, "message": "Method not found"}
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()
