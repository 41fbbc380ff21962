"""The keys of persons, wrapped: what lies on a topic opens only with the master key.

`KeyWrapper` is the port. `FileKeyWrapper` takes the master key out of a file; a key management service is
another implementation, whose master key leaves it never.

The file is made by `sluice keys seal`: one key a line, base64 of 32 random bytes. The first wraps, each of
them opens. It is read again when it changes. `sluice rewrap` wraps all with the first.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sluice_topics.sealing import SECRET_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_WRAPPING, _NAMING, _KEY_ID = (
    b"sluice subject keys: wrap",
    b"sluice subject keys: subject",
    b"sluice master key",
)
_ID_DIGITS = 16
PERSON_BYTES = 32
MOST_CHANGES = 3
"""Of the master key while one key is wrapped."""


class Wrapped(NamedTuple):
    """A wrapped key, and the id of the master key that wrapped it."""

    text: bytes
    by: str


class KeyOwner(NamedTuple):
    """Which key it is, and whose. `name`: what stands for the person on the topic."""

    key_id: str
    tenant: str
    name: bytes

    def list_parts(self) -> list[bytes]:
        """What is authenticated with the wrapped key."""
        return [self.key_id.encode(), self.tenant.encode("utf-8", "surrogatepass"), self.name]


class PersonKey(NamedTuple):
    """What is wrapped: a key of SECRET_BYTES, and a digest of PERSON_BYTES of the person's name, by which
    whoever has the master key gives the key its name under another one."""

    secret: bytes
    person: bytes


class KeyWrapper(Protocol):
    """Whoever has the master keys. Each method raises OSError where that cannot be reached; keys go in
    batches, since they may be asked for over a network."""

    async def wrap(self, keys: Sequence[tuple[KeyOwner, PersonKey]]) -> list[Wrapped]:
        """Wrap keys with the first master key, each for its id, tenant and name alone."""

    async def unwrap(self, keys: Sequence[tuple[KeyOwner, Wrapped]]) -> list[PersonKey | None]:
        """The keys that were wrapped for these; None for one that was altered, is another one's, or whose
        master key is not at hand."""

    async def index(self, person: bytes) -> Sequence[bytes]:
        """What stands for a person on the topic: 32 bytes for each master key in force, that of the wrapping
        one first. Nobody without the master key can compute them. `person`: as of PersonKey."""

    async def index_all(self, persons: Sequence[bytes]) -> list[Sequence[bytes]]:
        """The same of each of these."""

    async def list_masters(self) -> Sequence[str]:
        """The ids of the master keys in force, that of the wrapping one first."""

    async def close(self) -> None:
        """Give up connections; the next call makes new ones."""


def make_master_id(key: bytes) -> str:
    """The id of a master key of a file."""
    return sha256(_KEY_ID + key).hexdigest()[:_ID_DIGITS]


class FileKeyWrapper:
    """With the master keys of a file."""

    def __init__(self, keys: Callable[[], tuple[bytes, ...]]) -> None:
        """`keys`: those in force, the wrapping one first (`load_seal_keys`)."""
        self._keys = keys
        self._derived: dict[bytes, _Derived] = {}

    async def wrap(self, keys: Sequence[tuple[KeyOwner, PersonKey]]) -> list[Wrapped]:
        """Wrap keys with the first key of the file."""
        derived = self._derive(self._keys()[0])
        return [
            Wrapped(derived.cipher.encrypt(key.secret + key.person, whose.list_parts()), derived.id)
            for whose, key in keys
        ]

    async def unwrap(self, keys: Sequence[tuple[KeyOwner, Wrapped]]) -> list[PersonKey | None]:
        """The keys that were wrapped for these; None for one that does not open."""
        by_id = {derived.id: derived for derived in map(self._derive, self._keys())}
        return [_unwrap(by_id.get(wrapped.by), whose, wrapped) for whose, wrapped in keys]

    async def index(self, person: bytes) -> Sequence[bytes]:
        """What stands for a person on the topic, by each key of the file."""
        return (await self.index_all([person]))[0]

    async def index_all(self, persons: Sequence[bytes]) -> list[Sequence[bytes]]:
        """The same of each of these."""
        naming = [self._derive(key).naming for key in self._keys()]
        return [[hmac.digest(key, person, "sha256") for key in naming] for person in persons]

    async def list_masters(self) -> Sequence[str]:
        """The ids of the keys in the file."""
        return [self._derive(key).id for key in self._keys()]

    async def close(self) -> None:
        """Nothing is held."""

    def _derive(self, key: bytes) -> _Derived:
        if key not in self._derived:
            self._derived[key] = _Derived(
                make_master_id(key), AESSIV(_expand(key, _WRAPPING, 64)), _expand(key, _NAMING, 32)
            )
        return self._derived[key]


async def wrap_named(
    wrapper: KeyWrapper, keys: Sequence[tuple[str, str, PersonKey]]
) -> list[tuple[KeyOwner, Wrapped]]:
    """Keys with their ids and tenants, wrapped and named by one master key: where another one became the
    first meanwhile, again. A key that an old one names is found by nobody once that goes. Raises OSError."""
    for _ in range(MOST_CHANGES):
        master = (await wrapper.list_masters())[0]
        names = await wrapper.index_all([key.person for _, _, key in keys])
        owners = [
            KeyOwner(key_id, tenant, of_person[0])
            for (key_id, tenant, _), of_person in zip(keys, names, strict=True)
        ]
        wrapped = await wrapper.wrap(list(zip(owners, (key for _, _, key in keys), strict=True)))
        is_same = (await wrapper.list_masters())[0] == master
        if is_same and all(each.by == master for each in wrapped):
            return list(zip(owners, wrapped, strict=True))
    raise OSError("the master key changed each time that a key was wrapped")


class _Derived(NamedTuple):
    id: str
    cipher: AESSIV
    naming: bytes


def _unwrap(derived: _Derived | None, whose: KeyOwner, wrapped: Wrapped) -> PersonKey | None:
    if derived is None:
        return None
    try:
        opened = derived.cipher.decrypt(wrapped.text, whose.list_parts())
    except InvalidTag:
        return None
    key = PersonKey(opened[:-PERSON_BYTES], opened[-PERSON_BYTES:])
    return key if len(key.secret) == SECRET_BYTES else None


def _expand(key: bytes, info: bytes, length: int) -> bytes:
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=info).derive(key)
