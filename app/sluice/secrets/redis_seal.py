"""What opens a Redis, and what makes its entries count: nobody has to trust whoever can write there.

An entry is encrypted and authenticated (AES-SIV, RFC 5297) under a key of its purpose, together with its name
and the moment until which it counts. What is altered, made up, older than that, put under another name or
kept for another purpose is no entry. AES-SIV needs no nonce, so no number of entries wears a key out.

The keys are a file that gateways and workers share: one a line, base64 of 32 random bytes. The first seals,
each of them opens. It is read again when it changes.
"""

from __future__ import annotations

import binascii
import logging
import secrets
import struct
import time
from base64 import b64decode, b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote, urlsplit

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sluice.secrets.secret_files import SecretFileError, read_secret, read_state, replace_secret

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sluice.secrets.secret_files import FileState

log = logging.getLogger(__name__)
Purpose = Literal["idempotent answer", "model answer", "log-in", "said on a page", "failed log-ins"]
KEY_BYTES = 32
MOST_KEYS = 8
ID_BYTES = 4
"""Of a key, in front of each entry: which of them opens it."""
SIV_BYTES = 64
"""AES-SIV with 256 bits takes two keys."""
_UNTIL = struct.Struct(">d")
OVERHEAD = ID_BYTES + 16 + _UNTIL.size
"""Bytes by which an entry is longer than its text."""


class SealKeysError(Exception):
    """The file of keys cannot be used; the message names it and says why."""


class SealKeys:
    """The keys of one file."""

    def __init__(self, path: Path) -> None:
        """Raises SealKeysError."""
        self._path = path
        self._state = _read_state(path)
        self._keys = read_seal_keys(path)

    def __call__(self) -> tuple[bytes, ...]:
        """The keys in force, the sealing one first. A file that has become unusable changes nothing."""
        try:
            state = _read_state(self._path)
            if state != self._state:
                self._state = state
                self._keys = read_seal_keys(self._path)
        except SealKeysError as error:
            log.warning("the keys that were read before go on to count: %s", error)
        return self._keys


class Seal:
    """Seals entries of one purpose."""

    def __init__(self, keys: Callable[[], tuple[bytes, ...]], purpose: Purpose) -> None:
        """`keys`: those in force, the sealing one first."""
        self._keys = keys
        self._purpose = purpose
        self._ciphers: dict[bytes, tuple[bytes, AESSIV]] = {}

    def seal(self, name: bytes, text: bytes, until_s: float) -> bytes:
        """The entry for this name, which counts until then (seconds since the epoch). The same arguments give
        the same entry."""
        key_id, cipher = self._build_cipher(self._keys()[0])
        return key_id + cipher.encrypt(_UNTIL.pack(until_s) + text, [key_id, name])

    def unseal(self, name: bytes, entry: bytes, now_s: float | None = None) -> bytes | None:
        """The text of an entry under this name that was sealed for this purpose and counts now, else None,
        and a warning in the log."""
        text = self._open_entry(name, entry)
        if text is None:
            log.warning("an entry in the Redis (%s) is not sealed by this installation", self._purpose)
            return None
        (until_s,) = _UNTIL.unpack_from(text)
        if until_s <= (time.time() if now_s is None else now_s):
            log.warning("an entry in the Redis (%s) is older than it may be", self._purpose)
            return None
        return text[_UNTIL.size :]

    def digest_name(self, of: bytes) -> str:
        """A name that only holders of the keys can work out."""
        return sha256(self._derive(self._keys()[0]) + of).hexdigest()

    def _open_entry(self, name: bytes, entry: bytes) -> bytes | None:
        key_id, sealed = entry[:ID_BYTES], entry[ID_BYTES:]
        for key in self._keys():
            own_key, cipher = self._build_cipher(key)
            if own_key == key_id and len(entry) >= OVERHEAD:
                try:
                    return cipher.decrypt(sealed, [key_id, name])
                except InvalidTag:
                    continue
        return None

    def _build_cipher(self, key: bytes) -> tuple[bytes, AESSIV]:
        if key not in self._ciphers:
            if len(self._ciphers) >= MOST_KEYS:
                self._ciphers.clear()
            key_id = sha256(b"sluice seal key id:" + key).digest()[:ID_BYTES]
            self._ciphers[key] = key_id, AESSIV(self._derive(key))
        return self._ciphers[key]

    def _derive(self, key: bytes) -> bytes:
        info = f"sluice redis: {self._purpose}".encode()
        return HKDF(algorithm=SHA256(), length=SIV_BYTES, salt=None, info=info).derive(key)


def load_seal_keys(path: Path | None) -> SealKeys:
    """The keys that the setting redis.key_file names. Raises SealKeysError, also where it names none."""
    if path is None:
        raise SealKeysError("entries in a Redis are sealed: redis.key_file names no file of keys")
    return SealKeys(path.expanduser())


def read_seal_keys(path: Path) -> tuple[bytes, ...]:
    """The keys of a file. Raises SealKeysError, also where others than its owner can read it."""
    try:
        keys = tuple(b64decode(line, validate=True) for line in read_secret(path).split())
    except SecretFileError as error:
        raise SealKeysError(str(error)) from None
    except binascii.Error:
        keys = ()
    if not 1 <= len(keys) <= MOST_KEYS or {len(key) for key in keys} != {KEY_BYTES}:
        problem = f"has no 1 to {MOST_KEYS} lines of base64 with {KEY_BYTES} bytes each: `sluice keys seal`"
        raise SealKeysError(f"{path}: {problem} makes one")
    return keys


def write_seal_keys(path: Path, keys: tuple[bytes, ...]) -> None:
    """Replace the file in one step, readable by its owner alone. Raises OSError."""
    replace_secret(path, b"".join(b64encode(key) + b"\n" for key in keys))


def make_seal_key() -> bytes:
    """A new key."""
    return secrets.token_bytes(KEY_BYTES)


def add_password(url: str, path: Path | None) -> str:
    """A Redis's URL with the password of a file, where it has none of its own. Raises SealKeysError."""
    url_parts = urlsplit(url)
    if path is None or url_parts.password is not None:
        return url
    try:
        password = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SealKeysError(f"cannot read {path}: {error}") from None
    host = url_parts.netloc.rpartition("@")[2]
    named = quote(url_parts.username or "", safe="")
    return url_parts._replace(netloc=f"{named}:{quote(password, safe='')}@{host}").geturl()


def _read_state(path: Path) -> FileState:
    try:
        return read_state(path)
    except OSError as error:
        raise SealKeysError(f"cannot read {path}: {error.strerror}") from None
