"""Audit: a journal that somebody changed, and receivers of audit lines that fail."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

from tests.attack.lab import Lab, Target, bad
from tests.attack.table import Outcome, attack

KEY = {"AUDIT_KEY": "0123456789abcdef0123456789abcdef", "TOOLSCOUT_JOURNAL_KEY": "env:AUDIT_KEY"}
CHAIN = {"TOOLSCOUT_JOURNAL_CHAIN": "true"}
CALLS = 4
MAX_CALL_SECONDS = 5.0
INSERTION = (
    "INSERT INTO log SELECT sequence + 1000, 'x', parent, time, kind, session, principal, client,"
    " tool, server, outcome, took_ms, process, data, vector FROM log WHERE sequence = {row}"
)
# Each row of the journal has its number in the order of the calls.
TAMPERINGS: dict[str, tuple[str, ...]] = {
    "changed": ("UPDATE log SET principal = 'eve', outcome = 'ok' WHERE sequence = {row}",),
    "removed": ("DELETE FROM log WHERE sequence = {row}",),
    "inserted": (INSERTION,),
    "reordered": (
        "UPDATE log SET sequence = -1 WHERE sequence = {row}",
        "UPDATE log SET sequence = {row} WHERE sequence = {other}",
        "UPDATE log SET sequence = {other} WHERE sequence = -1",
    ),
    "truncated": (
        "DELETE FROM log WHERE sequence >= {row}",
        "DELETE FROM chain WHERE row >= {row}",
        "UPDATE sqlite_sequence SET seq = {row} - 1 WHERE name = 'log'",
    ),
}


async def audit(home: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    """Run `toolscout audit`; its exit code and what it printed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "toolscout.cli", "audit", *arguments),
        env={**os.environ, "TOOLSCOUT_HOME": str(home), **variables},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


async def record_calls(lab: Lab, **variables: str) -> Path:
    """The home of a gateway that was killed in the middle of calls, with a stored head."""
    async with lab.gateway({"ok": bad("ok")}, variables={**CHAIN, **variables}) as target:
        for _ in range(CALLS):
            await target.call("ok__echo", text="x")
        running = asyncio.gather(
            *(target.call("ok__echo", text="x") for _ in range(CALLS)), return_exceptions=True
        )
        target.process.send_signal(signal.SIGKILL)
        await running
    code, out = await audit(target.home, "head", **variables)
    assert code == 0, out
    (lab.folder / "head.json").write_text(out)
    return target.home


def copy_journal(home: Path, copy: Path) -> Path:
    """The same journal in another home."""
    file = copy / "state" / "journal.db"
    file.parent.mkdir(parents=True)
    source = home / "state" / "journal.db"
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(file)) as other:
        one.backup(other)
    return file


def rows_of_calls(file: Path) -> list[int]:
    with closing(sqlite3.connect(file)) as raw:
        query = "SELECT sequence FROM log WHERE outcome = 'ok' AND kind = 'call' ORDER BY sequence"
        return [sequence for (sequence,) in raw.execute(query)]


@attack("A journal changed, shortened, extended, reordered or cut off", is_quick=True)
async def tamper_with_rows(lab: Lab) -> Outcome:
    home = await record_calls(lab)
    head = str(lab.folder / "head.json")
    code, out = await audit(home, "verify", "--since-head", head)
    tried, held = 1, int(lab.note(code == 0, out))
    for what, statements in TAMPERINGS.items():
        copy = lab.folder / what
        file = copy_journal(home, copy)
        row, other, *_ = rows_of_calls(file)
        with closing(sqlite3.connect(file)) as raw, raw:
            for statement in statements:
                raw.execute(statement.format(row=row, other=other))
        code, out = await audit(copy, "verify", "--since-head", head, "--json")
        found = json.loads(out)["problems"] if code == 10 else []
        tried += 1
        held += lab.note(bool(found) and found[0]["what"] == what, what, out)
    return tried, held


@attack("A journal whose hash chain was computed again without its key", is_quick=True)
async def forge_chain(lab: Lab) -> Outcome:
    home = await record_calls(lab, **KEY)
    forged = await record_calls(Lab(_folder(lab, "forged")))
    head = str(lab.folder / "head.json")
    copy = lab.folder / "copy"
    file = copy_journal(home, copy)
    with closing(sqlite3.connect(file)) as raw:
        raw.execute("ATTACH ? AS forged", (str(forged / "state" / "journal.db"),))
        with raw:
            for table in ("log", "chain"):
                raw.execute(f"DELETE FROM {table}")
                raw.execute(f"INSERT INTO {table} SELECT * FROM forged.{table}")
    intact = await audit(home, "verify", "--since-head", head, **KEY)
    found = await audit(copy, "verify", "--since-head", head, **KEY)
    without_key = await audit(home, "verify")
    return 3, lab.note(intact[0] == 0) + lab.note(found[0] == 10) + (lab.note(without_key[0] == 2))


@attack("Receivers of audit lines that are down or never read", is_quick=True)
async def lose_receivers(lab: Lab) -> Outcome:
    with socket.create_server(("127.0.0.1", 0), backlog=1) as silent:
        closed = socket.socket()
        closed.bind(("127.0.0.1", 0))
        targets = [
            f"syslog+tcp://127.0.0.1:{silent.getsockname()[1]}",
            f"syslog+tcp://127.0.0.1:{closed.getsockname()[1]}",
        ]
        options = {"audit_forward": targets, "audit_queue": 2}
        async with lab.gateway({"ok": bad("ok")}, gateway=options) as target:
            held = 0
            for _ in range(CALLS):
                started = time.monotonic()
                said = await target.call("ok__echo", text="x")
                held += lab.note(said == "x" and time.monotonic() - started < MAX_CALL_SECONDS)
            held += lab.note(await _reports_drops(target, targets[1]))
        closed.close()
    return CALLS + 1, held


async def _reports_drops(target: Target, down: str) -> bool:
    health = await target.health()
    (state,) = [each for each in health["audit_forwarding"] if each["target"] == down]
    is_said = any(down in problem for problem in health["problems"])
    return is_said and state["dropped"] == CALLS - 2 and state["queued"] == 2


def _folder(lab: Lab, name: str) -> Path:
    folder = lab.folder / name
    folder.mkdir()
    return folder
