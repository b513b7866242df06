"""`make audit` is never green when the packages could not be looked up."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
from audit_packages import EXIT_FOUND, EXIT_NOT_RUN, judge

CLEAN = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]}
SKIPPED = {"name": "c", "skip_reason": "Dependency not found"}


@pytest.mark.parametrize(
    ("found", "code", "said"),
    [
        ([CLEAN], 0, "1 packages, 0 with known vulnerabilities."),
        ([CLEAN, BAD], EXIT_FOUND, "b 2: PYSEC-1, fixed in 3"),
        # As pip-audit answers if the service knows no package, with exit code 0.
        ([SKIPPED], EXIT_NOT_RUN, "could not run: 1 of 1 packages were not looked up"),
        ([CLEAN, SKIPPED], EXIT_NOT_RUN, "could not run: 1 of 2 packages were not looked up"),
        ([BAD, SKIPPED], EXIT_FOUND, "could not run: 1 of 2 packages were not looked up"),
        ([], EXIT_NOT_RUN, "could not run"),
        ("no connection", EXIT_NOT_RUN, "could not run: no connection"),
    ],
)
def test_only_a_complete_answer_without_findings_is_green(
    found: Any, code: int, said: str, capsys: pytest.CaptureFixture[str]
):
    assert judge(found) == code
    assert said in capsys.readouterr().out
