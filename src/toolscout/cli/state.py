"""`toolscout state`: show, back up and restore what Toolscout stores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..config import Config
from ..folders import config_folder
from ..program import command_line
from .output import json_option, print_json, print_line, print_note, print_table
from .pins import config_option
from .progress import progress

if TYPE_CHECKING:
    from ..store.backup import Manifest
    from ..store.state_info import DatabaseInfo, StateInfo

_KILO = 1_000


@click.group(name="state")
def command() -> None:
    """Show, back up and restore your servers, sessions, pins, logins, results and the journal."""


def _read_config(path: Path | None) -> Config:
    # Only TOML has a [settings] table, and so a `home`.
    return Config.read(path if path is not None and path.suffix == ".toml" else None)


def _user_folder(path: Path | None) -> Path | None:
    """The folder of your own configuration; none for a gateway with a configuration of its own."""
    return config_folder() if path is None else None


def _format_size(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < _KILO:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= _KILO
    return f"{size:.1f} GB"


@command.command(name="info")
@config_option
@json_option
def show_info(*, path: Path | None, is_json: bool) -> None:
    """Show where the state is, its size, its schema versions, and what it holds."""
    from ..store.state_info import read_state_info

    info = read_state_info(_read_config(path))
    if is_json:
        print_json(_info_as_json(info))
        return
    rows = [
        (name, _format_size(part.bytes), _describe_database(part))
        for name, part in info.databases.items()
    ]
    rows += [
        (name, _format_size(part.bytes), f"files: {part.files}")
        for name, part in info.parts.items()
    ]
    print_table(("part", "size", "holds"), rows)
    print_note(f"State: {info.folder} ({_format_size(info.bytes)})")
    print_note(
        f"Cache: {info.cache_folder} ({_format_size(info.cache_bytes)}; can be rebuilt,"
        " not in backups)"
    )
    if info.gateways:
        print_note(f"In use by a gateway: process {', '.join(map(str, info.gateways))}")


def _describe_database(part: DatabaseInfo) -> str:
    counts = ", ".join(f"{kind}: {count}" for kind, count in part.rows.items()) or "empty"
    return f"schema {part.schema} (this version: {part.newest_schema}), {counts}"


def _info_as_json(info: StateInfo) -> dict[str, object]:
    return {
        "folder": str(info.folder),
        "bytes": info.bytes,
        "cache": {"folder": str(info.cache_folder), "bytes": info.cache_bytes},
        "gateways": list(info.gateways),
        "databases": {
            name: {
                "path": str(part.path),
                "bytes": part.bytes,
                "schema": part.schema,
                "newest_schema": part.newest_schema,
                "rows": dict(part.rows),
            }
            for name, part in info.databases.items()
        },
        "parts": {
            name: {"files": part.files, "bytes": part.bytes} for name, part in info.parts.items()
        },
    }


@command.command(name="backup")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", "is_forced", is_flag=True, help="Replace FILE if it exists.")
@click.option("--with-key", is_flag=True, help="Include the key of the login tokens.")
@config_option
@json_option
def back_up_state(
    *, file: Path, is_forced: bool, with_key: bool, path: Path | None, is_json: bool
) -> None:
    """Write the whole state into one archive, also while a gateway runs.

    Your list of servers and your settings are included, unless you name a configuration. Only you
    can read the file. It holds conversations and secrets of servers, so keep it private. Tokens of
    logins in it are encrypted; their key is included only with --with-key. Caches are left out:
    they are rebuilt.
    """
    from ..store.backup import back_up

    with progress("Writing the backup") as step:
        manifest = back_up(
            _read_config(path),
            file,
            user_folder=_user_folder(path),
            is_forced=is_forced,
            includes_key=with_key,
            progress=lambda done, total: step("files", done, total),
        )
    size = file.stat().st_size
    if is_json:
        content = {"files": len(manifest.files), "bytes": size, "schemas": manifest.schemas}
        print_json({"file": str(file), **content, "has_key": manifest.has_key})
        return
    print_line(f"Written: {file} ({len(manifest.files)} files, {_format_size(size)}).")
    print_note("It holds your servers, login tokens and conversations: keep it private.")
    print_note(_describe_key(manifest))


def _describe_key(manifest: Manifest) -> str:
    if manifest.has_key:
        return "It holds the key of the login tokens too: anyone who can read it can use them."
    return (
        "It does not hold the key of the login tokens: keep the key elsewhere, or write the backup"
        " with --with-key. Without it you have to log in again after a restore."
    )


@command.command(name="rekey")
@config_option
@json_option
def rekey(*, path: Path | None, is_json: bool) -> None:
    """Encrypt the login tokens with a new key.

    A key in the state folder or in the keyring is replaced. A key in the environment is yours to
    replace: write the new key and then the old one into TOOLSCOUT_KEY, separated by a space, run
    this command, and remove the old one. The command also applies another key_store.
    """
    from ..sources.mcp.rekey import rekey_logins

    report = rekey_logins(_read_config(path))
    if is_json:
        print_json(
            {
                "logins": report.logins,
                "unreadable": list(report.unreadable),
                "key": report.key_id,
                "place": report.place,
            }
        )
        return
    print_line(f"Encrypted {report.logins} logins with the key {report.key_id}.")
    print_note(f"It is in {report.place}.")
    for name in report.unreadable:
        print_note(f"Left unchanged, because no key decrypts it: {name}")


@command.command(name="restore")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--force", "is_forced", is_flag=True, help="Replace existing state; the old one is kept."
)
@config_option
@json_option
def restore_state(*, file: Path, is_forced: bool, path: Path | None, is_json: bool) -> None:
    """Verify a backup and restore its state, your list of servers and your settings.

    A file of your own that differs is replaced only with --force, and kept under another name.
    Stop gateways first. Backups of older versions are accepted, those of newer ones refused.
    """
    from ..store.restore import restore
    from ..store.state_key import KEY_NAME

    with progress("Verifying the backup") as step:
        restored = restore(
            _read_config(path),
            file,
            user_folder=_user_folder(path),
            is_forced=is_forced,
            progress=lambda done, total: step("files", done, total),
        )
    manifest = restored.manifest
    if is_json:
        print_json(
            {
                "folder": str(restored.folder),
                "files": len(manifest.files),
                "created": manifest.created,
                "toolscout": manifest.toolscout,
                "kept": [str(kept) for kept in restored.kept],
                "lacks_key": restored.lacks_key,
            }
        )
        return
    print_line(
        f"Restored {len(manifest.files)} files to {restored.folder}, from a backup of"
        f" {manifest.created} (toolscout {manifest.toolscout})."
    )
    for kept in restored.kept:
        print_note(f"Kept from before: {kept}")
    if restored.lacks_key:
        print_note(
            "The key of the login tokens was not in the backup: copy it to"
            f" {restored.folder / KEY_NAME}, or log in again: {command_line('login', 'SERVER')}"
        )
