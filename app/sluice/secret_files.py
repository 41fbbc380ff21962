"""Files of secrets: made for their owner alone, replaced in one step, read again when they change."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

OWNER_ONLY = 0o600
FileState = tuple[int, int, int]


def create_secret(path: Path, text: bytes) -> None:
    """Write a file that did not exist. Raises OSError."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def replace_secret(path: Path, text: bytes) -> None:
    """Write a file, or another in its place. Raises OSError."""
    beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    create_secret(beside, text)
    beside.rename(path)


def state_of(path: Path) -> FileState:
    """What changes when the file does. Raises OSError."""
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino
