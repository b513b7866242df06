"""Large results that are stored at one gateway and read at another."""

from __future__ import annotations

import re
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from mcp import Client
from tests.fleet.replicas import Fleet, text

SERVER = """
from fastmcp import FastMCP
app = FastMCP("reports")

@app.tool
def export() -> str:
    "Export all rows."
    return "\\n".join(f"row {number:07}" for number in range(250_000))  # 3 MB

app.run(show_banner=False)
"""


async def ask(client: Client, session: str, tool: str, **arguments: Any) -> str:
    meta: Any = {"toolscout/session": session}
    return text(await client.call_tool(tool, arguments, meta=meta))


async def test_a_large_result_of_one_replica_is_read_at_another(tmp_path: Path) -> None:
    (tmp_path / "reports.py").write_text(SERVER)
    server = {"command": sys.executable, "args": [str(tmp_path / "reports.py")]}
    fleet = Fleet(tmp_path, {"reports": server})
    with fleet.replicas("a", "b") as replicas:
        async with AsyncExitStack() as stack:
            one, other = [await stack.enter_async_context(r.client()) for r in replicas]
            notice = await ask(one, "mine", "call_tool", name="reports__export", arguments={})
            found = re.search(r"saved as (tool_\S+\.txt)\.", notice)
            assert found, notice[:500]
            named = {"filename": found.group(1)}
            read: dict[str, Any] = {**named, "operation": "read"}
            last = await ask(
                other, "mine", "search_large_output", **read, start=2_999_989, end=3_000_000
            )
            assert last.startswith("row 0249999")
            search = {**named, "operation": "search", "pattern": "row 0123456"}
            assert "123457: row 0123456" in await ask(
                other, "mine", "search_large_output", **search
            )
            for client in (one, other):
                refused = await ask(client, "theirs", "search_large_output", **search)
                assert "is not a stored result of this session" in refused
    assert "files\t1 rows" in fleet.run("store", "check")
