"""How many slow calls a worker is waiting for, in a file that can be read after the worker was killed."""

from __future__ import annotations

import mmap
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_FORMAT = struct.Struct("<q")


class Gauge:
    """Written by the worker, through memory that the kernel keeps when the process dies."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(_FORMAT.pack(0))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _FORMAT.size)
        self._value = 0

    def add(self, step: int) -> None:
        """Count up or down."""
        self._value += step
        _FORMAT.pack_into(self._memory, 0, self._value)


def read(path: Path) -> int:
    """The value; 0 while there is no file yet."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return 0
    return int(_FORMAT.unpack(raw)[0]) if len(raw) == _FORMAT.size else 0
