"""`toolscout catalog`: list, show, validate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolscout.examples import CATALOG


def test_list_shows_the_example_by_default(shell) -> None:
    done = shell("catalog", "list", "--json")

    rows = json.loads(done.out)
    assert done.code == 0
    assert len(rows) == 81
    assert set(rows[0]) == {"name", "description", "server", "category"}


def test_list_can_be_narrowed_and_is_lines_in_a_pipe(shell) -> None:
    done = shell("catalog", "list", "--server", "cms", "--category", "images")

    names = [line.split("\t")[0] for line in done.out.splitlines()]
    assert names == ["search_images", "upload_image", "add_image"]


def test_show_takes_any_spelling_of_a_name(shell) -> None:
    text = shell("catalog", "show", "sendEmail")
    row = shell("catalog", "show", "send-email", "--json")

    assert text.code == 0
    assert "the line people see first" in text.out
    assert json.loads(row.out)["name"] == "send_email"
    assert json.loads(row.out)["parameters"]["required"] == ["to", "subject", "body"]


def test_show_of_an_unknown_tool_names_the_nearest(shell) -> None:
    text = shell("catalog", "show", "send_emial")
    found = shell("catalog", "show", "send_emial", "--json")

    assert (text.code, found.code) == (1, 1)
    assert "Similar names: send_email" in text.err
    assert json.loads(found.err)["error"]["code"] == "unknown_tool"


def test_the_example_catalog_is_valid_to_the_last_advice(shell) -> None:
    done = shell("catalog", "validate", str(CATALOG), "--strict")

    assert done.code == 0
    assert "81 tools, 0 errors, 0 warnings" in done.out


def test_validate_counts_one_thing_in_the_singular(shell, tmp_path: Path) -> None:
    file = tmp_path / "tools.jsonl"
    file.write_text('{"name": "send_email", "description": "Send an email message to a person."}\n')

    assert "1 tool, 0 errors" in shell("catalog", "validate", str(file)).out


@pytest.fixture
def flawed(tmp_path: Path) -> Path:
    file = tmp_path / "tools.jsonl"
    file.write_text(
        '{"name": "good_tool", "description": "Read the content of a file from disk."}\n'
        "{half\n"
        '{"name": "vague", "description": "Does things."}\n'
        '{"description": "no name"}\n',
        encoding="utf-8",
    )
    return file


def test_validate_tells_every_problem_with_its_place(shell, flawed: Path) -> None:
    done = shell("catalog", "validate", str(flawed))

    assert done.code == 1
    assert f"{flawed}:2" in done.out
    assert f"{flawed}:4" in done.out
    assert "warning: vague" in done.out
    assert "2 tools, 2 errors" in done.out


@pytest.mark.parametrize("command", [("catalog", "show", "nothing"), ("search", "select:nothing")])
def test_with_json_every_line_beside_the_output_is_json(shell, flawed: Path, command) -> None:
    done = shell(*command, "--catalog", str(flawed), "--json")

    told = [json.loads(line) for line in done.err.splitlines()]
    warnings = [line["warning"]["message"] for line in told if "warning" in line]
    assert [f"{flawed}:2" in warnings[0], f"{flawed}:4" in warnings[1]] == [True, True]
    assert [line["error"]["code"] for line in told[2:]] == ["unknown_tool"] * (
        command[0] == "catalog"
    )
    assert f"{flawed}:2: Not valid JSON" in shell(*command, "--catalog", str(flawed)).err


def test_validate_speaks_json(shell, flawed: Path) -> None:
    done = shell("catalog", "validate", "--catalog", str(flawed), "--json")

    found = json.loads(done.out)
    assert done.code == 1
    assert found["valid"] is False
    assert found["tools"] == 2
    assert {p["severity"] for p in found["problems"]} == {"error", "warning"}
    assert all(p["where"] and p["message"] and p["remedy"] for p in found["problems"])


def test_advice_alone_fails_only_a_strict_check(shell, tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text('[{"name": "vague", "description": "Does things."}]')

    assert shell("catalog", "validate", str(file)).code == 0
    assert shell("catalog", "validate", str(file), "--strict").code == 1


def test_a_file_of_another_kind_is_an_error(shell, tmp_path: Path) -> None:
    file = tmp_path / "picture.png"
    file.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0")

    done = shell("catalog", "list", "--catalog", str(file), "--json")

    assert done.code == 2
    assert json.loads(done.err)["error"]["code"] == "source"
