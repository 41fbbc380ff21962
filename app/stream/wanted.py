"""Which provenance references were asked for a moment ago: one that is read a thousand times is wanted once.

Nothing depends on it: a reference that is asked for again is resolved again, at most.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from app.core.clock import milliseconds_of
from topics.catalog import PROVENANCE_WANTED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.core.decision import OutRecord

REMEMBERED = 8192
AGAIN_AFTER_MS = 30_000
"""Long enough that a slow server's answer is there, short enough that a lost one is soon asked for again."""


class Wanted:
    """Of one partition. Times are those of the decisions."""

    def __init__(self) -> None:
        self._asked: OrderedDict[str, int] = OrderedDict()

    def sifted(self, records: Iterable[OutRecord]) -> list[OutRecord]:
        """The records without the wishes that were written just before."""
        return [one for one in records if one.topic != PROVENANCE_WANTED or self._is_new(one)]

    def _is_new(self, record: OutRecord) -> bool:
        at_ms = milliseconds_of(record.body["decided_at"])
        asked = self._asked.get(record.subject)
        if asked is not None and at_ms < asked + AGAIN_AFTER_MS:
            return False
        self._asked[record.subject] = at_ms
        self._asked.move_to_end(record.subject)
        if len(self._asked) > REMEMBERED:
            self._asked.popitem(last=False)
        return True
