"""`toolscout search`, as scripts and people use it."""

from __future__ import annotations

import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

PLAIN = ("--embedder", "none")


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    file = tmp_path / "tools.jsonl"
    rows = [
        {"name": "send_email", "description": "Send an email message.", "server": "mail"},
        {"name": "post_message", "description": "Post a message to Slack.", "server": "slack"},
        {
            "name": "get_weather",
            "description": "Weather for a city :smile: [bold]",
            "parameters": None,
        },
    ]
    file.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return file


def test_json_has_the_form_that_scripts_rely_on(shell, tools: Path) -> None:
    done = shell("search", "send a message", "--catalog", str(tools), "-k", "2", "--json", *PLAIN)

    found = json.loads(done.out)
    assert done.code == 0
    assert done.err == ""
    assert {"query", "confidence", "answered", "took_ms", "hits"} <= set(found)
    assert found["query"] == "send a message"
    assert found["answered"] is True
    assert 0 <= found["confidence"] <= 1
    assert len(found["hits"]) == 2
    assert {"name", "score", "why"} <= set(found["hits"][0])
    assert all(isinstance(reason, str) for reason in found["hits"][0]["why"])


def test_words_on_the_command_line_are_one_query_and_also_adds_another(shell, tools: Path) -> None:
    one = shell("search", "weather", "city", "--catalog", str(tools), "--json", *PLAIN)
    two = shell("search", "weather", "--also", "email", "-c", str(tools), "--json", *PLAIN)

    assert json.loads(one.out)["query"] == "weather city"
    assert {h["name"] for h in json.loads(two.out)["hits"]} >= {"get_weather", "send_email"}


def test_a_pipe_gets_lines_with_tabs_and_remarks_as_comments(shell, tools: Path) -> None:
    done = shell("search", "message", "--catalog", str(tools), *PLAIN)

    lines = done.out.splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    assert {row[0] for row in rows} == {"send_email", "post_message"}
    assert all(len(row) == 4 for row in rows)
    assert any(line.startswith("# confidence") for line in lines)


def test_a_terminal_gets_a_table_with_texts_as_they_are(
    shell, tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = shell("search", "weather", "--catalog", str(tools), *PLAIN)

    assert "what it does" in done.out
    assert "Weather for a city :smile: [bold]" in done.out
    assert "━" in done.out


def test_explain_shows_how_the_query_was_read_and_what_spoke_for_a_tool(shell, tools: Path) -> None:
    text = "+message server:mail"
    done = shell("search", text, "--catalog", str(tools), "--explain", "--json", *PLAIN)
    shown = shell("search", text, "--catalog", str(tools), "--explain", *PLAIN)

    found = json.loads(done.out)
    assert found["read_as"] == ["server:mail +message"]
    assert [hit["name"] for hit in found["hits"]] == ["send_email"]
    reason = found["hits"][0]["reasons"][0]
    assert set(reason) == {"arm", "field", "words", "score"}
    assert "read as: server:mail +message" in shown.out
    assert reason["arm"] in shown.out


def test_server_and_tool_options_filter_before_ranking(shell, tools: Path) -> None:
    base = ("search", "message weather", "--catalog", str(tools), "--json", *PLAIN)

    def names(*options: str) -> set[str]:
        return {hit["name"] for hit in json.loads(shell(*base, *options).out)["hits"]}

    assert names("--server", "slack") == {"post_message"}
    assert names("--tool", "mail:send_email") == {"send_email"}
    assert names("--tool", "getWeather") == {"get_weather"}
    assert names("--server", "slack", "--tool", "mail:*") == {"post_message", "send_email"}


def test_a_filter_that_matches_nothing_is_reported(shell, tools: Path) -> None:
    for name in ("post_mesage", "mail:post_mesage"):
        done = shell("search", "message", "--catalog", str(tools), "--tool", name, *PLAIN)

        assert f"No tool is named {name!r}. Near: post_message" in done.err
        assert "ignored" not in done.err
        assert done.out.startswith("# Nothing fits.")


def test_below_the_cut_a_search_is_not_answered_and_says_so(shell, tools: Path) -> None:
    base = ("search", "message", "--catalog", str(tools), *PLAIN)

    assert shell(*base, "--cut", "1").code == 1
    assert "Not sure enough" in shell(*base, "--cut", "1").out
    assert json.loads(shell(*base, "--cut", "1", "--json").out)["answered"] is False
    assert json.loads(shell(*base, "--json").out)["answered"] is True


@pytest.mark.behaviour("S11")
def test_below_a_least_confidence_the_answer_is_advice_on_what_to_ask(shell) -> None:
    done = shell("search", lines="send an email\nhow tall is mount everest\n")

    capability, content = done.out.split("# confidence")[:2]
    assert "Unsure: perhaps nothing fits. Describe the action in other words" in content
    assert "Perhaps" not in capability
    assert content.index("Unsure: perhaps nothing fits") < content.index("\t")


def test_nothing_found_is_an_answer_too(shell, tools: Path) -> None:
    done = shell("search", "/zzz/", "--catalog", str(tools), *PLAIN)

    assert done.code == 0
    assert done.out.startswith("# Nothing fits.")


@pytest.mark.parametrize("query", ["xkqz vbnwt", "qwpzx", "blorf gnarfle zzyx"])
def test_nonsense_gets_nothing_fits_first_and_no_hits(shell, query: str) -> None:
    done = shell("search", query, "--catalog", "example")
    found = json.loads(shell("search", query, "--catalog", "example", "--json").out)

    assert done.out.startswith("# Nothing fits.")
    assert "\t" not in done.out
    assert found["hits"] == []
    assert found["near"]


@pytest.mark.parametrize(
    "query", ["fly me to mars", "hello", "velvet thunder biscuit", "wash my car", "who made you?"]
)
def test_a_request_about_something_else_gets_doubt_before_the_hits(shell, query: str) -> None:
    done = shell("search", query, "--catalog", "example")

    assert done.out.startswith(("# Unsure: perhaps nothing fits.", "# Nothing fits."))


def test_nothing_fits_is_below_every_cut_and_in_json(shell) -> None:
    done = shell("search", "qwpzx", "--catalog", "example", "--cut", "0.5", "--json")
    found = json.loads(done.out)

    assert done.code == 1
    assert (found["answered"], found["verdict"]) == (False, "nothing fits")
    assert found["notes"][0].startswith("Nothing fits.")


@pytest.mark.parametrize(
    ("query", "verdict"), [("fly me to mars", "unsure"), ("send mail", "likely")]
)
def test_json_carries_the_verdict_and_its_note(shell, query: str, verdict: str) -> None:
    found = json.loads(shell("search", query, "--catalog", "example", "--json").out)

    assert found["verdict"] == verdict
    has_note = any(note.startswith("Unsure: perhaps nothing fits.") for note in found["notes"])
    assert has_note is (verdict == "unsure")


def test_a_request_in_an_unknown_language_gets_a_note(shell) -> None:
    query = "Thời tiết ngày mai thế nào?"
    note = "Semantic search does not know this language"

    assert note in shell("search", query, "--catalog", "example").out
    found = json.loads(shell("search", query, "--catalog", "example", "--json").out)
    assert any(line.startswith(note) for line in found["notes"])
    assert note not in shell("search", "wie wird das Wetter?", "--catalog", "example").out


def test_a_corrected_request_for_a_tool_by_name_gets_no_doubt(shell) -> None:
    done = shell("search", "sned emial", "--catalog", "example")

    assert done.out.startswith("send_email\t")


def test_a_successor_gets_the_verdict_of_the_tool_that_it_replaces(shell, tmp_path: Path) -> None:
    old = {"name": "create_ticket", "description": "DEPRECATED: use open_case. Support tickets."}
    new = {"name": "open_case", "description": "Open a case for a customer."}
    file = tmp_path / "tools.jsonl"
    file.write_text(f"{json.dumps(old)}\n{json.dumps(new)}\n", encoding="utf-8")
    options = ("--catalog", "example", "--catalog", str(file), "--json")

    found = json.loads(shell("search", "create a support ticket", *options).out)
    assert [hit["name"] for hit in found["hits"]][:2] == ["open_case", "create_ticket"]
    assert found["verdict"] == "likely"


@pytest.mark.parametrize("query", ["mail the invoice to Ann", "wann haben alle Zeit?", "refund"])
def test_a_real_request_gets_no_doubt(shell, query: str) -> None:
    assert "othing fits" not in shell("search", query, "--catalog", "example").out


@pytest.mark.parametrize("query", ["mail the invoice", "send a report to my boss, then file it"])
def test_the_parts_of_an_explanation_add_up_to_the_score(shell, query: str) -> None:
    shown = shell("search", query, "--catalog", "example", "--explain")
    parts: dict[str, list[float]] = {}
    for line in shown.out.splitlines():
        if head := re.fullmatch(r"(\w+)  (-?[\d.]+)", line):
            name = f"{head[1]} {head[2]}"
            parts[name] = []
        elif part := re.fullmatch(r"    .*  ([+-][\d.]+)", line):
            parts[name].append(float(part[1]))
    assert len(parts) == 5
    for name, scores in parts.items():
        assert sum(scores) == pytest.approx(float(name.split()[1]), abs=5e-4)
        assert len(scores) >= 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("search", "/mail(/"), "Error: Invalid regex pattern: missing ) (at character 6)."),
        (("search", "mail", "--also", "/mail(/"), "In query 2: Invalid regex pattern"),
        (("search", "x", "--mode", "regex", "--catalog", "nowhere.jsonl"), "does not exist"),
        (("search", "x", "--embedder", "nonsense"), "no embedder 'nonsense'"),
        (("search", "x", "-k", "0"), "Invalid value"),
        (("search", "-slack"), "after --"),
        (("search", "x", "--cut", "7"), "Invalid value"),
        (("serch",), "Did you mean search?"),
        (("zzz",), "No such command"),
        (("search", "re:" + "a" * 300), "at most 200"),
    ],
)
def test_mistakes_are_reported_on_stderr_without_a_traceback(
    shell, arguments: tuple[str, ...], told: str
) -> None:
    done = shell(*arguments)

    assert done.code == 2
    assert done.out == ""
    assert told in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("search", "/mail(/", "--json"), "query"),
        (("search", "--json", "--nope"), "usage"),
        (("search", "x", "--embedder", "nonsense", "--json"), "config"),
    ],
)
def test_with_json_mistakes_are_json(shell, arguments: tuple[str, ...], code: str) -> None:
    done = shell(*arguments)

    error = json.loads(done.err)["error"]
    assert done.code == 2
    assert done.out == ""
    assert error["code"] == code
    assert error["message"]
    assert error["hint"]
    assert error.get("position") == (5 if code == "query" else None)


def test_a_query_that_begins_with_a_dash_goes_after_two_dashes(shell, tools: Path) -> None:
    done = shell("search", "--catalog", str(tools), "--json", *PLAIN, "--", "-slack message")

    assert [hit["name"] for hit in json.loads(done.out)["hits"]] == ["send_email"]


@pytest.mark.parametrize(
    "query",
    [
        "!!! ??? ...",
        "the of and a",
        "\x00\x01\x1b[31m",
        "x" * 100_000,
        "(a+)+$",
        "🙂🙃",
        " ",
        "\ud83d",
    ],
    ids=["punctuation", "stop words", "controls", "long", "regex", "emoji", "blank", "surrogate"],
)
def test_odd_queries_get_a_prompt_clear_answer(shell, query: str) -> None:
    done = shell("search", query, "--json", *PLAIN)

    assert done.code == 0
    assert json.loads(done.out)["query"] == query.encode(errors="replace").decode()
    assert done.err == ""


def test_a_query_of_a_megabyte_is_answered_from_its_beginning(shell) -> None:
    done = shell("search", "send an email " + "word " * 200_000, "--json", *PLAIN)

    found = json.loads(done.out)
    assert done.code == 0
    assert found["hits"][0]["name"] == "send_email"
    assert any("cut" in note for note in found["notes"])


def test_a_failed_embedder_is_reported_and_keyword_search_works(shell, tools: Path) -> None:
    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_error(401)

        def log_message(self, *_words: object) -> None:
            """Nothing to say."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        spec = f"openai:model@http://127.0.0.1:{server.server_port}/v1"
        done = shell("search", "weather", "-c", str(tools), "--json", "--embedder", spec)
        server.shutdown()

    found = json.loads(done.out)
    assert done.code == 0
    assert found["hits"][0]["name"] == "get_weather"
    assert "Keyword search only" in done.err
    assert found["notes"]


def test_bad_rows_are_reported_and_the_rest_is_searched(shell, tools: Path) -> None:
    tools.write_text(tools.read_text() + "\n{half a row", encoding="utf-8")

    done = shell("search", "weather", "--catalog", str(tools), "--json", *PLAIN)

    assert json.loads(done.out)["hits"][0]["name"] == "get_weather"
    assert f"{tools}:4" in done.err


def test_several_catalogs_are_one_search(shell, tools: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.json"
    more.write_text('[{"name": "weather_map", "description": "Draw a weather map."}]')

    done = shell("search", "weather", "-c", str(tools), "-c", str(more), "--json", *PLAIN)

    assert {h["name"] for h in json.loads(done.out)["hits"]} >= {"get_weather", "weather_map"}


def test_a_newcomer_finds_the_right_tool_in_the_example_in_many_languages(shell) -> None:
    expected = {
        "mail the invoice to Ann": "send_email",
        "brauche ich morgen einen Regenschirm?": "weather_forecast",
        "quel temps fait-il à Paris": "current_weather",
        "enviar un correo a mi jefe": "send_email",
        "wyślij wiadomość do zespołu": "post_message",
        "구글에서 검색": "web_search",
        "会議を予約する": "create_event",
        "what time is it in Tokyo": "local_time",
        "wether forcast": "weather_forecast",
    }

    done = shell("search", "-k", "3", "--json", lines="\n".join(expected))

    answers = [json.loads(line) for line in done.out.splitlines()]
    found = {a["query"]: [hit["name"] for hit in a["hits"]] for a in answers}
    assert {query: tool for query, tool in expected.items() if tool not in found[query]} == {}
