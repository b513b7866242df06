"""Carry pins between the files of a machine and a store that gateways share."""

from __future__ import annotations

from contextlib import closing

from ...config import Config
from ...errors import StoreError
from ...store.factory import delete_space
from ...store.postgres_url import is_postgres_url
from .pin_factory import open_pins, pins_folder
from .pin_records import SPACE


def check_pins_target(source: Config, target: Config, *, is_forced: bool) -> None:
    """Raise StoreError if a copy would replace pins of this machine without being forced."""
    if not _needs_copy(source, target) or is_forced or is_postgres_url(target.store):
        return
    with closing(open_pins(target)) as pins:
        if names := pins.servers():
            raise StoreError(
                f"{pins_folder(target)} already has pins of {', '.join(names)}.",
                hint="Nothing was changed. Replace them with --force.",
            )


def copy_pins(source: Config, target: Config) -> int:
    """Replace the pins of a target whose rows were copied; how many servers have pins."""
    # Between two databases, pins are rows; two SQLite stores use the same files.
    if not _needs_copy(source, target):
        return 0
    with closing(open_pins(source)) as read, closing(open_pins(target)) as write:
        labels = read.texts.labels()
        for label in labels:
            text = read.texts.read(label)
            if text is not None:
                is_unmet = not read.texts.is_met(label)
                write.texts.write(label, text.decode(), is_unmet=is_unmet)
        for label in set(write.texts.labels()) - set(labels):
            write.texts.delete(label)
    if not is_postgres_url(target.store):
        # The files are the pins now, not the rows that came with the others.
        delete_space(target, SPACE)
    return len(labels)


def _needs_copy(source: Config, target: Config) -> bool:
    return is_postgres_url(source.store) != is_postgres_url(target.store)
