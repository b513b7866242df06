"""Login tokens are encrypted at rest; where the key is, and what happens without it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.upstreams.file_keyring import FileKeyring

from toolscout.errors import StoreError
from toolscout.sources.mcp.oauth_tokens import Grant, OAuthTokenStore
from toolscout.store.state_key import StateKeys

URL = "https://x.example/mcp"
TOKEN = "access-token-of-ann"
KEYS = ("k" * 32, "n" * 32)


def grant(principal: str = "ann", **changes: Any) -> Grant:
    facts = {"token_endpoint": f"{URL}/token", "client_id": "c", "refresh_token": "r3fresh-token"}
    return Grant(url=URL, principal=principal, **{"access_token": TOKEN, **facts, **changes})


def store(home: Path, **environment: str) -> OAuthTokenStore:
    folder = home / "state"
    return OAuthTokenStore(folder / "logins", keys=StateKeys(folder, environment=environment))


def content(home: Path) -> bytes:
    return b"".join(p.read_bytes() for p in (home / "state").rglob("*") if p.is_file())


def command(home: Path, *arguments: object, **environment: str) -> tuple[int, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "toolscout.cli", *map(str, arguments), "--json"],
        env={**os.environ, "TOOLSCOUT_HOME": str(home), **environment},
        cwd=home.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout) if done.returncode == 0 else done.stderr


def test_no_token_is_on_disk_in_clear_and_the_key_is_the_owners_alone(tmp_path: Path) -> None:
    store(tmp_path).save(grant())
    assert store(tmp_path).load(URL, "ann") == grant()
    for secret in (b"access-token", b"r3fresh", b"ann", b"x.example"):
        assert secret not in content(tmp_path)
    key = tmp_path / "state" / "secrets.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_a_plain_file_of_an_older_version_is_encrypted_when_it_is_read(tmp_path: Path) -> None:
    logins = store(tmp_path)
    logins.save(grant(""))
    (file,) = (tmp_path / "state" / "logins").iterdir()
    file.write_text(grant("").model_dump_json(exclude={"principal"}))
    assert logins.load(URL) == grant("")
    assert TOKEN.encode() not in content(tmp_path)
    assert logins.load(URL) == grant("")


@pytest.mark.parametrize("place", ["variable", "file"])
def test_the_environment_gives_the_key(tmp_path: Path, place: str) -> None:
    (tmp_path / "key").write_text(f"{KEYS[0]}\n")
    given = {"TOOLSCOUT_KEY": KEYS[0]}
    if place == "file":
        given = {"TOOLSCOUT_KEY_FILE": str(tmp_path / "key")}
    store(tmp_path, **given).save(grant())
    assert not (tmp_path / "state" / "secrets.key").exists()
    assert store(tmp_path, **given).load(URL, "ann") == grant()
    assert store(tmp_path, TOOLSCOUT_KEY=KEYS[1]).load(URL, "ann") is None


def test_a_short_key_and_a_missing_key_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="fewer than 32 characters"):
        store(tmp_path, TOOLSCOUT_KEY="secret").save(grant())
    with pytest.raises(StoreError, match="missing or empty"):
        store(tmp_path, TOOLSCOUT_KEY_FILE=str(tmp_path / "none")).save(grant())


def test_without_its_key_a_login_is_explained_and_kept(tmp_path: Path) -> None:
    store(tmp_path, TOOLSCOUT_KEY=KEYS[0]).save(grant())
    (file,) = (tmp_path / "state" / "logins").iterdir()
    before = file.read_bytes()
    lost = store(tmp_path, TOOLSCOUT_KEY=KEYS[1])
    why = lost.explain_unreadable(URL, "ann")
    assert "which is not in the environment variable TOOLSCOUT_KEY" in why
    assert KEYS[1] not in why
    lost.save(grant(access_token="new"))
    assert file.with_suffix(".unreadable").read_bytes() == before
    loaded = lost.load(URL, "ann")
    assert loaded is not None
    assert loaded.access_token == "new"


def test_a_file_that_is_changed_or_takes_the_place_of_another_is_not_used(tmp_path: Path) -> None:
    logins = store(tmp_path)
    logins.save(grant("ann"))
    (anns,) = (tmp_path / "state" / "logins").iterdir()
    taken = anns.read_bytes()
    logins.save(grant("bob", access_token="of bob"))
    (bobs,) = set((tmp_path / "state" / "logins").iterdir()) - {anns}
    bobs.write_bytes(taken)
    assert logins.load(URL, "bob") is None
    assert "changed or moved" in logins.explain_unreadable(URL, "bob")
    envelope = json.loads(taken)
    data = envelope["data"]
    anns.write_text(json.dumps({**envelope, "data": f"{'B' if data[0] == 'A' else 'A'}{data[1:]}"}))
    assert logins.load(URL, "ann") is None
    anns.write_bytes(b"\x00")
    assert "damaged" in logins.explain_unreadable(URL, "ann")


def test_rekey_replaces_the_key_while_a_store_is_open(tmp_path: Path) -> None:
    home = tmp_path / "home"
    opened = store(home)
    opened.save(grant())
    old = (home / "state" / "secrets.key").read_text()
    code, said = command(home, "state", "rekey")
    assert (code, said["logins"], said["unreadable"]) == (0, 1, [])
    now = (home / "state" / "secrets.key").read_text()
    assert old.strip() not in now
    assert opened.load(URL, "ann") == grant()
    assert store(home, TOOLSCOUT_KEY=now).load(URL, "ann") == grant()


def test_rekey_with_keys_of_the_environment_uses_the_first_and_needs_the_second_once(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    store(home, TOOLSCOUT_KEY=KEYS[0]).save(grant())
    both = f"{KEYS[1]} {KEYS[0]}"
    assert command(home, "state", "rekey", TOOLSCOUT_KEY=both)[0] == 0
    assert store(home, TOOLSCOUT_KEY=KEYS[1]).load(URL, "ann") == grant()
    assert store(home, TOOLSCOUT_KEY=KEYS[0]).load(URL, "ann") is None


def test_rekey_leaves_what_no_key_decrypts_and_keeps_the_old_keys(tmp_path: Path) -> None:
    home = tmp_path / "home"
    store(home).save(grant("ann"))
    store(home, TOOLSCOUT_KEY=KEYS[0]).save(grant("bob"))
    code, said = command(home, "state", "rekey")
    assert (code, said["logins"], len(said["unreadable"])) == (0, 1, 1)
    assert len((home / "state" / "secrets.key").read_text().split()) == 2
    assert store(home).load(URL, "ann") == grant("ann")
    assert store(home, TOOLSCOUT_KEY=KEYS[0]).load(URL, "bob") == grant("bob")


def test_the_keyring_takes_over_from_the_key_file(tmp_path: Path) -> None:
    home = tmp_path / "home"
    store(home).save(grant())
    passwords = tmp_path / "keyring.json"
    passwords.write_text("{}")
    backend = f"{FileKeyring.__module__}.{FileKeyring.__name__}"
    environment = {
        "TOOLSCOUT_KEY_STORE": "keyring",
        "TEST_KEYRING": str(passwords),
        "PYTHON_KEYRING_BACKEND": backend,
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    code, said = command(home, "state", "rekey", **environment)
    assert (code, said["logins"], said["place"]) == (0, 1, "the keyring"), said
    assert not (home / "state" / "secrets.key").exists()
    (text,) = json.loads(passwords.read_text()).values()
    assert store(home, TOOLSCOUT_KEY=text).load(URL, "ann") == grant()
    passwords.unlink()
    code, said = command(home, "state", "rekey", **environment)
    assert code != 0
    assert "keyring of this system cannot be used" in said


def test_a_backup_leaves_the_key_out_unless_asked_and_a_restore_keeps_the_present_one(
    tmp_path: Path,
) -> None:
    home, new = tmp_path / "home", tmp_path / "new"
    store(home).save(grant())
    plain, whole = tmp_path / "plain.zip", tmp_path / "whole.zip"
    assert command(home, "state", "backup", plain)[1]["has_key"] is False
    assert command(home, "state", "backup", whole, "--with-key")[1]["has_key"] is True
    assert command(home, "state", "restore", plain, "--force")[1]["lacks_key"] is False
    assert store(home).load(URL, "ann") == grant()
    assert command(new, "state", "restore", plain)[1]["lacks_key"] is True
    assert store(new).load(URL, "ann") is None
    assert command(new, "state", "restore", whole, "--force")[1]["lacks_key"] is False
    assert store(new).load(URL, "ann") == grant()
    code, said = command(
        home, "state", "backup", tmp_path / "x.zip", "--with-key", TOOLSCOUT_KEY=KEYS[0]
    )
    assert code != 0
    assert "There is no key file to back up" in said
