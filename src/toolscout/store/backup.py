"""Write the state of an installation into one archive, also while a gateway runs."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ..config import Config
from ..errors import StoreError
from .sqlite import translate_errors
from .state_files import (
    KEY_ENTRY,
    LOGINS_PREFIX,
    SCHEMAS,
    is_database,
    list_state_files,
    list_user_files,
    read_schema,
)
from .state_key import StateKeys

# 2 has the user's configuration as well.
FORMAT = 2
MANIFEST_NAME = "manifest.json"
_CHUNK_BYTES = 1 << 20

FileProgress = Callable[[int, int], None]
"""Gets the number of files that are done, and of all files."""


class ArchivedFile(BaseModel):
    """One file of an archive, with its size and checksum."""

    model_config = ConfigDict(frozen=True)

    name: str
    bytes: int
    sha256: str


class Manifest(BaseModel):
    """What an archive holds and which version wrote it."""

    model_config = ConfigDict(frozen=True)

    format: int
    toolscout: str
    created: str
    schemas: dict[str, int]
    files: tuple[ArchivedFile, ...]

    @property
    def total_bytes(self) -> int:
        """The size of all files."""
        return sum(file.bytes for file in self.files)

    @property
    def has_key(self) -> bool:
        """Whether it holds the key that its login tokens are encrypted with."""
        return any(file.name == KEY_ENTRY for file in self.files)

    @property
    def has_logins(self) -> bool:
        """Whether it holds login tokens."""
        return any(file.name.startswith(LOGINS_PREFIX) for file in self.files)


def back_up(
    config: Config,
    file: Path,
    *,
    user_folder: Path | None = None,
    is_forced: bool = False,
    includes_key: bool = False,
    progress: FileProgress | None = None,
) -> Manifest:
    """Write the state into an archive that only its owner can read.

    `user_folder` is the user's folder for configuration; its files are written too. With
    `includes_key` the archive alone is enough to decrypt the login tokens in it.
    """
    _check_target(config, file, is_forced=is_forced)
    files = [*list_state_files(config), *list_user_files(user_folder)]
    if includes_key:
        files.append((KEY_ENTRY, _find_key_file(config)))
    if not files:
        raise StoreError(
            f"There is no state in {config.state_folder}.",
            hint="Nothing was written. If a configuration sets home, name it with --config FILE.",
        )
    try:
        # In the same folder, so that the archive appears whole or not at all; mkstemp sets 0600.
        descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                manifest = _write_archive(
                    zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED), files, progress
                )
            temporary.replace(file)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(
            f"The backup {file} cannot be written: {error.strerror or error}.",
            hint="Choose a folder that exists and has space. The state was not changed.",
        ) from error
    return manifest


def _find_key_file(config: Config) -> Path:
    keys = StateKeys.of(config)
    if not keys.uses_file or not keys.file.is_file():
        raise StoreError(
            f"There is no key file to back up: the key is in {keys.place}."
            if not keys.uses_file
            else "There is no key yet, because nothing is encrypted.",
            hint="Write the backup without --with-key.",
        )
    return keys.file


def _check_target(config: Config, file: Path, *, is_forced: bool) -> None:
    if file.resolve().is_relative_to(config.state_folder.resolve()):
        raise StoreError(
            f"{file} is inside the state folder.", hint="Choose a file in another folder."
        )
    if file.exists() and not is_forced:
        raise StoreError(
            f"{file} already exists.", hint="Choose another name, or replace it with --force."
        )


def _write_archive(
    archive: zipfile.ZipFile, files: list[tuple[str, Path]], progress: FileProgress | None
) -> Manifest:
    written: list[ArchivedFile] = []
    schemas: dict[str, int] = {}
    with archive, tempfile.TemporaryDirectory(prefix="toolscout-backup-") as folder:
        for done, (name, path) in enumerate(files):
            if progress is not None:
                progress(done, len(files))
            try:
                source = _snapshot(path, Path(folder)) if is_database(path) else path
                written.append(_add_file(archive, name, source))
            except FileNotFoundError:
                continue  # a running gateway deleted it since the files were listed
            if name in SCHEMAS:
                schemas[name] = read_schema(source)[1]
        manifest = Manifest(
            format=FORMAT,
            toolscout=metadata.version("toolscout"),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            schemas=schemas,
            files=tuple(written),
        )
        archive.writestr(MANIFEST_NAME, manifest.model_dump_json(indent=2))
    if progress is not None:
        progress(len(files), len(files))
    return manifest


def _snapshot(path: Path, folder: Path) -> Path:
    """A consistent copy of a database, by SQLite's own backup: writers may continue meanwhile."""
    copy = Path(tempfile.mkdtemp(dir=folder)) / "snapshot.db"
    with (
        translate_errors(path),
        closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)
    return copy


def _add_file(archive: zipfile.ZipFile, name: str, path: Path) -> ArchivedFile:
    digest, size = hashlib.sha256(), 0
    # One open file for checksum and copy: a log may grow between two readings.
    with path.open("rb") as source, archive.open(name, "w", force_zip64=True) as target:
        while chunk := source.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
            target.write(chunk)
    return ArchivedFile(name=name, bytes=size, sha256=digest.hexdigest())
