"""Searching line by line."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

PLAIN = ("--embedder", "none")


def test_piped_lines_are_answered_one_by_one(shell) -> None:
    done = shell("search", *PLAIN, lines="weather forecast\n\nrefund a payment\n")

    assert done.code == 0
    first, _, second = done.out.partition("# confidence")
    assert first.startswith("weather_forecast\t")
    assert "\nrefund_payment\t" in second


def test_without_anything_to_read_a_few_searches_are_shown(shell) -> None:
    done = shell("search", "--interactive", *PLAIN)

    assert done.code == 0
    assert done.out.count("search> ") >= 3
    assert "send_email" in done.out


def test_commands_show_help_list_and_single_tools(shell) -> None:
    lines = ":help\n:show sendEmail\n:show send_emial\n:list\n:nonsense\n"
    done = shell("search", "-i", *PLAIN, lines=lines)

    assert done.code == 0
    assert "server:name" in done.out
    assert "the text of the message" in done.out
    assert "No tool is named 'send_emial'. Near: send_email" in done.out
    assert "\nfetch_page\n" in done.out
    assert "There is no :nonsense" in done.out


@pytest.mark.parametrize("word", ["help", "Help", "?", ":help"])
def test_help_helps_however_it_is_asked_for(shell, word: str) -> None:
    done = shell("search", "-i", *PLAIN, lines=f"{word}\n")

    assert done.out.startswith("Type what you need")
    assert "confidence" not in done.out


@pytest.mark.parametrize("word", ["quit", "Exit", ":q", ":quit"])
def test_quit_leaves_however_it_is_written(shell, word: str) -> None:
    done = shell("search", "-i", *PLAIN, lines=f"{word}\nweather forecast\n")

    assert (done.code, done.out) == (0, "")


def test_help_says_how_to_leave(shell) -> None:
    assert "quit, exit" in shell("search", "-i", *PLAIN, lines="help\n").out


def test_quit_ends_and_a_bad_query_does_not(shell) -> None:
    done = shell("search", *PLAIN, lines="/(/\nget_menu\n:quit\nget_page\n")

    assert done.code == 0
    assert "missing )" in done.err
    assert done.out.startswith("get_menu\t")
    assert not done.out.startswith("get_page\t")
    assert "\nget_page\t" not in done.out.partition("# confidence")[2]


def test_a_first_query_may_stand_on_the_command_line(shell) -> None:
    done = shell("search", "-i", "weather forecast", *PLAIN, lines="refund a payment")

    assert done.out.startswith("weather_forecast\t")
    assert "refund_payment\t" in done.out


def test_a_person_at_a_terminal_is_greeted_and_answered(home: Path) -> None:
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "toolscout.cli", "search", *PLAIN],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.STDOUT,
        env={**os.environ, "TOOLSCOUT_HOME": str(home), "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(theirs)
    os.write(ours, b"weather forecast\n:quit\n")
    seen = b""
    while True:
        try:
            chunk = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        seen += chunk
    os.close(ours)

    assert child.wait() == 0
    text = seen.decode()
    assert "81 tools" in text
    assert "search>" in text
    assert "weather_forecast" in text
    assert "━" in text


def test_show_without_a_name_says_how_to_use_it(shell) -> None:
    done = shell("search", *PLAIN, lines=":show\n")

    assert "Name a tool: :show NAME." in done.out


def test_with_json_stdout_has_only_the_answers_of_queries(shell) -> None:
    done = shell("search", *PLAIN, "--json", lines="help\n:list\n:show nothing\nrefund a payment\n")

    (answer,) = map(json.loads, done.out.splitlines())
    assert answer["query"] == "refund a payment"
    helped, listed, shown = (json.loads(x)["warning"]["message"] for x in done.err.splitlines())
    assert "server:name" in helped
    assert "send_email" in listed
    assert "No tool is named 'nothing'" in shown


def test_a_table_keeps_names_whole_on_a_narrow_terminal() -> None:
    program = "from toolscout.cli.output import print_table as p;"
    program += "p(('question', 'tool'), [('a long question ' * 9, 'weather_forecast_of_a_city')])"
    main, other = pty.openpty()
    env = {**os.environ, "COLUMNS": "60", "TERM": "dumb"}
    subprocess.run([sys.executable, "-c", program], stdout=other, env=env, check=True)
    os.close(other)
    assert b"weather_forecast_of_a_city" in os.read(main, 65_536)
    os.close(main)
