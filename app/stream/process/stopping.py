"""A worker that was asked to stop ends within a bound, whatever its connections do.

After a broker was away, leaving the group can take as long as the requests that nobody answers any more. What
is committed does not depend on it, and a supervisor that has waited for long enough kills.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class StopBound:
    """Two bounds in turn, kept by a thread: the loop may be what hangs.

    `close_s`: from the request to the end of all partitions, then `overdue` is called with a TimeoutError.
    `leave_s`: from there to the end of the process, then `end`; a group gives up a silent member by then.
    """

    def __init__(
        self,
        close_s: float,
        leave_s: float,
        overdue: Callable[[BaseException], None],
        end: Callable[[str], None],
    ) -> None:
        self._close_s = close_s
        self._leave_s = leave_s
        self._overdue = overdue
        self._end = end
        self._timer: threading.Timer | None = None

    def asked(self) -> None:
        """The worker was asked to stop; its partitions are open."""
        self._arm(self._close_s, self._call_overdue)

    def closed(self) -> None:
        """All that was decided has been committed; connections are left."""
        self._arm(self._leave_s, self._call_end)

    def _arm(self, seconds: float, call: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(seconds, call)
        self._timer.daemon = True
        self._timer.start()

    def _call_overdue(self) -> None:
        self._overdue(TimeoutError(f"asked to stop, and partitions are open after {self._close_s:g} s"))

    def _call_end(self) -> None:
        self._end(f"connections are not closed after {self._leave_s:g} s; all decisions were committed")
