"""`toolscout state`: back up, restore and look at the state, by command."""

import hashlib
import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from toolscout.config import Config
from toolscout.store.processes import current_process
from toolscout.store.sqlite import SqliteStore

OLD = Path(__file__).parent / "v0_1"
TOOLSCOUT = str(Path(sys.executable).with_name("toolscout"))


def command(*arguments: str | Path, home: Path, **more: str) -> tuple[int, dict[str, Any]]:
    """The exit code of a command and its JSON, or that of its error."""
    done = subprocess.run(
        [TOOLSCOUT, *map(str, arguments), "--json"],
        capture_output=True, text=True, check=False,
        env={**os.environ, "TOOLSCOUT_HOME": str(home), "XDG_CONFIG_HOME": str(home), **more},
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout or done.stderr)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """State as version 0.1 left it."""
    folder = tmp_path / "home"
    shutil.copytree(OLD / "state", folder / "state")
    return folder


@pytest.fixture
def backup(home: Path, tmp_path: Path) -> Path:
    file = tmp_path / "backup.zip"
    code, said = command("state", "backup", file, home=home)
    assert (code, said["files"]) == (0, 7)
    return file


def content(home: Path) -> dict[str, str]:
    """Every file of the state but the databases, with its checksum."""
    folder = home / "state"
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and ".db" not in path.name
    }


def sessions(home: Path) -> list[tuple[str, str]]:
    store = SqliteStore(Config.read(home=str(home)).state_folder / "toolscout.db")
    rows = [(record.key, record.text) for record in store.list()]
    store.close()
    return rows


def rewrite(backup: Path, change: Callable[[dict[str, Any], dict[str, bytes]], None]) -> None:
    """Change an archive; the checksums of the manifest follow, as an attacker would have them."""
    with zipfile.ZipFile(backup) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(files.pop("manifest.json"))
    change(manifest, files)
    with zipfile.ZipFile(backup, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        archive.writestr("manifest.json", json.dumps(manifest))


def entry(name: str, data: bytes) -> dict[str, Any]:
    return {"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def test_a_state_of_0_1_moves_to_another_home_whole(home: Path, backup: Path, tmp_path: Path):
    new = tmp_path / "new"
    code, said = command("state", "restore", backup, home=new)
    assert (code, said["kept"]) == (0, [])
    assert content(new) == content(OLD)
    assert sessions(new) == sessions(home) != []
    code, pins = command("pins", "list", home=new)
    assert code == 0
    assert pins == json.loads((OLD / "expected.json").read_text(encoding="utf-8"))["pins"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_only_the_owner_can_read_a_backup_and_what_it_restores(backup: Path, tmp_path: Path):
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    new = tmp_path / "new"
    command("state", "restore", backup, home=new)
    assert stat.S_IMODE((new / "state").stat().st_mode) == 0o700
    files = [path for path in (new / "state").rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_a_backup_holds_what_a_running_process_wrote_last(home: Path, tmp_path: Path):
    """What was committed is still in the write-ahead log of the open database."""
    store = SqliteStore(home / "state" / "toolscout.db")
    store.put("late", "written while open", expected=0)
    file = tmp_path / "backup.zip"
    assert command("state", "backup", file, home=home)[0] == 0
    store.close()
    new = tmp_path / "new"
    assert command("state", "restore", file, home=new)[0] == 0
    assert ("late", "written while open") in sessions(new)


def test_a_backup_is_replaced_only_by_force_and_never_lies_in_the_state(home: Path, backup: Path):
    code, said = command("state", "backup", backup, home=home)
    assert (code, "--force" in said["error"]["hint"]) == (2, True)
    assert command("state", "backup", backup, "--force", home=home)[0] == 0
    code, said = command("state", "backup", home / "state" / "b.zip", home=home)
    assert code == 2
    assert "inside the state folder" in said["error"]["message"]


def test_without_state_there_is_nothing_to_back_up(tmp_path: Path):
    code, said = command("state", "backup", tmp_path / "b.zip", home=tmp_path / "none")
    assert (code, said["error"]["code"]) == (2, "store")
    assert [*tmp_path.iterdir()] == []


def test_an_existing_state_is_replaced_only_by_force_and_kept_as_a_copy(home: Path, backup: Path):
    (home / "state" / "audit.jsonl").write_text("newer\n", encoding="utf-8")
    code, said = command("state", "restore", backup, home=home)
    assert code == 2
    assert "--force" in said["error"]["hint"]
    assert (home / "state" / "audit.jsonl").read_text(encoding="utf-8") == "newer\n"
    code, said = command("state", "restore", backup, "--force", home=home)
    assert code == 0
    assert content(home) == content(OLD)
    (kept,) = map(Path, said["kept"])
    assert (kept / "audit.jsonl").read_text(encoding="utf-8") == "newer\n"
    assert (kept / "toolscout.db").is_file()


def test_a_state_in_use_is_not_replaced(home: Path, backup: Path):
    store = SqliteStore(home / "state" / "toolscout.db")
    code, said = command("state", "restore", backup, "--force", home=home)
    store.close()
    assert code == 2
    assert "used by another process" in said["error"]["message"]
    assert command("state", "restore", backup, "--force", home=home)[0] == 0


def test_a_running_gateway_is_named_and_a_killed_one_does_not_count(home: Path, backup: Path):
    folder = home / "state" / "running"
    folder.mkdir()
    record = folder / f"{os.getpid()}.json"
    record.write_text(json.dumps({"process": current_process()}), encoding="utf-8")
    assert command("state", "info", home=home)[1]["gateways"] == [os.getpid()]
    code, said = command("state", "restore", backup, "--force", home=home)
    assert code == 2
    assert f"process {os.getpid()}" in said["error"]["message"]
    # The same process id, used again by something that started at another time.
    record.write_text(json.dumps({"process": current_process() + "0"}), encoding="utf-8")
    assert command("state", "info", home=home)[1]["gateways"] == []
    assert command("state", "restore", backup, "--force", home=home)[0] == 0


def add_outside(manifest: dict[str, Any], files: dict[str, bytes]) -> None:
    files["state/../../outside.txt"] = b"x"
    manifest["files"].append(entry("state/../../outside.txt", b"x"))


def add_absolute(manifest: dict[str, Any], files: dict[str, bytes]) -> None:
    files["/etc/outside.txt"] = b"x"
    manifest["files"].append(entry("/etc/outside.txt", b"x"))


def add_drive(manifest: dict[str, Any], files: dict[str, bytes]) -> None:
    files["state/..\\outside.txt"] = b"x"
    manifest["files"].append(entry("state/..\\outside.txt", b"x"))


def add_unlisted(manifest: dict[str, Any], files: dict[str, bytes]) -> None:
    files["state/more.txt"] = b"x"


def change_byte(manifest: dict[str, Any], files: dict[str, bytes]) -> None:
    files["state/savings.json"] = files["state/savings.json"][:-1] + b" "


def claim_less(manifest: dict[str, Any], files: dict[str, bytes]) -> None:
    files["state/savings.json"] += b"0" * 1_000_000


def break_database(manifest: dict[str, Any], files: dict[str, bytes]) -> None:
    data = files["store.db"][:100] + b"\0" * 40_000
    files["store.db"] = data
    manifest["files"] = [f for f in manifest["files"] if f["name"] != "store.db"]
    manifest["files"].append(entry("store.db", data))


def newer_format(manifest: dict[str, Any], files: dict[str, bytes]) -> None:
    manifest |= {"format": 3, "toolscout": "9.0.0"}


def newer_schema(manifest: dict[str, Any], files: dict[str, bytes]) -> None:
    manifest["schemas"]["store.db"] = 99


def no_manifest(manifest: dict[str, Any], files: dict[str, bytes]) -> None:
    manifest.clear()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (add_outside, "outside the state folder"),
        (add_absolute, "outside the state folder"),
        (add_drive, "outside the state folder"),
        (add_unlisted, "other files than its manifest lists"),
        (change_byte, "differs from its checksum"),
        (claim_less, "differs from its checksum"),
        (break_database, "damaged"),
        (newer_format, "toolscout 9.0.0, which is newer"),
        (newer_schema, "which is newer"),
        (no_manifest, "no manifest"),
    ],
)
def test_an_archive_that_is_unsafe_damaged_or_newer_changes_nothing(
    home: Path, backup: Path, tmp_path: Path, change: Any, words: str
):
    rewrite(backup, change)
    before = content(home)
    code, said = command("state", "restore", backup, home=home)
    assert words in said["error"]["message"]  # and not that there is state already
    code, said = command("state", "restore", backup, "--force", home=home)
    assert code == 2
    assert words in said["error"]["message"]
    assert "The state was not changed." in said["error"]["hint"]
    assert content(home) == before
    assert {path.name for path in tmp_path.iterdir()} == {"home", "backup.zip"}
    assert [path.name for path in home.iterdir()] == ["state"]


def test_a_newer_database_is_refused_whatever_the_manifest_says(
    home: Path, backup: Path, tmp_path: Path
):
    database = tmp_path / "newer.db"
    shutil.copy(home / "state" / "toolscout.db", database)
    with closing(sqlite3.connect(database)) as sql:
        sql.execute("PRAGMA user_version = 99")
    data = database.read_bytes()

    def change(manifest: dict[str, Any], files: dict[str, bytes]) -> None:
        files["store.db"] = data
        manifest["files"] = [f for f in manifest["files"] if f["name"] != "store.db"]
        manifest["files"].append(entry("store.db", data))

    rewrite(backup, change)
    code, said = command("state", "restore", backup, home=tmp_path / "new")
    assert code == 2
    assert "schema 99, which is newer" in said["error"]["message"]


def test_a_link_in_an_archive_is_refused(backup: Path, tmp_path: Path):
    link = zipfile.ZipInfo("state/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(backup) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(files.pop("manifest.json"))
    manifest["files"].append(entry("state/link", b"/etc/passwd"))
    with zipfile.ZipFile(backup, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        archive.writestr(link, b"/etc/passwd")
        archive.writestr("manifest.json", json.dumps(manifest))
    code, said = command("state", "restore", backup, home=tmp_path / "new")
    assert code == 2
    assert "is a link" in said["error"]["message"]


@pytest.mark.parametrize("data", [b"", b"not an archive", b"PK\x03\x04 cut off"])
def test_another_file_is_not_taken_for_a_backup(data: bytes, tmp_path: Path):
    file = tmp_path / "b.zip"
    file.write_bytes(data)
    code, said = command("state", "restore", file, home=tmp_path / "new")
    assert code == 2
    assert "not a backup" in said["error"]["message"]


def test_a_store_elsewhere_is_backed_up_and_restored_to_where_it_is_configured(
    home: Path, backup: Path, tmp_path: Path
):
    elsewhere = tmp_path / "elsewhere" / "conversations.db"
    new = tmp_path / "new"
    store = {"TOOLSCOUT_STORE": str(elsewhere)}
    assert command("state", "restore", backup, home=new, **store)[0] == 0
    assert elsewhere.is_file()
    assert not (new / "state" / "toolscout.db").exists()
    again = tmp_path / "again.zip"
    assert command("state", "backup", again, home=new, **store)[1]["files"] == 7
    code, said = command("state", "restore", again, "--force", home=new, **store)
    assert code == 0
    assert len(said["kept"]) >= 2
    assert elsewhere.is_file()


def test_info_says_where_the_state_is_and_what_it_holds_and_makes_nothing(
    home: Path, tmp_path: Path
):
    _, said = command("state", "info", home=home)
    assert said["folder"] == str(home / "state")
    assert said["databases"]["store.db"]["rows"] == {"sessions": 6}
    assert said["databases"]["store.db"]["schema"] == 1
    assert said["parts"]["logins"]["files"] == 2
    assert said["bytes"] > 80_000
    none = tmp_path / "none"
    assert command("state", "info", home=none)[1]["bytes"] == 0
    assert not none.exists()


# The user's own files


@pytest.fixture
def servers(home: Path) -> Path:
    """The user's own list of servers, with a secret."""
    file = home / "toolscout" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{"mcpServers": {"a": {"command": "x", "env": {"KEY": "hush"}}}}')
    file.with_name("config.toml").write_text('embedder = "none"\n')
    return file


def test_a_backup_has_the_list_of_servers_and_the_settings(
    home: Path, servers: Path, tmp_path: Path
) -> None:
    file, other = tmp_path / "b.zip", tmp_path / "other"
    assert command("state", "backup", file, home=home)[0] == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert command("state", "restore", file, home=other)[0] == 0
    for name in ("mcp.json", "config.toml"):
        restored = other / "toolscout" / name
        assert restored.read_text() == servers.with_name(name).read_text()
        assert stat.S_IMODE(restored.stat().st_mode) == 0o600


def test_a_list_of_servers_that_differs_is_not_replaced_silently(
    home: Path, servers: Path, tmp_path: Path
) -> None:
    file, other = tmp_path / "b.zip", tmp_path / "other"
    command("state", "backup", file, home=home)
    mine = other / "toolscout" / "mcp.json"
    mine.parent.mkdir(parents=True)
    mine.write_text('{"mcpServers": {}}')
    code, said = command("state", "restore", file, home=other)
    assert code == 2
    assert str(mine) in said["error"]["message"]
    assert "--force" in said["error"]["hint"]
    assert mine.read_text() == '{"mcpServers": {}}'
    assert not (other / "state").exists()
    code, said = command("state", "restore", file, "--force", home=other)
    assert code == 0
    (kept,) = map(Path, said["kept"])
    assert kept.read_text() == '{"mcpServers": {}}'
    assert mine.read_text() == servers.read_text()


def test_the_same_list_of_servers_is_left_alone(home: Path, servers: Path, tmp_path: Path) -> None:
    file = tmp_path / "b.zip"
    command("state", "backup", file, home=home)
    shutil.rmtree(home / "state")
    code, said = command("state", "restore", file, home=home)
    assert (code, said["kept"]) == (0, [])
    assert servers.is_file()


def test_a_named_configuration_leaves_out_the_users_own_files(
    home: Path, servers: Path, tmp_path: Path
) -> None:
    assert servers.is_file()
    config = tmp_path / "gateway.toml"
    config.write_text(f'[settings]\nhome = "{home}"\n')
    assert command("state", "backup", tmp_path / "b.zip", "--config", config, home=home)[0] == 0
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        assert not [name for name in archive.namelist() if name.startswith("config/")]
