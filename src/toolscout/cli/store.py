"""`toolscout store`: check, migrate and copy the store of sessions and the journal."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..config import Config
from ..errors import ConfigError
from ..program import command_line
from .output import json_option, print_json, print_line, print_note, print_table, warn
from .pins import config_option
from .progress import progress

if TYPE_CHECKING:
    from ..store.store_info import StoreInfo

_ADVICE = {
    "ok": "This version can use it.",
    "new": "It is empty; the first start creates its tables, or: {migrate}",
    "older": "The next start updates it, or: {migrate}",
    "newer": "A newer version wrote it: upgrade toolscout.",
}
_EXIT_UNUSABLE = 1
_UNITS = {"pins": " servers", "savings": " tokens"}


@click.group(name="store")
def command() -> None:
    """Check, migrate and copy the store of sessions and the journal.

    A store is `sqlite` (the default file), the path of an SQLite file, or postgresql://… Leave the
    password out of the URL if others can see your commands: PGPASSWORD or ~/.pgpass work too.
    """


def _read_config(path: Path | None, store: str | None = None) -> Config:
    # Only TOML has a [settings] table, and so a `store`.
    return Config.read(path if path is not None and path.suffix == ".toml" else None, store=store)


@command.command(name="check")
@click.argument("store", required=False)
@config_option
@json_option
@click.pass_context
def check_store(
    context: click.Context, *, store: str | None, path: Path | None, is_json: bool
) -> None:
    """Check that STORE answers and which schema it has; nothing is changed.

    Without STORE, the configured one. The exit code is 1 if this version cannot use it.
    """
    from ..store.store_info import inspect_store

    info = inspect_store(_read_config(path, store))
    if is_json:
        print_json(_info_as_json(info))
    else:
        _print_info(info)
    if info.status == "newer":
        context.exit(_EXIT_UNUSABLE)


def _print_info(info: StoreInfo) -> None:
    rows = [
        ("store", info.name),
        ("software", info.software),
        ("schema", f"{info.schema} (this version: {info.newest_schema})"),
        ("answer", f"{info.answer_ms:.2f} ms"),
    ]
    rows += [(name, f"{count:,} rows") for name, count in info.rows.items()]
    print_table(("fact", "value"), rows)
    print_note(_ADVICE[info.status].format(migrate=command_line("store", "migrate")))


def _info_as_json(info: StoreInfo) -> dict[str, object]:
    return {
        "store": info.name,
        "kind": info.kind,
        "software": info.software,
        "status": info.status,
        "schema": info.schema,
        "newest_schema": info.newest_schema,
        "answer_ms": round(info.answer_ms, 3),
        "rows": dict(info.rows),
    }


@command.command(name="migrate")
@click.argument("store", required=False)
@config_option
@json_option
def migrate(*, store: str | None, path: Path | None, is_json: bool) -> None:
    """Create or update the tables of STORE; without STORE, of the configured one.

    A gateway does the same when it starts. Run it before a rolling update, or as a user that may
    create tables where the gateway's own user may not.
    """
    from ..store.store_info import migrate_store

    before, after = migrate_store(_read_config(path, store))
    if is_json:
        print_json({"before": before, "after": after})
    elif before == after:
        print_line(f"Up to date: schema {after}.")
    else:
        print_line(f"Migrated from schema {before} to {after}.")


@command.command(name="copy")
@click.argument("source")
@click.argument("target", required=False)
@click.option("--force", "is_forced", is_flag=True, help="Replace the rows of TARGET.")
@config_option
@json_option
def copy_store(
    *, source: str, target: str | None, is_forced: bool, path: Path | None, is_json: bool
) -> None:
    """Copy all sessions, learned weights, pins and the journal from SOURCE to TARGET.

    Without TARGET, the configured store is the target. It is complete afterwards or unchanged, and
    rows that it has are replaced only with --force. Large results are added to those of TARGET.
    Logins stay encrypted and need the same key there. The hash chain of a journal is not copied.
    Stop gateways that use either store first.
    """
    from ..gateway.operations.savings_transfer import copy_savings
    from ..gateway.upstream.pin_transfer import check_pins_target, copy_pins
    from ..offload.result_transfer import copy_results
    from ..sources.mcp.grant_transfer import copy_grants
    from ..store.store_info import open_tables
    from ..store.transfer import copy_tables

    from_config, to_config = _read_config(path, source), _read_config(path, target)
    _refuse_same(from_config, to_config)
    check_pins_target(from_config, to_config, is_forced=is_forced)
    with (
        closing(open_tables(from_config, is_source=True)) as read,
        closing(open_tables(to_config, is_source=False)) as write,
        progress("Copying") as step,
    ):
        if read.has_chain:
            warn("The hash chain of the journal is not copied: keep the source as evidence.")
        copied = copy_tables(
            read,
            write,
            is_forced=is_forced,
            progress=lambda done, total: step("rows", done, total),
        )
    others = {
        "pins": copy_pins(from_config, to_config),
        "large_results": copy_results(from_config, to_config),
        "savings": copy_savings(from_config, to_config),
        "logins": copy_grants(from_config, to_config),
    }
    if is_json:
        print_json({"source": read.name, "target": write.name, "rows": copied.rows, **others})
        return
    for name, count in copied.rows.items():
        print_note(f"{name}: {count:,} rows")
    for name, count in others.items():
        if count:
            print_note(f"{name.replace('_', ' ')}: {count:,}{_UNITS.get(name, '')}")
    print_line(f"Copied {copied.total:,} rows from {read.name} to {write.name}, and counted them.")


@command.command(name="rotate-keys")
@config_option
@click.option(
    "--force", "is_forced", is_flag=True, help="Replace keys that are damaged or cannot be read."
)
def rotate_keys(*, path: Path | None, is_forced: bool) -> None:
    """Make a new key for what gateways send to each other and through clients.

    All gateways with the store use it at once. The keys before it are valid for another hour.
    """
    from ..gateway.fleet.key_ring import open_key_ring
    from ..store.store_info import require_kept

    config = _read_config(path)
    require_kept(config)
    with closing(open_key_ring(config)) as ring:
        if is_forced:
            ring.forget()
        count = ring.rotate()
    print_line(f"Made a new key; the store has {count} {'key' if count == 1 else 'keys'} now.")


def _refuse_same(source: Config, target: Config) -> None:
    from ..store.factory import store_path

    first, second = store_path(source), store_path(target)
    is_same_file = first is not None and second is not None and first.resolve() == second.resolve()
    if is_same_file or source.store == target.store:
        raise ConfigError("Source and target are the same store.", hint="Name another target.")
