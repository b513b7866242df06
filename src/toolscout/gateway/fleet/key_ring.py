"""Keys that all gateways with one store share, and that can be rotated."""

from __future__ import annotations

import hmac
import secrets
import time
from threading import Lock

from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState
from pydantic import BaseModel, ConfigDict, ValidationError

from ...config import Config
from ...errors import StoreError
from ...store.contract import Clock, Store, StoreLimits
from ...store.encryption import Cipher, is_encrypted
from ...store.factory import is_store_shared, open_store
from ...store.state_key import StateKeys

SPACE = "gateway_keys"
"""The space of the store."""

KEPT_SECONDS = 3_600.0
"""How long a replaced key still decrypts; request state is valid for ten minutes."""

_RECORD = "ring"
# Tokens come from clients. One with an unknown key makes a gateway read the store, but no more
# often than this.
_RELOAD_SECONDS = 1.0


class _Key(BaseModel):
    """A secret, and when it was made; the newest one encrypts."""

    model_config = ConfigDict(frozen=True)

    secret: str
    created: float


class _Ring(BaseModel):
    """All keys, the newest first."""

    model_config = ConfigDict(frozen=True)

    keys: tuple[_Key, ...]


class KeyRing:
    """The shared keys as this process last read them.

    Before the first successful `load`, it has only a key of this process. Codecs for different
    purposes have different keys, so that a token for one purpose is never valid for another.
    """

    def __init__(self, store: Store, *, cipher: Cipher | None, clock: Clock = time.time) -> None:
        self._store = store
        self._cipher = cipher
        self._clock = clock
        self._lock = Lock()
        self._local = _Key(secret=secrets.token_urlsafe(32), created=0)
        self._keys: tuple[_Key, ...] = (self._local,)
        self._reloaded = -_RELOAD_SECONDS
        self._codecs: dict[str, tuple[tuple[_Key, ...], AESGCMRequestStateCodec]] = {}

    def load(self) -> None:
        """Read the keys again; the first gateway of all makes one."""
        ring, version = self._read()
        if not ring.keys:
            made = _Ring(keys=(self._new_key(),))
            # Another gateway may be first.
            ring = made if self._write(made, version) else self._read()[0]
        # The local key last: this process may have sealed something before the store answered.
        self._keys = (*ring.keys, self._local)

    def reload_soon(self) -> bool:
        """Read the keys again, unless that has just been done; whether it was."""
        with self._lock:
            now = time.monotonic()
            if now - self._reloaded < _RELOAD_SECONDS:
                return False
            self._reloaded = now
        self.load()
        return True

    def rotate(self) -> int:
        """Encrypt with a new key from now on; how many keys there are."""
        while True:
            ring, version = self._read()
            oldest = self._clock() - KEPT_SECONDS
            # A key is replaced when the next one is made, so its own age is not enough.
            kept = [
                key
                for key, newer in zip(ring.keys, (None, *ring.keys), strict=False)
                if newer is None or newer.created > oldest
            ]
            changed = _Ring(keys=(self._new_key(), *kept))
            if self._write(changed, version):
                self._keys = (*changed.keys, self._local)
                return len(changed.keys)

    def forget(self) -> None:
        """Delete all keys; what was sealed with them becomes invalid."""
        self._store.delete(_RECORD)

    def codec(self, purpose: str) -> AESGCMRequestStateCodec:
        """Encrypts with the newest key, and decrypts with all of them."""
        keys = self._keys
        known = self._codecs.get(purpose)
        if known is None or known[0] != keys:
            derived = [hmac.digest(key.secret.encode(), purpose.encode(), "sha256") for key in keys]
            known = self._codecs[purpose] = (keys, AESGCMRequestStateCodec(derived))
        return known[1]

    def close(self) -> None:
        """Release the store."""
        self._store.close()

    def _new_key(self) -> _Key:
        return _Key(secret=secrets.token_urlsafe(32), created=self._clock())

    def _read(self) -> tuple[_Ring, int]:
        record = self._store.get(_RECORD)
        if record is None:
            return _Ring(keys=()), 0
        text = record.text.encode()
        try:
            if is_encrypted(text):
                if self._cipher is None:
                    raise StoreError(
                        "The keys of the gateways are encrypted.",
                        hint="Give every gateway with this store the same TOOLSCOUT_KEY.",
                    )
                text = self._cipher.decrypt(text, context=SPACE)
            return _Ring.model_validate_json(text), record.version
        except ValidationError as error:
            raise StoreError(
                "The keys of the gateways in the store are damaged.",
                hint="Make new ones: toolscout store rotate-keys --force",
            ) from error

    def _write(self, ring: _Ring, version: int) -> bool:
        text = ring.model_dump_json()
        if self._cipher is not None:
            text = self._cipher.encrypt(text.encode(), context=SPACE).decode()
        return self._store.put(_RECORD, text, expected=version) is not None


class SharedCodec:
    """Encrypts for one purpose, with the keys that the ring has at each moment."""

    def __init__(self, ring: KeyRing, *, purpose: str) -> None:
        self._ring = ring
        self._purpose = purpose

    def seal(self, payload: bytes) -> str:
        """Encrypt with the newest key."""
        return self._ring.codec(self._purpose).seal(payload)

    def unseal(self, token: str) -> bytes:
        """Decrypt; raises InvalidRequestState for a token that no gateway has made."""
        return self._ring.codec(self._purpose).unseal(token)

    def unseal_or_reload(self, token: str) -> bytes | None:
        """Decrypt, after another look at the store if need be; None if it is not valid."""
        try:
            return self.unseal(token)
        except InvalidRequestState as error:
            if str(error) != "unknown key" or not self._ring.reload_soon():
                return None
        try:
            return self.unseal(token)
        except InvalidRequestState:
            return None


def open_key_ring(config: Config) -> KeyRing:
    """The keys in the configured store.

    They are encrypted with TOOLSCOUT_KEY if it is given. A store on this machine is always
    encrypted, with the key of the state folder, which other machines do not have.
    """
    state_keys = StateKeys.of(config)
    has_key = state_keys.is_given or not is_store_shared(config)
    # Never dropped: other gateways could not read what this one sealed.
    store = open_store(config, space=SPACE, limits=StoreLimits(cap=None))
    return KeyRing(store, cipher=Cipher(state_keys) if has_key else None)
