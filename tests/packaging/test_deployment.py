"""Release workflow, Dockerfile and unit agree with the package that they deploy."""

import configparser
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts.release_notes import release_notes

from toolscout.cli.serve import DEFAULT_PORT, command

PROJECT = Path(__file__).parents[2]
WORKFLOWS = PROJECT / ".github" / "workflows"
CHANGELOG = """# Changelog

## 0.3.0 - unreleased

- c

## 0.2.0 - 2026-11-20

### Added

- b

## 0.1.0 - 2026-01-01

- a
"""


def workflow(name: str) -> dict[str, Any]:
    return yaml.safe_load((WORKFLOWS / name).read_text(encoding="utf-8"))


def test_notes_of_a_release_are_its_section_of_the_changelog():
    notes = release_notes("v0.2.0", version="0.2.0", changelog=CHANGELOG)
    assert notes == "### Added\n\n- b\n"


@pytest.mark.parametrize(
    ("tag", "version", "words"),
    [
        ("v0.2.1", "0.2.0", "but pyproject.toml has version 0.2.0"),
        ("v0.3.0", "0.3.0", "no date for 0.3.0"),
        ("v0.4.0", "0.4.0", "no section for 0.4.0"),
    ],
)
def test_a_release_that_is_not_ready_is_refused(tag: str, version: str, words: str):
    with pytest.raises(ValueError, match=words):
        release_notes(tag, version=version, changelog=CHANGELOG)


def test_a_release_is_tested_on_every_system_and_python_before_it_is_published():
    jobs = workflow("release.yml")["jobs"]
    matrix = jobs["test"]["strategy"]["matrix"]
    assert {name.partition("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert (jobs["test"]["needs"], jobs["publish"]["needs"]) == ("build", "test")
    assert jobs["github-release"]["needs"] == "publish"


def test_publishing_needs_no_secret_and_other_jobs_only_read():
    flow = workflow("release.yml")
    assert flow["permissions"] == {"contents": "read"}
    assert flow["jobs"]["publish"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in (WORKFLOWS / "release.yml").read_text(encoding="utf-8")


def test_workflows_use_only_actions_of_github():
    for path in WORKFLOWS.glob("*.yml"):
        used = re.findall(r"uses: (\S+)", path.read_text(encoding="utf-8"))
        assert used
        assert [name for name in used if not name.startswith("actions/")] == []


def test_the_image_runs_as_a_user_keeps_state_in_a_volume_and_checks_its_health():
    text = (PROJECT / "Dockerfile").read_text(encoding="utf-8")
    last = text.rpartition("\nFROM ")[2]
    assert re.search(r"^USER 10001", last, re.MULTILINE)
    (home,) = re.findall(r"TOOLSCOUT_HOME=(\S+)", last)
    assert f"VOLUME {home}\n" in last
    assert f"EXPOSE {DEFAULT_PORT}\n" in last
    assert f"127.0.0.1:{DEFAULT_PORT}/health/live" in last
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    sent = (PROJECT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    names = " ".join(copied).split()
    assert [name for name in names if not (PROJECT / name).exists()] == []
    assert [name for name in names if f"!{name}" not in sent] == []


def test_the_commands_of_image_and_unit_have_options_that_exist():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(PROJECT / "deploy" / "toolscout.service", encoding="utf-8")
    (line,) = re.findall(r"^CMD (\[\"serve.*\])$", (PROJECT / "Dockerfile").read_text(), re.M)
    known = {name for option in command.params for name in option.opts}
    for arguments in (unit["Service"]["ExecStart"].split(), yaml.safe_load(line)):
        given = [name for name in arguments if name.startswith("--")]
        assert given
        assert [name for name in given if name not in known] == []
    assert unit["Service"]["DynamicUser"] == "yes"
    assert unit["Service"]["NoNewPrivileges"] == "yes"
    assert unit["Service"]["StateDirectory"] == "toolscout"
