"""Running commands in this process, as a shell would."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from toolscout.cli.app import run


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str


Shell = Callable[..., Outcome]


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where vectors are kept, so that the examples are encoded once for all tests."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def shell(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Run `toolscout` with arguments and, if wanted, lines on its input."""
    monkeypatch.setenv("TOOLSCOUT_HOME", str(home))
    for name in ("FORCE_COLOR", "TOOLSCOUT_EMBEDDER", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str, lines: str = "") -> Outcome:
        monkeypatch.setattr("sys.stdin", io.StringIO(lines))
        capsys.readouterr()
        code = run(arguments)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call
