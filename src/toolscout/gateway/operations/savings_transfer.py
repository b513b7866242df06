"""Carry the total of saved tokens between the files of a machine and a database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from ...config import Config
from ...store.contract import StoreLimits
from ...store.factory import delete_space, is_store_shared, open_store
from .savings_total import OLD_FILE, SPACE, TotalRecord, read_total, write_total


def copy_savings(source: Config, target: Config) -> int:
    """Replace the total of a target whose rows were copied; the number of tokens."""
    # Between two databases, the total is a row; two SQLite stores use the same files.
    if is_store_shared(source) == is_store_shared(target):
        return 0
    if is_store_shared(target):
        total = sum(map(read_total, _files(source)))
        if total:
            with closing(_open_record(target)) as record:
                record.add(total)
        return total
    with closing(_open_record(source)) as record:
        total = record.read()
    if total:
        for path in [*_files(target)]:
            path.unlink(missing_ok=True)
        # A database does not know configurations: the first one that is served gets the total.
        write_total(target.state_folder / OLD_FILE, total)
    delete_space(target, SPACE)
    return total


def _open_record(config: Config) -> TotalRecord:
    return TotalRecord(open_store(config, space=SPACE, limits=StoreLimits(cap=None)))


def _files(config: Config) -> Iterator[Path]:
    yield config.state_folder / OLD_FILE
    yield from sorted((config.state_folder / SPACE).glob("*.json"))
