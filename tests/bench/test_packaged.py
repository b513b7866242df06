"""Sets that are in packages: what is read of them, and that nothing of them is run."""

from __future__ import annotations

import json
from pathlib import Path
from zipfile import ZipFile

from bench.packaged import tasks, turns

TOOLS = '''
import nothing_of_this_is_here

def send_money(recipient: str) -> None:
    """Send money to somebody.

    :param recipient: Who gets it.
    """

def undescribed() -> None: ...

def _hidden() -> None:
    """Not a tool."""
'''
TASKS = """
class Pay(Task):
    _AMOUNT = 12.5
    PROMPT = f"Please pay {_AMOUNT} to Ann."

    def ground_truth(self):
        return [FunctionCall(function="send_money", args={}), FunctionCall(function="send_money")]

class Odd(Task):
    PROMPT = f"Pay on {day.isoformat()}."

    def ground_truth(self):
        return [FunctionCall(function="send_money", args={})]
"""


def wheel(path: Path, **files: str) -> ZipFile:
    with ZipFile(path, "w") as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    return ZipFile(path)


def lines(*rows: object) -> str:
    return "\n".join(map(json.dumps, rows))


def test_tasks_are_read_without_running_them(tmp_path: Path) -> None:
    suite = "agentdojo/default_suites/v1"
    files = {f"{suite}/tools/bank.py": TOOLS, f"{suite}/banking/user_tasks.py": TASKS}
    tools, queries = tasks(wheel(tmp_path / "a.whl", **files))

    assert [(t["name"], t["server"], t["description"]) for t in tools] == [
        ("send_money", "bank", "Send money to somebody.")
    ]
    assert tools[0]["parameters"]["properties"] == {"recipient": {"description": "Who gets it."}}
    assert queries == [{"query": "Please pay 12.5 to Ann.", "relevant": ["send_money"]}]


def test_every_turn_of_a_user_is_a_request_with_what_its_solution_calls(tmp_path: Path) -> None:
    described = "This tool is part of a file system. Tool description: Show a file."
    files = {
        "multi_turn_func_doc/files.json": lines(
            {"name": "cat", "description": described, "parameters": {"type": "dict"}}
        ),
        "BFCL_v4_multi_turn_base.json": lines(
            {
                "id": "t0",
                "question": [
                    [{"role": "user", "content": "Show it, twice."}],
                    [{"role": "system", "content": "Nobody asks."}],
                ],
            }
        ),
        "possible_answer/BFCL_v4_multi_turn_base.json": lines(
            {"id": "t0", "ground_truth": [["cat(a='x')", "cat(a='y')"], ["cat()"]]}
        ),
    }
    packed = {f"bfcl_eval/data/{name}": text for name, text in files.items()}
    tools, queries = turns(wheel(tmp_path / "b.whl", **packed))

    assert [(t["name"], t["description"], t["server"]) for t in tools] == [
        ("cat", "Show a file.", "files")
    ]
    assert queries == [{"query": "Show it, twice.", "relevant": ["cat"]}]
