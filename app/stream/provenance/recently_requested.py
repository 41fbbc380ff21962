"""The provenance references requested recently: one that is read a thousand times is requested once.

Correctness does not depend on it: at worst a reference is resolved again.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING

from app.core.foundation.clock import milliseconds_of
from topics.catalog import PROVENANCE_WANTED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.core.foundation.chain import OutRecord

REMEMBERED = 8192
AGAIN_AFTER_MS = 30_000
"""Long enough for a slow server's answer, short enough that a lost request is soon repeated."""
NEW_OF_A_TENANT = 1000
"""The most new references of a tenant within that time, more than a resolver can handle. A further one is
requested when it is read again."""


class Wanted:
    """The recent requests of one partition. Times are those of the decisions and may go back, so a time
    shortly in the future counts as recent too."""

    def __init__(self) -> None:
        self._asked: OrderedDict[bytes, int] = OrderedDict()
        self._new: dict[str, tuple[int, int]] = {}
        """By tenant, the time since which its new references are counted, and their number."""

    def sifted(self, records: Iterable[OutRecord]) -> list[OutRecord]:
        """The records without requests that were written recently."""
        return [one for one in records if one.topic != PROVENANCE_WANTED or self._is_new(one)]

    def _is_new(self, record: OutRecord) -> bool:
        at_ms = milliseconds_of(record.body["decided_at"])
        name = blake2b(record.subject.encode(), digest_size=16).digest()
        asked = self._asked.get(name)
        if asked is not None and abs(at_ms - asked) < AGAIN_AFTER_MS:
            return False
        if not self._has_room(record.body["tenant_id"], at_ms):
            return False
        self._asked[name] = at_ms
        self._asked.move_to_end(name)
        if len(self._asked) > REMEMBERED:
            self._asked.popitem(last=False)
        return True

    def _has_room(self, tenant: str, at_ms: int) -> bool:
        since, count = self._new.get(tenant, (at_ms, 0))
        if abs(at_ms - since) >= AGAIN_AFTER_MS:
            since, count = at_ms, 0
        if count >= NEW_OF_A_TENANT:
            return False
        self._new[tenant] = since, count + 1
        return True
