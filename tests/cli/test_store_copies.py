"""What `store copy` carries beside the rows: files of a machine to a database and back."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.conftest import Shell
from tests.store.postgres_server import shared_server

from toolscout.config import Config
from toolscout.gateway.operations.savings_total import SPACE, TotalFile, read_savings
from toolscout.offload.result_factory import open_results
from toolscout.offload.result_files import NewResult
from toolscout.sources.mcp.oauth_tokens import Grant, OAuthTokenStore, open_grant_texts
from toolscout.store.factory import open_store


class Machine:
    """A state folder with an SQLite store, from which the commands are run."""

    def __init__(self, folder: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder, self._shell, self._monkeypatch = folder, shell, monkeypatch
        with closing(open_store(self.config("sqlite"))) as store:
            store.put("session", "{}", expected=0)

    def config(self, store: str = "sqlite") -> Config:
        return Config.read(home=str(self._folder), store=store)

    def copy(self, *arguments: str) -> str:
        with self._monkeypatch.context() as patch:
            patch.setenv("TOOLSCOUT_HOME", str(self._folder))
            done = self._shell("store", "copy", *arguments)
        assert done.code == 0, done.err
        return done.err + done.out


@pytest.fixture
def machines(
    tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> tuple[Machine, Machine]:
    return (
        Machine(tmp_path / "here", shell, monkeypatch),
        Machine(tmp_path / "there", shell, monkeypatch),
    )


@pytest.fixture
def databases() -> tuple[str, str]:
    return shared_server().new_database(), shared_server().new_database()


def write_result(config: Config, *pieces: bytes, now: float) -> str:
    size = sum(map(len, pieces))
    new = NewResult(session="Ann", tool="t", extension=".bin", size=size, now=now, pieces=pieces)
    with closing(open_results(config)) as results:
        return results.write(new).filename


def test_results_are_copied_and_added_to_those_of_the_target(
    machines: tuple[Machine, Machine], databases: tuple[str, str]
):
    here, there = machines
    first, second = databases
    data = os.urandom(3_000_000)
    mine = write_result(here.config(), data, now=1e9)
    theirs = write_result(there.config(), b"theirs", b"too", now=2e9)
    assert "large results: 1" in here.copy("sqlite", first)
    here.copy(first, second)
    there.copy(second, "sqlite", "--force")
    there.copy("sqlite", first, "--force")
    for config in (here.config(first), here.config(second), there.config()):
        with closing(open_results(config)) as results, results.open("Ann", mine) as stream:
            assert stream.read() == data
            written = {entry.name: entry.written for entry in results.entries()}
            assert written[mine] == 1e9
    with closing(open_results(here.config(first))) as results:
        assert results.names("Ann") == (theirs, mine)


def test_savings_are_copied_to_a_database_and_back(
    machines: tuple[Machine, Machine], databases: tuple[str, str]
):
    here, there = machines
    first, second = databases
    for number, name in enumerate(("one.json", "two.json")):
        TotalFile.of(here.config().state_folder, Path(name)).add(1_000 * (number + 1))
    assert "savings: 3,000 tokens" in here.copy("sqlite", first)
    assert read_savings(here.config(first), Path("any.json")) == 3_000
    here.copy(first, second)
    TotalFile.of(there.config().state_folder, Path("one.json")).add(7)
    there.copy(second, "sqlite", "--force")
    assert read_savings(there.config(), Path("first.json")) == 3_000
    with closing(open_store(there.config(), space=SPACE)) as store:
        assert store.list() == ()
    there.copy("sqlite", first, "--force")
    assert read_savings(there.config(first), Path("any.json")) == 3_000


def test_logins_are_copied_encrypted_to_a_database_and_back(
    machines: tuple[Machine, Machine],
    databases: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
):
    here, there = machines
    monkeypatch.setenv("TOOLSCOUT_KEY", "k" * 32)
    grant = Grant(url="https://x.example", token_endpoint="t", client_id="c", access_token="s3cret")
    plain = grant.model_copy(update={"principal": "ann"})
    with closing(OAuthTokenStore.of(here.config())) as grants:
        grants.save(grant)
        with closing(open_grant_texts(here.config())) as texts:
            before = set(texts.names())
        grants.save(plain)
        # As version 0.1 wrote it.
        with closing(open_grant_texts(here.config())) as texts:
            (name,) = set(texts.names()) - before
            texts.write(name, plain.model_dump_json().encode())
    assert "logins: 2" in here.copy("sqlite", databases[0])
    with closing(open_grant_texts(here.config(databases[0]))) as texts:
        assert all(b"s3cret" not in (texts.read(name) or b"") for name in texts.names())
    here.copy(*databases)
    there.copy(databases[1], "sqlite", "--force")
    for config in (here.config(databases[0]), here.config(databases[1]), there.config()):
        with closing(OAuthTokenStore.of(config)) as grants:
            assert grants.load("https://x.example") == grant
            assert grants.load("https://x.example", "ann") == plain
    with closing(open_store(there.config(), space="oauth_logins")) as store:
        assert store.list() == ()
