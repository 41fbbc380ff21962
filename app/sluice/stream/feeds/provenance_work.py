"""The queue of references to resolve, in turns, and which requests are done.

Tenants and their hosts take turns, each with a limited share: a slow host delays only references to itself,
and a tenant with many references delays only its own. A reference that is requested again while it is being
resolved is resolved once, and all its requests are done with its record.

Before that, a worker requests a reference once that is read a thousand times. Correctness does not depend on
it: at worst a reference is resolved again.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from sluice.core.foundation.clock import read_milliseconds
from sluice_topics.catalog import PROVENANCE_WANTED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluice.core.foundation.chain import OutRecord


class Reference(NamedTuple):
    """A reference of a tenant; the same URI of another tenant is another reference."""

    tenant: str
    uri: str


@dataclass(frozen=True, slots=True)
class Shares:
    """How many references are resolved at once (in all, of one host, of one tenant), and how many may wait
    (in all, of one host and tenant, of one tenant)."""

    concurrency: int
    per_host: int
    per_tenant: int
    max_waiting: int
    max_waiting_per_host: int
    max_waiting_per_tenant: int


class Turns:
    """Waiting references, by tenant and host, and how many of each are being resolved.

    Tenants take turns, and so do the hosts of each tenant: a tenant with many hosts does not get more turns.
    """

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._waiting: dict[str, dict[str, deque[Reference]]] = {}
        self._count: Counter[str] = Counter()
        self._hosts: Counter[str] = Counter()
        self._tenants: Counter[str] = Counter()

    @property
    def has_capacity(self) -> bool:
        """Whether more may be asked for."""
        return self._count.total() < self._shares.max_waiting

    def enter(self, host: str, reference: Reference) -> bool:
        """Add a reference to the queue; False if too many of its host and tenant, or of its tenant, wait."""
        tenant = reference.tenant
        if self._count[tenant] >= self._shares.max_waiting_per_tenant:
            return False
        waiting = self._waiting.setdefault(tenant, {}).setdefault(host, deque())
        if len(waiting) >= self._shares.max_waiting_per_host:
            return False
        waiting.append(reference)
        self._count[tenant] += 1
        return True

    def take(self) -> tuple[str, Reference] | None:
        """The next reference to resolve; its host and tenant go to the end of the rotation."""
        if self._tenants.total() >= self._shares.concurrency:
            return None
        for tenant, lanes in self._waiting.items():
            if self._tenants[tenant] >= self._shares.per_tenant:
                continue
            host = next((lane for lane in lanes if self._hosts[lane] < self._shares.per_host), None)
            if host is not None:
                return host, self._begin(tenant, host)
        return None

    def note_end(self, host: str, tenant: str) -> None:
        """Note that one reference of this host and this tenant is resolved."""
        self._hosts[host] -= 1
        self._tenants[tenant] -= 1
        self._hosts += Counter()  # forgets what is at zero
        self._tenants += Counter()

    def _begin(self, tenant: str, host: str) -> Reference:
        lanes = self._waiting.pop(tenant)
        waiting = lanes.pop(host)
        reference = waiting.popleft()
        if waiting:
            lanes[host] = waiting
        if lanes:
            self._waiting[tenant] = lanes
        self._count[tenant] -= 1
        self._count += Counter()
        self._hosts[host] += 1
        self._tenants[tenant] += 1
        return reference


Place = tuple[int, int]
"""Partition and offset."""


class Places:
    """By partition, the requests that are not done and the offset after the last one."""

    def __init__(self) -> None:
        self._open: dict[int, set[int]] = {}
        self._end: dict[int, int] = {}

    def enter(self, coordinates: Place) -> None:
        """A record came."""
        partition, offset = coordinates
        self._open.setdefault(partition, set()).add(offset)
        self._end[partition] = max(offset + 1, self._end.get(partition, 0))

    def done(self, places: Iterable[Place]) -> None:
        """Mark these requests as done; those of a forgotten partition are ignored."""
        for partition, offset in places:
            self._open.get(partition, set()).discard(offset)

    def forget(self, partitions: Iterable[int]) -> None:
        """Forget partitions that other workers own now."""
        for partition in partitions:
            self._open.pop(partition, None)
            self._end.pop(partition, None)

    def positions(self) -> dict[int, int]:
        """By partition, the first offset that is not done: the next owner begins there."""
        return {partition: min(self._open[partition], default=end) for partition, end in self._end.items()}


class Work:
    """The queue and the state of its requests. It awaits nothing."""

    def __init__(self, shares: Shares) -> None:
        self._places = Places()
        self._turns = Turns(shares)
        self._requested_at: dict[Reference, list[Place]] = {}

    @property
    def has_capacity(self) -> bool:
        """Whether more may be asked for."""
        return self._turns.has_capacity

    def enter(self, location: Place, reference: Reference) -> bool:
        """Add a request; False if too many of its kind wait: then it is dropped until a decision requests it
        again."""
        self._places.enter(location)
        requested_at = self._requested_at.get(reference)
        if requested_at is not None:
            requested_at.append(location)
        elif self._turns.enter(host_name(reference.uri), reference):
            self._requested_at[reference] = [location]
        else:
            self._places.done([location])
            return False
        return True

    def skip(self, location: Place) -> None:
        """Mark a request for which there is nothing to do."""
        self._places.enter(location)
        self._places.done([location])

    def take(self) -> Reference | None:
        """The next reference to resolve, None while every share is used or nothing waits."""
        taken = self._turns.take()
        return None if taken is None else taken[1]

    def note_end(self, reference: Reference) -> None:
        """Note that an attempt has ended, so another may begin."""
        self._turns.note_end(host_name(reference.uri), reference.tenant)

    def note_recorded(self, reference: Reference) -> None:
        """Note that its record is published."""
        self._places.done(self._requested_at.pop(reference))

    def forget(self, partitions: Iterable[int]) -> None:
        """Forget partitions that other workers own now; attempts in progress still end."""
        self._places.forget(partitions)

    def positions(self) -> dict[int, int]:
        """By partition, the offset at which the next owner begins."""
        return self._places.positions()


def host_name(uri: str) -> str:
    """The host of the reference, whatever the scheme and the port, in lower case; empty if there is none."""
    try:
        return (urlsplit(uri).hostname or "").removesuffix(".")
    except ValueError:
        return ""


REMEMBERED = 8192
AGAIN_AFTER_MS = 30_000
"""Long enough for a slow server's answer, short enough that a lost request is soon repeated."""
NEW_OF_A_TENANT = 1000
"""The most new references of a tenant within that time, more than a resolver can handle. A further one is
requested when it is read again."""


class ReferenceRequests:
    """The recent requests of one partition. Times are those of the decisions and may go back, so a time
    shortly in the future counts as recent too."""

    def __init__(self) -> None:
        self._asked: OrderedDict[bytes, int] = OrderedDict()
        self._new: dict[str, tuple[int, int]] = {}
        """By tenant, the time since which its new references are counted, and their number."""

    def sift(self, records: Iterable[OutRecord]) -> list[OutRecord]:
        """The records without requests that were written recently."""
        return [record for record in records if record.topic != PROVENANCE_WANTED or self._is_new(record)]

    def _is_new(self, record: OutRecord) -> bool:
        at_ms = read_milliseconds(record.body["decided_at"])
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
