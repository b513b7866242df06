"""Restore the state of an archive, after everything in it was verified."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import stat
import tempfile
import time
import zipfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pydantic import ValidationError

from ..config import Config
from ..errors import StoreError
from ..program import command_line
from .backup import FORMAT, MANIFEST_NAME, FileProgress, Manifest
from .state_files import (
    KEY_ENTRY,
    SCHEMAS,
    STATE_PREFIX,
    USER_FILES,
    USER_PREFIX,
    database_paths,
    describe_users,
    list_state_files,
    read_schema,
)
from .state_key import StateKeys

_CHUNK_BYTES = 1 << 20
_MAX_MANIFEST_BYTES = 1 << 26
_UNCHANGED = "The state was not changed."


@dataclass(frozen=True, slots=True)
class RestoredState:
    """What was restored, and where the previous state is now."""

    manifest: Manifest
    folder: Path
    kept: tuple[Path, ...]
    lacks_key: bool = False
    """Whether the key of its login tokens is missing, so that they cannot be read."""


def restore(
    config: Config,
    file: Path,
    *,
    user_folder: Path | None = None,
    is_forced: bool = False,
    progress: FileProgress | None = None,
) -> RestoredState:
    """Verify an archive and restore its state; the old state is renamed and kept.

    `user_folder` is the user's folder for configuration; without one, its files are left out.
    """
    _check_unused(config)
    parent = config.state_folder.parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        # Beside its destination, so that the last step is a rename.
        with tempfile.TemporaryDirectory(prefix=".toolscout-restore-", dir=parent) as name:
            staging = Path(name)
            manifest = _unpack(file, staging, progress)
            # After the archive was verified: nobody should force a damaged one.
            _check_target(config, is_forced=is_forced)
            users = _files_to_replace(staging, user_folder, is_forced=is_forced)
            _keep_key(config, staging)
            kept = _replace_state(config, staging, users)
    except OSError as error:
        raise StoreError(
            f"The state cannot be restored: {error.strerror or error}.",
            hint=f"Check {file} and {parent}. {_UNCHANGED}",
        ) from error
    keys = StateKeys.of(config)
    lacks_key = manifest.has_logins and keys.uses_file and not keys.file.is_file()
    return RestoredState(manifest, config.state_folder, kept, lacks_key)


def _keep_key(config: Config, staging: Path) -> None:
    """Keep the present key if the archive has none: it most likely decrypts its logins."""
    present, new = StateKeys.of(config).file, staging.joinpath(*PurePosixPath(KEY_ENTRY).parts)
    if present.is_file() and not new.exists():
        new.parent.mkdir(exist_ok=True, mode=0o700)
        shutil.copy2(present, new)


def _check_unused(config: Config) -> None:
    if users := describe_users(config):
        raise StoreError(
            f"The state in {config.state_folder} is used by {users}.",
            hint=f"Stop it, then restore again. {_UNCHANGED}",
        )


def _check_target(config: Config, *, is_forced: bool) -> None:
    if not is_forced and any(list_state_files(config)):
        raise StoreError(
            f"There is state in {config.state_folder} already.",
            hint="Restore with --force to replace it; the old state is renamed and kept.",
        )


def _files_to_replace(
    staging: Path, user_folder: Path | None, *, is_forced: bool
) -> list[tuple[Path, Path]]:
    """The user's files that the archive has and that differ here, each with its destination."""
    if user_folder is None:
        return []
    pairs = [(staging / USER_PREFIX / name, user_folder / name) for name in USER_FILES]
    pairs = [(new, old) for new, old in pairs if new.is_file() and not _is_same(new, old)]
    present = ", ".join(str(old) for _, old in pairs if old.exists())
    if present and not is_forced:
        raise StoreError(
            f"The backup has another version of {present}.",
            hint="Restore with --force to replace it; the old file is renamed and kept."
            f" {_UNCHANGED}",
        )
    return pairs


def _is_same(one: Path, other: Path) -> bool:
    return other.is_file() and one.read_bytes() == other.read_bytes()


def _unpack(file: Path, staging: Path, progress: FileProgress | None) -> Manifest:
    """Verify every file on its way into the staging folder."""
    try:
        with zipfile.ZipFile(file) as archive:
            manifest = _read_manifest(file, archive)
            _check_names(file, archive, manifest)
            for done, entry in enumerate(manifest.files):
                if progress is not None:
                    progress(done, len(manifest.files))
                _extract(archive, entry.name, staging, size=entry.bytes, sha256=entry.sha256)
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise _refusal(file, f"is damaged or not a backup ({error})") from error
    for name in SCHEMAS:
        if (staging / name).is_file():
            _check_database(staging / name, name)
    return manifest


def _refusal(file: Path, problem: str) -> StoreError:
    return StoreError(
        f"{file} {problem}.",
        hint=f"Use a file that `{command_line('state', 'backup')}` wrote. {_UNCHANGED}",
    )


def _read_manifest(file: Path, archive: zipfile.ZipFile) -> Manifest:
    try:
        info = archive.getinfo(MANIFEST_NAME)
        if info.file_size > _MAX_MANIFEST_BYTES:
            raise _refusal(file, "has a manifest that is too large")
        manifest = Manifest.model_validate_json(archive.read(info))
    except (KeyError, ValidationError) as error:
        raise _refusal(file, "has no manifest of a backup") from error
    newer = [name for name, version in manifest.schemas.items() if _is_newer(name, version)]
    if manifest.format > FORMAT or newer:
        raise _newer(f"{file} was written by toolscout {manifest.toolscout}, which is newer")
    return manifest


def _is_newer(name: str, version: int) -> bool:
    return name in SCHEMAS and version > SCHEMAS[name].newest


def _newer(message: str) -> StoreError:
    return StoreError(
        f"{message} than this version.", hint=f"Upgrade toolscout, then restore. {_UNCHANGED}"
    )


def _check_names(file: Path, archive: zipfile.ZipFile, manifest: Manifest) -> None:
    entries = {info.filename: info for info in archive.infolist()}
    names = [entry.name for entry in manifest.files]
    if sorted([*names, MANIFEST_NAME]) != sorted(info.filename for info in archive.infolist()):
        raise _refusal(file, "contains other files than its manifest lists")
    for name in names:
        if not _is_safe(name):
            raise _refusal(file, f"contains {name!r}, which is outside the state folder")
        if stat.S_ISLNK(entries[name].external_attr >> 16):
            raise _refusal(file, f"contains {name!r}, which is a link")


def _is_safe(name: str) -> bool:
    if name in SCHEMAS:
        return True
    parts = name.split("/")
    # A backslash or a colon would be a folder or a drive on Windows.
    is_plain = not any(part in ("", ".", "..") or set(part) & set("\\:\0") for part in parts)
    is_user_file = parts[0] == USER_PREFIX and "/".join(parts[1:]) in USER_FILES
    return is_plain and len(parts) > 1 and (parts[0] == STATE_PREFIX or is_user_file)


def _extract(archive: zipfile.ZipFile, name: str, staging: Path, *, size: int, sha256: str) -> None:
    target = staging.joinpath(*PurePosixPath(name).parts)
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    target.touch(mode=0o600)
    digest, written = hashlib.sha256(), 0
    with archive.open(name) as source, target.open("wb") as stream:
        # Never more than the manifest says, even if the archive unpacks to more.
        while written <= size and (chunk := source.read(min(_CHUNK_BYTES, size + 1 - written))):
            digest.update(chunk)
            written += len(chunk)
            stream.write(chunk)
    if written != size or digest.hexdigest() != sha256:
        raise StoreError(
            f"{name} in the backup differs from its checksum.",
            hint=f"Use another backup: this one is damaged. {_UNCHANGED}",
        )


def _check_database(path: Path, name: str) -> None:
    try:
        application_id, version = read_schema(path)
        with closing(sqlite3.connect(path)) as sql:
            (verdict,) = sql.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        verdict, application_id, version = str(error), 0, 0
    if verdict != "ok" or application_id != SCHEMAS[name].application_id:
        raise StoreError(
            f"{name} in the backup is not a database of Toolscout, or damaged: {verdict}.",
            hint=f"Use another backup. {_UNCHANGED}",
        )
    if _is_newer(name, version):
        raise _newer(f"{name} in the backup has schema {version}, which is newer")


def _replace_state(
    config: Config, staging: Path, users: list[tuple[Path, Path]]
) -> tuple[Path, ...]:
    """Rename the old state and move the new one in; if that fails, the old one is put back."""
    state = staging / STATE_PREFIX
    state.mkdir(exist_ok=True, mode=0o700)
    moves: list[tuple[Path, Path]] = []
    for name, path in database_paths(config).items():
        if (staging / name).is_file():
            is_inside = path.parent == config.state_folder
            moves.append((staging / name, state / path.name if is_inside else path))
    # First those into the staged folder, then the folder as a whole.
    moves.sort(key=lambda move: move[1].parent != state)
    moves.append((state, config.state_folder))
    moves += users
    aside = _move_aside(config, [target for _, target in users])
    try:
        for source, target in moves:
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            shutil.move(source, target)
    except OSError:
        _move_back(aside)
        raise
    return tuple(kept for _, kept in aside)


def _move_aside(config: Config, users: list[Path]) -> list[tuple[Path, Path]]:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    paths = [config.state_folder, *users]
    for path in database_paths(config).values():
        if not path.is_relative_to(config.state_folder):
            paths += [path.with_name(f"{path.name}{end}") for end in ("", "-wal", "-shm")]
    moved: list[tuple[Path, Path]] = []
    for path in paths:
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
        elif path.exists():
            kept = path.with_name(f"{path.name}.before-restore-{stamp}")
            path.rename(kept)
            moved.append((path, kept))
    return moved


def _move_back(aside: list[tuple[Path, Path]]) -> None:
    for path, kept in reversed(aside):
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        kept.rename(path)
