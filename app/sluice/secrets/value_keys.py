"""Files with a key of values' fingerprints (sluice_topics/values.py): the master key, and one of a tenant."""

from __future__ import annotations

import secrets
from base64 import b64encode
from typing import TYPE_CHECKING

from sluice.secrets.secret_files import SecretFileError, create_secret, read_secret
from sluice_topics.values import KEY_BYTES, parse_key

if TYPE_CHECKING:
    from pathlib import Path


class ValueKeyError(Exception):
    """The file of a key cannot be used; the message names it and says why, without a part of the key."""


def read_value_key(path: Path) -> bytes:
    """The 32 bytes in a file. Raises ValueKeyError, also where others than its owner can read it."""
    try:
        return parse_key(read_secret(path, 1024).decode("ascii"))
    except SecretFileError as error:
        raise ValueKeyError(str(error)) from None
    except ValueError:
        raise ValueKeyError(f"{path} holds no key: `sluice keys values` makes one") from None


def write_value_key(path: Path, key: bytes) -> None:
    """Write a file that did not exist, readable by its owner alone. Raises OSError."""
    create_secret(path, b64encode(key) + b"\n")


def make_value_key() -> bytes:
    """A new key."""
    return secrets.token_bytes(KEY_BYTES)
