"""The keys of persons, wrapped: what lies on a topic opens only with the master key.

`KeyWrapper` is the port. `FileKeyWrapper` takes the master key out of a file; a key management service is
another implementation, whose master key leaves it never.

The file is made by `sluice keys seal`: one key a line, base64 of 32 random bytes. The first wraps, each of
them opens. It is read again when it changes.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_WRAPPING, _NAMING, _KEY_ID = (
    b"sluice subject keys: wrap",
    b"sluice subject keys: subject",
    b"sluice master key",
)
_ID_DIGITS = 16


class Wrapped(NamedTuple):
    """A wrapped key, and the id of the master key that wrapped it."""

    text: bytes
    by: str


class KeyOwner(NamedTuple):
    """Which key it is, and whose. `person`: what stands for the person on the topic."""

    key_id: str
    tenant: str
    person: bytes

    def list_parts(self) -> list[bytes]:
        """What is authenticated with the wrapped key."""
        return [self.key_id.encode(), self.tenant.encode("utf-8", "surrogatepass"), self.person]


class KeyNotOpened(Exception):
    """A wrapped key does not open: it was altered, is another one's, or its master key is not at hand."""


class KeyWrapper(Protocol):
    """Whoever has the master key. Each method raises OSError where that cannot be reached."""

    async def wrap(self, whose: KeyOwner, key: bytes) -> Wrapped:
        """Wrap a key for its id, tenant and person alone."""

    async def unwrap(self, whose: KeyOwner, wrapped: Wrapped) -> bytes:
        """The key that was wrapped for these. Raises KeyNotOpened."""

    async def index(self, person: bytes) -> Sequence[bytes]:
        """What stands for a person on the topic: 32 bytes for each master key in force, that of the wrapping
        one first. Nobody without the master key can compute them."""


class FileKeyWrapper:
    """With the master keys of a file."""

    def __init__(self, keys: Callable[[], tuple[bytes, ...]]) -> None:
        """`keys`: those in force, the wrapping one first (`load_seal_keys`)."""
        self._keys = keys
        self._derived: dict[bytes, _Derived] = {}

    async def wrap(self, whose: KeyOwner, key: bytes) -> Wrapped:
        """Wrap a key for its id, tenant and person alone, with the first key of the file."""
        derived = self._derive(self._keys()[0])
        return Wrapped(derived.cipher.encrypt(key, whose.list_parts()), derived.id)

    async def unwrap(self, whose: KeyOwner, wrapped: Wrapped) -> bytes:
        """The key that was wrapped for these. Raises KeyNotOpened."""
        for key in self._keys():
            derived = self._derive(key)
            if derived.id == wrapped.by:
                try:
                    return derived.cipher.decrypt(wrapped.text, whose.list_parts())
                except InvalidTag:
                    raise KeyNotOpened(f"the key {whose.key_id} was altered, or is another one's") from None
        raise KeyNotOpened(
            f"the master key {wrapped.by}, which wrapped the key {whose.key_id}, is not in the file"
        )

    async def index(self, person: bytes) -> Sequence[bytes]:
        """What stands for a person on the topic, by each key of the file."""
        return [hmac.digest(self._derive(key).naming, person, "sha256") for key in self._keys()]

    def _derive(self, key: bytes) -> _Derived:
        if key not in self._derived:
            master_id = sha256(_KEY_ID + key).hexdigest()[:_ID_DIGITS]
            self._derived[key] = _Derived(
                master_id, AESSIV(_expand(key, _WRAPPING, 64)), _expand(key, _NAMING, 32)
            )
        return self._derived[key]


class _Derived(NamedTuple):
    id: str
    cipher: AESSIV
    naming: bytes


def _expand(key: bytes, info: bytes, length: int) -> bytes:
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=info).derive(key)
