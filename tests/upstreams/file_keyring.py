"""A keyring backend that stores passwords in the JSON file of TEST_KEYRING, for any process.

`PYTHON_KEYRING_BACKEND=tests.upstreams.file_keyring.FileKeyring` selects it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from keyring.backend import KeyringBackend
from keyring.errors import KeyringError


class FileKeyring(KeyringBackend):
    priority = 1  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride] -- as keyring documents it

    def get_password(self, service: str, username: str) -> str | None:
        return self._read().get(f"{service}/{username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        self._file.write_text(json.dumps({**self._read(), f"{service}/{username}": password}))

    @property
    def _file(self) -> Path:
        return Path(os.environ["TEST_KEYRING"])

    def _read(self) -> dict[str, str]:
        if not self._file.exists():
            raise KeyringError("this keyring is locked; its password is hunter22")
        return json.loads(self._file.read_text())
