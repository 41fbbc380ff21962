"""Tells supervisors whether this worker decides: a file that exists only while it owns partitions."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger(__name__)


class Readiness:
    """`path` None only logs."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.changed([])

    def changed(self, numbers: list[int]) -> None:
        """The open partitions are now these; none means not ready."""
        if numbers:
            log.info("ready: deciding for partitions %s", numbers)
        if self._path is None:
            return
        if numbers:
            self._path.write_text(" ".join(map(str, numbers)) + "\n", encoding="ascii")
        else:
            self._path.unlink(missing_ok=True)
