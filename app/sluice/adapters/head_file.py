"""A file outside the broker that has every tree head: one DSSE envelope a line, in order."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sluice.core.trust.tree_heads import HeadRefused, digest_head, open_head

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def read_head_file(path: Path) -> Iterator[bytes]:
    """The envelopes of a file, without a last line that a kill cut off. Raises OSError."""
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield line.rstrip(b"\n")


class HeadFile:
    """Adds heads to a file; each is on the disk before the next one is signed."""

    def __init__(self, path: Path) -> None:
        """Reads what is there. Raises OSError, and HeadRefused where a line is no head."""
        self._path = path
        self._digests: list[str] = []
        whole = 0
        if path.exists():
            for number, value in enumerate(read_head_file(path), start=1):
                envelope, head = open_head(value, number)
                if head.number != number:
                    raise HeadRefused(f"{path}: line {number} is head {head.number}")
                self._digests.append(digest_head(envelope))
                whole += len(value) + 1
            with path.open("rb+") as file:
                file.truncate(whole)

    def take(self, number: int, digest: str, value: bytes) -> None:
        """See HeadCopies."""
        if number <= len(self._digests):
            if self._digests[number - 1] != digest:
                raise HeadRefused(f"head {number} is another than that in {self._path}")
            return
        with self._path.open("ab") as file:
            file.write(value + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._digests.append(digest)

    def require_no_later(self, number: int) -> None:
        """See HeadCopies."""
        if number < len(self._digests):
            raise HeadRefused(
                f"the topic ends with head {number}, and {self._path} has head {len(self._digests)}: the "
                "topic was cut off"
            )
