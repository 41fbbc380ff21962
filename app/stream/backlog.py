"""Inputs of one topic that came while nobody owned its partition: timers wait until they are decided."""

from __future__ import annotations


class Backlog:
    """What is left of it. An end may lie behind commit markers or records that were rolled back or deleted,
    none of which is ever delivered, so where nothing moves for `patience_ms` nothing is left."""

    def __init__(self, end: int, patience_ms: int) -> None:
        """`end`: the topic's end offset at takeover. The patience must be longer than one decision takes."""
        self._end = end
        self._patience_ms = patience_ms
        self._position = -1
        self._since_ms = 0

    def left(self, position: int, now_ms: int) -> bool:
        """Whether some are undecided; `position`: the first undecided offset."""
        if position >= self._end:
            return False
        if position != self._position:
            self._position, self._since_ms = position, now_ms
        if now_ms - self._since_ms >= self._patience_ms:
            self._end = 0
            return False
        return True
