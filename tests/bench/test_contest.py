import json
from pathlib import Path

import pytest
from bench.peers.child import Child, PeerError
from bench.peers.contestants import LEXICAL, PEERS, Contestant

TOOLS = [
    {"name": "send_email", "description": "Send an email message to someone.", "parameters": None},
    {"name": "get_weather", "description": "Weather forecast for a city.", "parameters": {}},
    {"name": "create_invoice", "description": "Create an invoice for a customer."},
]


@pytest.fixture
def tools(tmp_path: Path) -> str:
    path = tmp_path / "tools.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in TOOLS), encoding="utf-8")
    return str(path)


def adapter(folder: Path, text: str) -> Contestant:
    (folder / "some.py").write_text(text, encoding="utf-8")
    return Contestant("some", str(folder / "some"))


def test_a_contestant_in_a_process_of_its_own_finds_and_follows_changes(tools: str):
    with Child(LEXICAL) as child:
        assert child.ask("load", tools=tools)["s"] >= 0
        assert child.ask("index")["rss_mb"] > 0
        said = child.ask("search", queries=["forecast for Paris", "bill the customer an invoice"])
        assert [names[0] for names in said["names"]] == ["get_weather", "create_invoice"]
        assert len(said["ms"]) == len(said["cpu_ms"]) == 2
        row = {"name": "count_quokkas", "description": "Count quokkas.", "parameters": {}}
        assert "count_quokkas" in child.ask("add", row=row)["names"]
        assert "count_quokkas" not in child.ask("remove", name="count_quokkas")["names"]


def test_a_contestant_sees_only_what_it_is_allowed(tools: str):
    with Child(LEXICAL) as child:
        child.ask("load", tools=tools)
        child.ask("index")
        said = child.ask("search", queries=["email a weather invoice"], allow=["send_email"])
    assert said["names"] == [["send_email"]]


def test_a_search_whose_time_is_up_answers_with_what_it_has(tools: str):
    with Child(LEXICAL) as child:
        child.ask("load", tools=tools)
        child.ask("index")
        said = child.ask("search", queries=["weather"] * 50, budget_s=0)
    assert len(said["names"]) == 1


def test_the_failure_of_a_contestant_is_reported_with_its_reason(tmp_path: Path, tools: str):
    broken = adapter(tmp_path, "class Peer:\n    def __init__(self, rows, limit): 1 / 0\n")
    with Child(broken) as child, pytest.raises(PeerError, match="ZeroDivisionError: division"):
        child.ask("load", tools=tools)


def test_a_contestant_that_dies_reports_the_end_of_its_output(tmp_path: Path, tools: str):
    text = "import os, sys\nprint('out of luck', file=sys.stderr, flush=True)\nos._exit(3)\n"
    with Child(adapter(tmp_path, text)) as child, pytest.raises(PeerError, match="out of luck"):
        child.ask("load", tools=tools)


def test_output_of_a_contestant_does_not_disturb_its_answers(tmp_path: Path, tools: str):
    text = "class Peer:\n    def __init__(self, rows, limit): print('hello', list(rows)[0])\n"
    with Child(adapter(tmp_path, text)) as child:
        assert child.ask("load", tools=tools)["s"] >= 0


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.label)
def test_every_peer_is_pinned_and_has_an_adapter(peer: Contestant):
    lines = peer.requirements.read_text(encoding="utf-8").split()
    assert all(line.count("==") == 1 and "/" not in line for line in lines)
    assert peer.version
    assert peer.script.is_file()


def test_an_environment_that_was_never_made_is_a_failure_with_a_reason():
    with pytest.raises(PeerError, match="environment"):
        Child(Contestant("some", "toolscout", "some", "never made"))
