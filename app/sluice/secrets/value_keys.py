"""Files with a key of values' fingerprints (sluice_topics/values.py): the master key, and one of a tenant."""

from __future__ import annotations

import os
import secrets
import stat
from base64 import b64encode
from typing import TYPE_CHECKING

from sluice.secrets.secret_files import create_secret
from sluice_topics.values import KEY_BYTES, parse_key

if TYPE_CHECKING:
    from pathlib import Path

NOT_OWNERS = 0o077


class ValueKeyError(Exception):
    """The file of a key cannot be used; the message names it and says why, without a part of the key."""


def read_value_key(path: Path) -> bytes:
    """The 32 bytes in a file. Raises ValueKeyError, also where others than its owner can read it."""
    try:
        with path.open("rb") as file:
            mode, text = stat.S_IMODE(os.fstat(file.fileno()).st_mode), file.read(1024)
    except OSError as error:
        raise ValueKeyError(f"cannot read {path}: {error.strerror}") from None
    if mode & NOT_OWNERS:
        raise ValueKeyError(f"{path}: mode {mode:04o}, others can use it: chmod 600 {path}")
    try:
        return parse_key(text.decode("ascii"))
    except ValueError:
        raise ValueKeyError(f"{path} holds no key: `sluice keys values` makes one") from None


def write_value_key(path: Path, key: bytes) -> None:
    """Write a file that did not exist, readable by its owner alone. Raises OSError."""
    create_secret(path, b64encode(key) + b"\n")


def make_value_key() -> bytes:
    """A new key."""
    return secrets.token_bytes(KEY_BYTES)
