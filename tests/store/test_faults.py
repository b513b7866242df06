"""Files that fail, processes that die and writers that meet: nothing is lost or half written."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolscout.errors import StoreError
from toolscout.store.contract import StoreLimits
from toolscout.store.sqlite import SqliteOptions, SqliteStore

SRC = str(Path(__file__).parents[2] / "src")

WRITER = """
import json, sys
from toolscout.store.sqlite import SqliteStore

store = SqliteStore(sys.argv[1])
for number in range(1_000_000):
    old = store.get("s")
    names, version = (json.loads(old.text), old.version) if old else ([], 0)
    names = [*names, f"tool-{number}" * 50][-400:]
    if store.put("s", json.dumps(names), expected=version):
        print(version + 1, flush=True)
"""

ADDER = """
import json, sys
from toolscout.store.sqlite import SqliteStore

path, who, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = SqliteStore(path)
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    while True:
        old = store.get("s")
        names, version = (json.loads(old.text), old.version) if old else ([], 0)
        if store.put("s", json.dumps([*names, f"{who}-{number}"]), expected=version):
            break
"""

OPENER = """
from toolscout.store.sqlite import SqliteStore

SqliteStore(sys.argv[1]).close()
print("open")
"""


def python(script: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": SRC},
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.mark.parametrize("acknowledged", [1, 7, 60])
def test_a_writer_killed_in_the_middle_loses_nothing_that_was_confirmed(
    path: Path, acknowledged: int
):
    child = python(WRITER, path)
    assert child.stdout is not None
    for _ in range(acknowledged):
        last = int(child.stdout.readline())
    child.send_signal(signal.SIGKILL)
    rest = child.communicate()[0].splitlines()
    last = int(rest[-1]) if rest else last

    store = SqliteStore(path)
    kept = store.get("s")
    assert kept is not None
    assert kept.version >= last
    assert len(json.loads(kept.text)) == min(kept.version, 400)
    assert store.put("s", "[]", expected=kept.version) is not None
    store.close()
    with sqlite3.connect(path) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    raw.close()


def test_two_processes_writing_the_same_session_lose_nothing(path: Path):
    children = [python(ADDER, path, who, 60) for who in ("left", "right")]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        child.communicate()
        assert child.returncode == 0

    store = SqliteStore(path)
    kept = store.get("s")
    store.close()
    assert kept is not None
    assert kept.version == 120
    names = json.loads(kept.text)
    for who in ("left", "right"):
        assert [n for n in names if n.startswith(who)] == [f"{who}-{n}" for n in range(60)]


def test_processes_that_make_the_file_at_once_do_not_trip_over_each_other(path: Path):
    maker = f"import sys; print('up', flush=True); sys.stdin.readline()\n{OPENER}"
    children = [python(maker, path) for _ in range(6)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "up\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    assert [child.communicate()[0] for child in children] == ["open\n"] * 6


def test_a_file_locked_by_another_process_is_an_error_that_says_so(path: Path):
    store = SqliteStore(path, options=SqliteOptions(busy_timeout_seconds=0.01))
    store.put("s", "before", expected=0)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match=r"locked .* Try again"):
        store.put("s", "after", expected=1)
    kept = store.get("s")
    assert kept is not None
    assert kept.text == "before"
    other.execute("ROLLBACK")
    other.close()
    assert store.put("s", "after", expected=1) is not None
    store.close()


def test_a_full_file_is_an_error_and_keeps_what_it_had(path: Path):
    store = SqliteStore(path, options=SqliteOptions(max_bytes=64 * 1024))
    store.put("small", "x", expected=0)
    with pytest.raises(StoreError, match=r"full.* Free some space"):
        store.put("large", "x" * 200_000, expected=0)
    assert [r.key for r in store.list()] == ["small"]
    assert store.put("small", "y", expected=1) is not None
    store.close()


def test_a_disk_that_takes_no_more_is_an_error_and_keeps_what_it_had(path: Path):
    script = """
import resource, sys
from toolscout.errors import StoreError
from toolscout.store.sqlite import SqliteStore

store = SqliteStore(sys.argv[1])
store.put("small", "x", expected=0)
resource.setrlimit(resource.RLIMIT_FSIZE, (256 * 1024, 256 * 1024))
try:
    store.put("large", "x" * 5_000_000, expected=0)
except StoreError as error:
    print(error)
"""
    child = python(script, path)
    output = child.communicate()[0]
    assert child.returncode == 0
    assert str(path) in output
    assert "Check the disk" in output or "Free some space" in output
    store = SqliteStore(path)
    assert [(r.key, r.text) for r in store.list()] == [("small", "x")]
    store.close()


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that any user may enter, unlike the ones that belong to a test run."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_read_only_file_can_be_read_and_says_what_would_let_it_be_written(shared: Path):
    path = shared / "store.db"
    store = SqliteStore(path)
    store.put("s", "kept", expected=0)
    store.close()
    with sqlite3.connect(path) as raw:  # so that no side files are needed to read it
        raw.execute("PRAGMA journal_mode = DELETE")
    raw.close()
    path.chmod(0o444)
    # Root may write everywhere; the superuser's rights are given up where they are held.
    script = """
import os, sys
sys.path.insert(0, sys.argv[2])
from toolscout.errors import StoreError
from toolscout.store.sqlite import SqliteStore
if os.getuid() == 0:
    os.setuid(65534)
store = SqliteStore(sys.argv[1])
print(store.get("s").text)
try:
    store.put("s", "changed", expected=1)
except StoreError as error:
    print(error)
"""
    child = python(script, path, SRC)
    kept, output = child.communicate()[0].splitlines()
    assert kept == "kept"
    assert str(path) in output
    assert "is read-only. Allow writing" in output


def test_a_file_of_a_newer_version_is_left_alone(path: Path):
    SqliteStore(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute("PRAGMA user_version = 99")
    raw.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"newer version .*99.* Upgrade toolscout"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_database_of_something_else_is_left_alone(path: Path):
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE bookmarks (url TEXT)")
    raw.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"another program.* Name another file"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_file_that_is_not_a_database_is_left_alone(path: Path):
    path.write_bytes(b"not a database at all, but long enough to look like one " * 40)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"not a store.* Move it elsewhere"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_damaged_file_is_an_error_and_not_an_empty_store(path: Path):
    store = SqliteStore(path)
    for number in range(200):
        store.put(str(number), "x" * 1_000, expected=0)
    store.close()
    data = bytearray(path.read_bytes())
    data[4096 : len(data) // 2] = b"\xff" * (len(data) // 2 - 4096)
    path.write_bytes(data)
    damaged = SqliteStore(path)
    with pytest.raises(StoreError, match=r"damaged.* Move it elsewhere"):
        damaged.list(limit=1_000)
    damaged.close()


@pytest.mark.parametrize("place", ["folder", "file/inside"])
def test_a_place_that_cannot_hold_a_file_is_named(tmp_path: Path, place: str):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot be opened.* Check that its folder"):
        SqliteStore(tmp_path / place)


def test_only_its_owner_can_read_the_file(path: Path):
    store = SqliteStore(path)
    store.put("s", "private", expected=0)
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    store.close()


def test_spaces_in_one_file_do_not_see_each_other(path: Path):
    sessions = SqliteStore(path, limits=StoreLimits(cap=1))
    pins = SqliteStore(path, space="pins")
    pins.put("a", "pin", expected=0)
    sessions.put("a", "session", expected=0)
    sessions.put("b", "session", expected=0)
    assert [(r.key, r.text) for r in pins.list()] == [("a", "pin")]
    assert [(r.key, r.text) for r in sessions.list()] == [("b", "session")]
    pins.close()
    sessions.close()


def test_records_are_there_after_reopening(path: Path):
    store = SqliteStore(path)
    store.put("s", "x", expected=0)
    written = store.put("s", "y", expected=1)
    store.close()
    again = SqliteStore(path)
    assert again.get("s") == written
    again.close()


def test_many_processes_opening_a_new_file_at_once_all_get_a_store(path: Path):
    children = [python(ADDER, path, who, 3) for who in ("a", "b", "c", "d")]
    for child in children:
        child.communicate("go\n")
        assert child.returncode == 0
    store = SqliteStore(path)
    kept = store.get("s")
    store.close()
    assert kept is not None
    assert kept.version == 12
