"""`toolscout catalog phrases` and `catalog lint`, and `search --overlay`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HAND_WRITTEN = """\
# Phrases of our team.

[mail.send_email]  # reviewed in May
# asked for by sales
phrases = [
  "drop a line",  # the old slogan
  'ping a colleague'
]

[chat.post_message]
phrases = ["shout it", "tell everyone"]
"""


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    path = tmp_path / "phrases.toml"
    path.write_text(HAND_WRITTEN)
    return path


def first(done) -> str:
    return json.loads(done.out)["hits"][0]["name"]


def search(shell, overlay: Path, *query: str):
    options = ("--catalog", "example", "--embedder", "none", "--json", "--overlay", str(overlay))
    return shell("search", *query, *options)


def test_a_phrase_is_added_and_found_by_real_processes(tmp_path: Path) -> None:
    env = {**os.environ, "TOOLSCOUT_HOME": str(tmp_path), "TOOLSCOUT_OVERLAY": "new.toml"}

    def toolscout(*arguments: str) -> str:
        command = [sys.executable, "-m", "toolscout.cli", *arguments, "--catalog", "example"]
        done = subprocess.run(
            command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout

    query = ("search", "crow from the rooftops", "--embedder", "none", "--json")
    before = json.loads(toolscout(*query))["hits"]
    assert not before or before[0]["name"] != "post_message"
    added = toolscout("catalog", "phrases", "add", "postMessage", "crow from the rooftops")
    assert added.startswith("chat.post_message: 1 phrase, 0 aliases in ")
    assert json.loads(toolscout(*query))["hits"][0]["name"] == "post_message"
    assert (tmp_path / "new.toml").read_text() == (
        '[chat.post_message]\nphrases = [\n  "crow from the rooftops",\n]\n'
    )


def test_a_preview_shows_the_rank_of_a_tool_and_saves_nothing(shell, overlay: Path) -> None:
    before = overlay.read_text()
    options = ("--overlay", str(overlay), "--catalog", "example", "--embedder", "none")
    words = ("catalog", "phrases", "add", "post_message", "crow loudly", "--preview", *options)
    shown = shell(*words)
    ranks, note = shown.out.splitlines()
    assert ranks.startswith("crow loudly\tnot ranked\t0.00\t1 of 81\t")
    assert note == "# Nothing was saved."
    # What is in the file already counts before and after.
    (row,) = json.loads(shell(*words, "--query", "tell everyone loudly", "--json").out)
    assert [row[moment]["rank"] for moment in ("before", "after")] == [1, 1]
    assert row["after"]["tools"] == 81
    assert overlay.read_text() == before


def test_an_edit_keeps_comments_and_other_entries(shell, overlay: Path) -> None:
    options = ("--overlay", str(overlay), "--catalog", "example", "--json")
    added = shell(
        "catalog", "phrases", "add", "send_email", "write to Ann", "--alias", "post", *options
    )
    assert json.loads(added.out)["phrases"] == ["drop a line", "ping a colleague", "write to Ann"]
    assert overlay.read_text() == HAND_WRITTEN.replace(
        "  'ping a colleague'\n]\n",
        '  \'ping a colleague\',\n  "write to Ann",\n]\naliases = [\n  "post",\n]\n',
    )
    gone = shell(
        *("catalog", "phrases", "remove", "mail.send_email", "write to Ann", "--alias", "post"),
        *("--overlay", str(overlay)),
    )
    assert gone.code == 0
    assert overlay.read_text() == HAND_WRITTEN.replace(
        "'ping a colleague'\n", "'ping a colleague',\n"
    )


def test_json_lines_are_edited_row_by_row(shell, tmp_path: Path) -> None:
    overlay = tmp_path / "phrases.jsonl"
    kept = '{"tool":"send_email", "server": "mail", "phrases": ["drop a line"]}\n\n'
    overlay.write_text(kept)
    options = ("--overlay", str(overlay), "--catalog", "example")
    shell("catalog", "phrases", "add", "post_message", "crow about it", "--alias", "crow", *options)
    row = {"server": "chat", "tool": "post_message", "phrases": ["crow about it"]}
    written = overlay.read_text()
    assert written.startswith(kept), "other rows stay as they are"
    assert json.loads(written.splitlines()[-1]) == {**row, "aliases": ["crow"]}
    assert first(search(shell, overlay, "crow about it")) == "post_message"
    for change in (("post_message", "--alias", "crow"), ("send_email",)):
        done = shell("catalog", "phrases", "remove", *change, "--overlay", str(overlay))
        assert done.code == 0
    assert overlay.read_text() == f"\n{json.dumps(row)}\n"
    shell("catalog", "phrases", "remove", "post_message", "--overlay", str(overlay))
    assert overlay.read_text().strip() == ""


def test_a_whole_entry_can_be_removed_even_if_its_tool_is_gone(shell, overlay: Path) -> None:
    overlay.write_text(f'{HAND_WRITTEN}\n[old.tool]\nphrases = ["x"]\naliases = ["y"]\n')
    done = shell("catalog", "phrases", "remove", "old__tool", "--overlay", str(overlay))
    assert done.code == 0
    assert overlay.read_text() == HAND_WRITTEN


def test_the_list_names_entries_that_fit_no_tool(shell, overlay: Path) -> None:
    overlay.write_text(f'{HAND_WRITTEN}\n[mail.send_mail]\naliases = ["post"]\n')
    options = ("--overlay", str(overlay), "--catalog", "example")
    done = shell("catalog", "phrases", "list", *options)
    assert done.out.splitlines()[0] == "mail\tsend_email\tphrase\tdrop a line"
    assert "mail\tsend_mail\talias\tpost" in done.out.splitlines()
    assert "line 13, mail.send_mail: The server 'mail' has no tool 'send_mail'" in done.err
    rows = json.loads(shell("catalog", "phrases", "list", *options, "--json").out)
    assert [row["is_known"] for row in rows] == [True, False, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("add", "send_emial", "x"), "Similar names: send_email"),
        (("add", "send_email"), "at least one phrase"),
        (("add", "send_email", " "), "an empty text in phrases"),
        (("remove", "send_email", "never said"), "has no 'never said' in its phrases"),
        (("remove", "nobody"), "no entry for 'nobody'"),
    ],
)
def test_a_wrong_edit_says_what_to_do_and_changes_nothing(
    shell, overlay: Path, arguments: tuple[str, ...], message: str
) -> None:
    catalog = ("--catalog", "example") if arguments[0] == "add" else ()
    done = shell("catalog", "phrases", *arguments, "--overlay", str(overlay), *catalog)
    assert message in done.err
    assert done.code == 2
    assert overlay.read_text() == HAND_WRITTEN


def test_a_layout_that_cannot_be_edited_is_left_alone(shell, overlay: Path) -> None:
    text = '[mail]\nsend_email = {phrases = ["x"]}\n'
    overlay.write_text(text)
    done = shell(
        *("catalog", "phrases", "add", "send_email", "y"),
        *("--overlay", str(overlay), "--catalog", "example"),
    )
    assert "Edit it by hand" in done.err
    assert overlay.read_text() == text


def test_without_a_file_the_command_says_how_to_name_one(shell) -> None:
    done = shell("catalog", "phrases", "add", "send_email", "x", "--catalog", "example")
    assert done.code != 0
    assert "Name one with --overlay FILE" in done.err


def test_a_search_refuses_a_broken_overlay_and_warns_of_unknown_tools(shell, overlay: Path) -> None:
    assert first(search(shell, overlay, "drop a line")) == "send_email"
    overlay.write_text('[mail.send_mail]\nphrases = ["x"]\n')
    assert "Did you mean mail.send_email?" in search(shell, overlay, "mail").err
    overlay.write_text("[mail.send_mail]\nphrases = x\n")
    broken = search(shell, overlay, "mail")
    assert broken.code != 0
    assert "line 2" in json.loads(broken.err)["error"]["message"]


ROWS = [
    {"name": "fetch_report", "description": "Give the yearly figures of the company."},
    {"name": "company_figures", "description": "Give the yearly figures of the company, all."},
    {"name": "play_song", "description": "Start some music in the living room."},
    {"name": "open_door", "description": "Open door."},
]


def test_lint_lists_tools_that_their_own_description_does_not_find(shell, tmp_path: Path) -> None:
    tools, overlay = tmp_path / "tools.jsonl", tmp_path / "phrases.toml"
    tools.write_text("\n".join(map(json.dumps, ROWS)))
    options = ("--catalog", str(tools), "--embedder", "none")
    done = shell("catalog", "lint", *options, "--json")
    assert done.code == 1
    report = json.loads(done.out)
    assert report["tools"] == 4
    missed = {row["tool"]: row for row in report["missed"]}
    assert set(missed) == {"company_figures", "open_door"} or set(missed) == {
        "fetch_report",
        "open_door",
    }
    assert missed["open_door"]["query"] == ""
    for row in missed.values():
        phrase = f"only {row['tool']} does this"
        shell(
            "catalog",
            "phrases",
            "add",
            row["tool"],
            phrase,
            "--overlay",
            str(overlay),
            *options[:2],
        )
    assert shell("catalog", "lint", *options, "--overlay", str(overlay)).code == 0


def test_lint_names_the_tool_that_comes_first_instead(shell, tmp_path: Path) -> None:
    tools = tmp_path / "tools.jsonl"
    tools.write_text("\n".join(map(json.dumps, ROWS[:3])))
    done = shell("catalog", "lint", "--catalog", str(tools), "--embedder", "none", "--json")
    (row,) = json.loads(done.out)["missed"]
    assert row["rank"] == 2
    assert {row["tool"], row["outranked_by"]} == {"fetch_report", "company_figures"}
    assert row["tool"].split("_")[0] not in row["query"].lower()
    text = shell("catalog", "lint", "--catalog", str(tools), "--embedder", "none").out
    assert "3 tools, 1 not found first by their own description." in text
    assert f"toolscout catalog phrases add {row['tool']}" in text


def test_lint_reads_the_servers_of_a_configuration(shell, tmp_path: Path) -> None:
    config, tools = tmp_path / "servers.toml", tmp_path / "tools.jsonl"
    config.write_text('[servers.notes]\ncommand = "notes-server"\n')
    tools.write_text("\n".join(map(json.dumps, ROWS)))

    unlisted = shell("catalog", "lint", "--config", str(config), "--embedder", "none")
    both = shell("catalog", "lint", "--config", str(config), "--catalog", str(tools))

    assert f"No tools of {config} are known yet" in unlisted.err
    assert (unlisted.code, both.code) == (2, 2)
    assert "Give either --config or --catalog, not both." in both.err
