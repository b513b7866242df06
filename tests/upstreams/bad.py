"""An MCP server that misbehaves on demand: `python bad.py FAULT [FOLDER]`; no SDK behind it."""

from __future__ import annotations

import base64
import html
import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

FAULT = sys.argv[1]
PLACE = sys.argv[2] if len(sys.argv) > 2 else os.environ.get("FOLDER", "")
FOLDER = Path(PLACE) if PLACE else None
CYCLE = {
    "type": "object",
    "properties": {"node": {"$ref": "#/$defs/node"}},
    "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}


def tool(name: str, description: str = "Say it back.", schema: Any = TEXT) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": schema}


def deep(levels: int) -> dict[str, Any]:
    return {"type": "object", "properties": {"in": deep(levels - 1)}} if levels else TEXT


def several(count: int) -> list[dict[str, Any]]:
    return [tool(f"tool_{i}", f"Does thing number {i}.") for i in range(count)]


def read_tools(folder: Path) -> list[dict[str, Any]]:
    """The tool or tools in a file."""
    found = json.loads((folder / "tool.json").read_text())
    return found if isinstance(found, list) else [found]


lists: list[str] = []
pondered: list[int] = []
TICK = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
HUGE = {"type": "object", "properties": {"x": {"enum": ["y" * 1000] * 20_000}}}
WRONG = {"type": "object", "properties": {"x": {"type": "nonsense"}}}
LOOK = {**tool("look"), "annotations": {"readOnlyHint": True}}
CHANGE = {**tool("change"), "annotations": {"destructiveHint": True}}
LISTS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "many": lambda: several(10_000),
    "vast": lambda: several(20_000),
    "several": lambda: several(40),
    "huge": lambda: [tool("small"), tool("huge", schema=HUGE)],
    "cyclic": lambda: [
        tool("cyclic", schema=CYCLE),
        tool("self", schema={"$ref": "#", "type": "object"}),
    ],
    "invalid": lambda: [
        tool("good"),
        tool("wrong", schema=WRONG),
        tool("list", schema=[]),
        {"name": "bare"},
    ],
    "duplicates": lambda: [tool("twice", "First."), tool("twice", "Second."), tool("once")],
    "hidden": lambda: [tool("echo\u200b", "A\u202e\x07" + "long " * 200_000)],
    "shadows": lambda: [tool("honest"), tool("tool_search"), tool("one__echo")],
    "hints": lambda: [LOOK, CHANGE, tool("unknown")],
    "silent": lambda: [tool("echo"), *([tool("more")] if has_more() else [])],
    "changes": lambda: [tool("echo", f"Version {1 + calls()}.")],
    "ponders": lambda: [tool("echo", f"Version {1 + calls()}.")],
    "refuses": lambda: [tool("change"), LOOK],
    "endless": lambda: [tool("deep", schema=deep(300))],
    "infinite": lambda: [tool("good"), tool("odd", schema={**TEXT, "maxProperties": math.inf})],
    "told": lambda: read_tools(FOLDER) if FOLDER else [],
}


def has_more() -> bool:
    return FOLDER is not None and (FOLDER / "more.txt").exists()


def wait(folder: Path) -> None:
    """Opening a pipe waits until somebody writes into it."""
    (folder / "gate").read_text()


def note(line: str) -> None:
    if FOLDER is not None:
        with (FOLDER / "calls.txt").open("a") as file:
            file.write(line + "\n")


def calls() -> int:
    path = FOLDER / "calls.txt" if FOLDER else None
    return len(path.read_text().splitlines()) if path and path.exists() else 0


def encoded(secret: str) -> list[str]:
    """A secret as programs write it into their messages."""
    packed = base64.b64encode(secret.encode()).decode()
    login = base64.b64encode(f"joe:{secret}".encode()).decode()
    return [
        json.dumps({"key": secret}),
        json.dumps({"key": secret}, ensure_ascii=False).replace("/", "\\/"),
        repr({"key": secret}),
        repr(["it's", "so-called", f'"it\'s" {secret}']),
        repr(secret.encode()),
        f"/items?key={quote(secret, safe='')}&page=1",
        f"/items/{quote(secret)}?key={quote_plus(secret).lower()}",
        f"<b>{html.escape(secret)}</b> <b>{html.escape(secret, quote=False)}</b>",
        f"{packed} {packed.rstrip('=')} {base64.urlsafe_b64encode(secret.encode()).decode()}",
        f"Authorization: Basic {login}",
        f"Authorization: Basic {login.rstrip('=')}",
        base64.b64encode(f"a key {secret} in a text".encode()).decode(),
    ]


class Refused(Exception):
    """The server says no, with the code that an SDK uses for connections that closed."""


class Broken(Exception):
    """The tool broke after it had an effect."""


class Blank(Exception):
    """The server answers with neither a result nor an error."""


def send(message: dict[str, Any]) -> None:
    text = json.dumps({"jsonrpc": "2.0", **message})
    # As one leaves it who prints what is going on, without a line break.
    around = {"mumbles": f"loading {{1, 2}}... {text} done", "crowds": f"{TICK}{text}"}
    sys.stdout.write(around.get(FAULT, text) + "\n")
    sys.stdout.flush()


def ponder(key: int) -> None:
    """Announce a change; soon after the list was requested, answer how often it was."""
    note("ponders")
    lists.clear()
    pondered.append(key)
    send({"method": "notifications/tools/list_changed"})


def answer_at_last(key: int) -> None:
    block = {"type": "text", "text": str(len(lists))}
    send({"id": key, "result": {"content": [block]}})


def ask_or_die(text: str) -> None:
    """Ask something, or end when it is time."""
    if text == "ask":
        form = {"message": "Really?", "requestedSchema": {"type": "object", "properties": {}}}
        send({"id": "question", "method": "elicitation/create", "params": form})
    if text == "die" and FOLDER is not None:
        wait(FOLDER)
        sys.exit()


def use_up(what: str, folder: Path) -> str:
    """Use a lot of something; what happened, or the limit."""
    import resource

    limits = {
        "processes": resource.RLIMIT_NPROC,
        "cpu": resource.RLIMIT_CPU,
        "core": resource.RLIMIT_CORE,
    }
    try:
        match what:
            case "memory":
                return str(len(bytearray(400 * 1024 * 1024)))
            case "files":
                return str(len([Path(__file__).open() for _ in range(100)]))
            case "write":
                return str((folder / "large").write_bytes(b"x" * 2_000_000))
            case "raise":
                resource.setrlimit(resource.RLIMIT_CPU, (90, 90))
                return "raised"
            case _:
                return str(resource.getrlimit(limits[what])[1])
    except (MemoryError, OSError, ValueError) as error:
        return repr(error)


def exhaust(params: dict[str, Any]) -> None:
    """Use too much of something in the middle of a call."""
    match FAULT:
        case "line":
            for _ in range(24_000):  # 1.5 GB
                sys.stdout.write("y" * 65_536)
        case "uses" if FOLDER is not None:
            params["arguments"]["text"] = use_up(params["arguments"]["text"], FOLDER)
        case "burns":
            while True:
                pass
        case _:
            pass


def misbehave(params: dict[str, Any]) -> None:
    """What happens in the middle of a call."""
    match FAULT:
        case "dies":
            sys.exit("Segmentation fault, so to speak")
        case "environment":
            params["arguments"]["text"] = os.environ.get(params["arguments"]["text"], "unset")
        case "late":
            time.sleep(0.3)
        case "gated" if FOLDER is not None:
            wait(FOLDER)
        case "slow":
            sys.stdin.read()
        case "refuses":
            raise Refused(f"The key {os.environ.get('API_KEY')} is used up")
        case "blank":
            raise Blank
        case "halves":
            # A text that was cut in the middle of a character; the whole one after it stays.
            params["arguments"]["text"] = "cut \ud83d here, \ud83d\ude00 whole, \\ud83d spelt"
        case "changes":
            send({"method": "notifications/tools/list_changed"})
        case _:
            pass


def hesitate() -> None:
    """What happens in the middle of a listing."""
    lists.append(FAULT)
    while pondered:
        threading.Timer(0.5, answer_at_last, [pondered.pop()]).start()
    if FAULT in ("shy", "vast") and FOLDER is not None:
        wait(FOLDER)
    if FAULT == "restless":
        note("list")
    if FAULT == "frantic" or (FAULT == "restless" and len(lists) == 1):
        send({"method": "notifications/tools/list_changed"})


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            if FAULT == "denies":
                raise Refused("Not for you")
            if FAULT == "hangs" or (FOLDER is not None and (FOLDER / "hang").exists()):
                sys.stdin.read()
            return {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {"listChanged": FAULT == "changes"}},
                "serverInfo": {"name": "bad", "version": "1"},
            }
        case "tools/list" if FAULT == "listless":
            return {}
        case "tools/list":
            hesitate()
            return {"tools": LISTS.get(FAULT, lambda: [tool("echo")])()}
        case "tools/call":
            note(params["name"])
            if FAULT == "confesses":
                block = {"type": "text", "text": f"My key {os.environ['API_KEY']} is used up"}
                return {
                    "content": [block],
                    "isError": True,
                    "_meta": {"saw": os.environ["API_KEY"]},
                }
            if FAULT == "encodes":
                lines = "\n".join(encoded(os.environ["API_KEY"]))
                return {"content": [{"type": "text", "text": lines}], "isError": True}
            if FAULT in ("internal", "both"):
                raise Broken("Lost after commit")
            misbehave(params)
            exhaust(params)
            return {"content": [{"type": "text", "text": params["arguments"].get("text", "")}]}
        case _:
            raise KeyError(method)


if FAULT == "exits" or (FAULT == "mended" and FOLDER and not (FOLDER / "mended").exists()):
    sys.exit("This server needs a licence key")
if FAULT == "leaks":
    sys.exit(f"Cannot log in with the key {os.environ['API_KEY']}")
if FAULT == "garbage":
    sys.stdout.write("Starting up... %%% {not json" + "\n")
    sys.stdout.flush()
for line in sys.stdin:
    message = json.loads(line)
    if FAULT == "mumbles":
        sys.stdout.write(f"received {line}")
    if "id" not in message:
        continue
    if FAULT == "asks" and message.get("method") == "tools/call":
        ask_or_die(message["params"]["arguments"]["text"])
    if FAULT in ("ponders", "frantic") and message.get("method") == "tools/call":
        ponder(message["id"])
        continue
    if FAULT == "mute" and message["method"].startswith(("prompts/", "resources/", "completion/")):
        continue
    try:
        send(
            {"id": message["id"], "result": answer(message["method"], message.get("params") or {})}
        )
    except Refused as error:
        send({"id": message["id"], "error": {"code": -32000, "message": str(error)}})
    except Broken as error:
        failure = {"code": -32603 if FAULT == "internal" else 1, "message": str(error)}
        result = {"result": {"content": []}} if FAULT == "both" else {}
        send({"id": message["id"], **result, "error": failure})
    except Blank:
        send({"id": message["id"]})
    except KeyError:
        send({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
    if FAULT == "garbage":
        sys.stdout.write("\x1b[31mdebug: handled\x1b[0m" + "\n")
    sys.stdout.flush()
