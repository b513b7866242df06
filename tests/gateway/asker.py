"""An MCP server of the older generation that asks several things at once; no SDK behind it.

`python asker.py FOLDER`: in the folder is a pipe, which it opens when a withdrawal was heard.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
FIRST, SECOND = "Delete the copy?", "Delete the original?"
FORM = {"type": "object", "properties": {"said": {"type": "string"}}}
HELLO: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "asker", "version": "1"},
}
TOOLS = {
    "both": "Asks two things at once, and says what it heard.",
    "one": "Asks two things at once, and takes the second back.",
    "sample": "Asks for a text of the model, and says what it heard.",
    "none": "Asks two things at once, and ends before it hears anything.",
    "heard": "Says what it heard, once there are two answers.",
}
heard: dict[str, Any] = {}
waiting: dict[Any, int] = {}


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def ask(*questions: str) -> None:
    for question in questions:
        params = {"message": question, "requestedSchema": FORM}
        send(id=question, method="elicitation/create", params=params)


def call(call_id: Any, tool: str) -> None:
    if tool == "sample":
        heard.clear()
        message = {"role": "user", "content": {"type": "text", "text": FIRST}}
        params = {"messages": [message], "maxTokens": 10}
        send(id=FIRST, method="sampling/createMessage", params=params)
    elif tool != "heard":
        heard.clear()
        ask(FIRST, SECOND)
    if tool == "one":
        send(method="notifications/cancelled", params={"requestId": SECOND})
    if tool in ("one", "none"):  # whoever answers this has heard of all that came before
        send(id=f"ping {tool}", method="ping")
    waiting[call_id] = 1 if tool in ("one", "sample") else 2


def hear(message: dict[str, Any]) -> None:
    match message["id"]:
        case "ping one":
            (FOLDER / "gate").write_text("withdrawn")
        case "ping none":
            (FOLDER / "gate").write_text("asked")
            waiting.update(dict.fromkeys(waiting, 0))
        case question:
            error = message.get("error")
            heard[question] = error["message"] if error else message["result"]["content"]["said"]


def finish() -> None:
    for call_id in [each for each, answers in waiting.items() if len(heard) >= answers]:
        del waiting[call_id]
        text = {"type": "text", "text": json.dumps(heard)}
        send(id=call_id, result={"content": [text]})


for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method is None:
        hear(message)
    elif method == "initialize":
        send(id=message["id"], result=HELLO)
    elif method == "tools/list":
        schema = {"type": "object"}
        tools = [{"name": n, "description": d, "inputSchema": schema} for n, d in TOOLS.items()]
        send(id=message["id"], result={"tools": tools})
    elif method == "tools/call":
        call(message["id"], message["params"]["name"])
    elif "id" in message:
        send(id=message["id"], error={"code": -32601, "message": "Method not found"})
    finish()
