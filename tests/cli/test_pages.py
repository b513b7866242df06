"""The commands in the documentation that need nothing but files run as they stand."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("command-line.md", "evaluation.md")
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(
    r"^\$ ((?:printf '.*' \| )?toolscout (?:search|catalog|bench|completion)\b.*)$"
)
PIPED = re.compile(r"printf '(?P<lines>[^']*)' \| (?P<command>.*)")


def commands() -> list[str]:
    blocks = [b for page in PAGES for b in BLOCK.findall((DOCS / page).read_text("utf-8"))]
    lines = (line for block in blocks for line in block.splitlines())
    return list(dict.fromkeys(m[1] for line in lines if (m := COMMAND.match(line))))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the pages speak of."""
    place = tmp_path_factory.mktemp("pages")
    rows = {
        "tools.jsonl": [
            {"name": "send_email", "description": "Send an email message to someone."},
            {"name": "get_weather", "description": "Tell the weather forecast for a city."},
        ],
        "queries.jsonl": [
            {"id": "1", "query": "write a mail", "relevant": ["send_email"], "lang": "en"},
            {"id": "2", "query": "will it rain", "relevant": ["get_weather"], "lang": "en"},
        ],
        "negatives.jsonl": [{"id": "n", "query": "book a flight", "offered": ["send_email"]}],
    }
    for name, lines in rows.items():
        (place / name).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return place


def test_commands_of_the_pages_run_in_their_order(
    shell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TOOLSCOUT_EMBEDDER", "none")  # loading the encoder is tried elsewhere
    failed = {}
    for command in commands():
        piped = PIPED.fullmatch(command)
        lines = piped["lines"].replace("\\n", "\n") if piped else ""
        words = shlex.split(piped["command"] if piped else command)
        done = shell(*words[1:], lines=lines)
        if done.code or not done.out:
            failed[command] = done
    assert len(commands()) > 10
    assert failed == {}
