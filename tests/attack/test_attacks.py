"""The quick attacks; `make attack` carries out all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.attack.__main__ import main
from tests.attack.lab import Lab
from tests.attack.table import Attack, carry_out, load_families, render

QUICK = [each for each in load_families() if each.is_quick]


@pytest.mark.parametrize("each", QUICK, ids=lambda each: each.name)
async def test_an_attack_is_withstood(each: Attack) -> None:
    row = await carry_out(each)
    assert row.is_held, f"{row.held} of {row.tried} held\n{row.explanation}"


async def test_an_attack_that_fails_or_tries_nothing_counts_as_not_held() -> None:
    async def fail(_: object) -> tuple[int, int]:
        raise RuntimeError("no attack")

    async def idle(_: object) -> tuple[int, int]:
        return 0, 0

    rows = [await carry_out(Attack("faults", "x", run)) for run in (fail, idle)]
    assert not any(row.is_held for row in rows)
    assert render(rows).count("**not held**") == 2


async def test_an_attempt_that_is_not_withstood_is_named() -> None:
    async def try_three(lab: Lab) -> tuple[int, int]:
        return 3, sum(lab.note(each != "second", each) for each in ("first", "second", "third"))

    row = await carry_out(Attack("faults", "x", try_three))
    assert not row.is_held
    assert "'second'" in row.explanation
    assert "'first'" not in row.explanation
    assert row.explanation.strip() in render([row])


@pytest.mark.parametrize(
    ("arguments", "code", "out", "err"),
    [
        (["--help"], 0, "Families: faults, overload, fuzzing", ""),
        (["--list", "fuzzing"], 0, "fuzzing: Bytes that are not HTTP", ""),
        (["nonsense"], 2, "", "no attack has 'nonsense' in its name; families: faults,"),
        (["--fast"], 2, "", "unrecognized arguments: --fast"),
        (["--quick", "Bytes that are not HTTP"], 2, "", "none of these attacks is quick"),
    ],
)
def test_wrong_or_curious_arguments_start_nothing(
    arguments: list[str], code: int, out: str, err: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    captured = capsys.readouterr()
    assert ended.value.code == code
    assert out in captured.out
    assert err in captured.err


def test_the_page_on_security_has_every_attack_and_no_other() -> None:
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    section = page.partition("\n## Attacks\n")[2].partition("\n## ")[0]
    rows = [re.split(r" *\| *", line.strip("| ")) for line in section.splitlines() if "|" in line]
    _, _, *rows = rows  # the heading and its line
    listed = [(family, name, mark == "yes") for family, name, _, _, mark in rows]
    assert listed == [(each.family, each.name, each.is_quick) for each in load_families()]
    assert all(tried == held for _, _, tried, held, _ in rows)
    assert len(rows) >= 40
