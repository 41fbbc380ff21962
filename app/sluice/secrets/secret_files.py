"""Files of secrets: made for their owner alone, replaced in one step, read again when they change."""

from __future__ import annotations

import os
import secrets
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

OWNER_ONLY, NOT_OWNERS = 0o600, 0o077
FileState = tuple[int, int, int]


class SecretFileError(Exception):
    """A file of a secret cannot be used; the message names it and says why, without a part of the secret."""


def read_secret(path: Path, most_bytes: int = -1) -> bytes:
    """What a file holds, up to so many bytes. Raises SecretFileError, also where others than its owner can
    use it."""
    try:
        with path.open("rb") as file:
            mode, secret = stat.S_IMODE(os.fstat(file.fileno()).st_mode), file.read(most_bytes)
    except OSError as error:
        raise SecretFileError(f"cannot read {path}: {error.strerror}") from None
    if mode & NOT_OWNERS:
        raise SecretFileError(f"{path}: mode {mode:04o}, others can use it: chmod 600 {path}")
    return secret


def create_secret(path: Path, text: bytes) -> None:
    """Write a file that did not exist. Raises OSError."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def replace_secret(path: Path, text: bytes) -> None:
    """Write a file, or another in its place. Raises OSError."""
    replace_file(path, text, OWNER_ONLY)


def replace_file(path: Path, text: bytes, mode: int) -> None:
    """Write a file with these permissions, or another in its place: whole or not at all. Raises OSError."""
    target = path.resolve()
    beside = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
    try:
        create_secret(beside, text)
        beside.chmod(mode)
        beside.rename(target)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def read_state(path: Path) -> FileState:
    """What changes when the file does. Raises OSError."""
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino
