"""Carry large results between the folder of a machine and databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import BinaryIO

from ..config import Config
from ..store.postgres_url import is_postgres_url
from .passages import CHUNK
from .result_factory import open_results


def copy_results(source: Config, target: Config) -> int:
    """Add the results that the target lacks; how many it has of the source's afterwards."""
    # Nothing is replaced or deleted: names are unique, and what nobody needs expires.
    if not (is_postgres_url(source.store) or is_postgres_url(target.store)):
        return 0  # two SQLite stores use the same folder
    count = 0
    with closing(open_results(source)) as read, closing(open_results(target)) as write:
        for entry in read.entries():
            stream = read.read(entry)
            if stream is not None:
                with stream:
                    write.add(entry, _read_pieces(stream))
                count += 1
    return count


def _read_pieces(stream: BinaryIO) -> Iterator[bytes]:
    while piece := stream.read(CHUNK):
        yield piece
