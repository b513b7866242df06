"""Carry logins between the files of a machine and a database."""

from __future__ import annotations

from contextlib import closing

from ...config import Config
from ...store.encryption import is_encrypted
from ...store.factory import delete_space, is_store_shared
from .grant_records import SPACE
from .oauth_tokens import OAuthTokenStore, open_grant_texts


def copy_grants(source: Config, target: Config) -> int:
    """Write the logins of the source over those of the target; how many there are.

    They stay encrypted: the target needs the key of the source.
    """
    # Between two databases, logins are rows; two SQLite stores use the same files.
    if is_store_shared(source) == is_store_shared(target):
        return 0
    with closing(OAuthTokenStore.of(source)) as grants:
        grants.load_all()  # encrypts what an older version wrote
    count = 0
    with closing(open_grant_texts(source)) as read, closing(open_grant_texts(target)) as write:
        for name in read.names():
            content = read.read(name)
            if content is not None and is_encrypted(content):
                write.write(name, content)
                count += 1
    if not is_store_shared(target):
        delete_space(target, SPACE)
    return count
