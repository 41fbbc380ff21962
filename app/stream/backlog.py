"""Inputs of a topic that have come and are not decided yet: timers that they may forestall wait for them."""

from __future__ import annotations


class Backlog:
    """Asked again and again while something is due. An end may lie behind commit markers or records that were
    rolled back or deleted, none of which is ever delivered: where nothing moves for `patience_ms`, none is
    waited for."""

    def __init__(self, patience_ms: int) -> None:
        """The patience must be longer than a fetch takes."""
        self._patience_ms = patience_ms
        self._end: int | None = None
        self._as_of_ms = 0
        self._position = -1
        self._since_ms = 0
        self._unreachable = 0

    def decided_until(self, position: int, end: int, now_ms: int, *, deciding: bool = False) -> int | None:
        """The time up to which everything that came is decided, None while something is not.

        `position`: the first undecided offset; `end`: the topic's end, as far as it is known at `now_ms`;
        `deciding`: something that was delivered is undecided, and no patience runs.
        """
        if self._end is None:
            self._end, self._as_of_ms = end, now_ms
            self._position, self._since_ms = position, now_ms
        if self._end > max(position, self._unreachable):
            if deciding or position != self._position:
                self._position, self._since_ms = position, now_ms
            if now_ms - self._since_ms < self._patience_ms:
                return None
            self._unreachable = self._end
        self._end = None
        return self._as_of_ms
