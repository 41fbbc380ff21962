"""What a partition has counted for limits above the session: its own part of each agent's or tenant's usage.

An action counts where it is carried out, and where it waits for a person and fits. What it counts is kept
with it as a charge, so that it can be taken back when nobody agrees, and corrected by an outcome as the rows
of its session are (sluice/core/state/reservations.py). Usage is kept in buckets of the window: a bucket
counts as long as any of it is within the window, so that a total is never below what the window holds.

Time is the latest at which the partition has counted anything. Where the broker's clock goes back, it stands
still: else a window that was dropped as past would lie ahead once more, with nothing in it.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from sluice.core.foundation.canonical import MAX_SAFE_INTEGER, wire_int
from sluice.core.registry.limits import MOST_VALUES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

USAGE_PREFIX, CHARGE_PREFIX = b"l:", b"c:"
BUCKETS = 64
"""Parts of a window that are kept of one usage at most."""
MOST_SUBJECTS = 4096
"""Agents and tenants with a usage, over all limits of a partition."""
MOST_CHARGED = 16_384
"""Actions of which a partition keeps what they counted. Of more the oldest goes; what it counted stays."""
UsageKey = tuple[str, str, str]
"""A limit's tenant and id, and the agent; "" for the tenant itself."""


class Meter(NamedTuple):
    """One usage: its key, what is counted (`Limit.measure`), and the window, ms."""

    key: UsageKey
    measure: str
    window_ms: int

    @property
    def width_ms(self) -> int:
        """Of a bucket. The window touches at most `BUCKETS` of them."""
        return -(-self.window_ms // (BUCKETS - 1))

    def is_within(self, bucket: int, at_ms: int) -> bool:
        """Whether any of the bucket is within the window that ends at this moment."""
        return (bucket + 1) * self.width_ms > at_ms - self.window_ms

    def find_end_ms(self, bucket: int) -> int:
        """When nothing of the bucket is within the window any more."""
        return (bucket + 1) * self.width_ms + self.window_ms


class Charge(NamedTuple):
    """What an action counts on one meter. `amount`: what it counts now; `full`: what it counts once it is
    carried out; `values`: of a meter of distinct values the fingerprints that are counted; `later`: those
    that are once it is carried out."""

    meter: Meter
    amount: int
    full: int
    values: tuple[str, ...] = ()
    later: tuple[str, ...] = ()

    @property
    def is_rows(self) -> bool:
        """Whether an outcome's rows correct it."""
        return self.meter.measure == "sum rows"


class LimitsCharged(NamedTuple):
    """The action at `offset` counts this, in place of what it counted before. `at_ms`: when; `until_ms`: then
    no outcome corrects it any more; `carried`: it is carried out, so that no end of its escalation takes it
    back."""

    offset: int
    at_ms: int
    until_ms: int
    carried: bool
    charges: tuple[Charge, ...]


class LimitsCorrected(NamedTuple):
    """An outcome settled the action at `offset`, for which its session now counts `rows`. `final`: a signed
    outcome says so, else the action counts no less than before. `happened`: it was carried out though its
    session did not count it. `by`: the session counts several actions under this id, with so many rows more;
    None: this one alone."""

    offset: int
    rows: int
    final: bool = False
    happened: bool = False
    by: int | None = None

    def correct(self, amount: int) -> int:
        """The rows that count in place of this amount."""
        if self.final:
            return self.rows
        return max(amount, self.rows) if self.by is None else max(0, amount + self.by)


class LimitSeen(NamedTuple):
    """What an action finds of a limit. `used`: by others before, None: there is no room to count; `share`:
    what the partition may allow; `new`: how many of its values are not counted yet, None: the limit counts
    none; `values`: the fingerprints of all of them, which a verdict does not say."""

    used: int | None
    share: int
    new: int | None = None
    values: tuple[str, ...] = ()

    def make_fields(self) -> dict[str, int | None]:
        """The fields in a verdict."""
        fields = {"used": self.used, "share": self.share}
        return fields if self.new is None else {**fields, "new": self.new}


class _Usage:
    """`buckets` by their number; `values`: by fingerprint the last bucket that has it; `noted_ms`: the end
    that was noted last."""

    __slots__ = ("buckets", "meter", "noted_ms", "values")

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.buckets: dict[int, int] = {}
        self.values: dict[str, int] = {}
        self.noted_ms = 0

    def encode(self) -> bytes:
        """The form in the table."""
        buckets = [(bucket, wire_int(amount)) for bucket, amount in self.buckets.items()]
        values = [*self.values.items()]
        return orjson.dumps([self.meter, buckets, values], default=list)

    @classmethod
    def decode(cls, stored: bytes) -> _Usage:
        """What `encode` wrote."""
        (key, measure, window_ms), buckets, values = orjson.loads(stored)
        tenant, limit, subject = key
        usage = cls(Meter((tenant, limit, subject), measure, window_ms))
        usage.buckets = {bucket: int(amount) for bucket, amount in buckets}
        usage.values = dict(values)
        return usage

    def count(self, at_ms: int) -> int:
        """What is used within the window."""
        within = self.meter.is_within
        if self.values:
            return sum(within(bucket, at_ms) for bucket in self.values.values())
        return sum(amount for bucket, amount in self.buckets.items() if within(bucket, at_ms))

    def count_new(self, values: Iterable[str], at_ms: int) -> int:
        """How many of these values are not counted within the window."""
        last_used, within = self.values, self.meter.is_within
        return sum(value not in last_used or not within(last_used[value], at_ms) for value in set(values))

    def add(self, charge: Charge, at_ms: int) -> None:
        bucket = at_ms // self.meter.width_ms
        for value in charge.values:
            if value in self.values or len(self.values) < MOST_VALUES:
                self.values[value] = max(bucket, self.values.get(value, bucket))
        if charge.amount and not charge.values:
            self.buckets[bucket] = self.buckets.get(bucket, 0) + charge.amount

    def take_back(self, amount: int, at_ms: int) -> None:
        """Count less. Of distinct values nothing is taken back: another action may have used them too."""
        bucket = at_ms // self.meter.width_ms
        left = self.buckets.get(bucket, 0) - amount
        if left > 0:
            self.buckets[bucket] = left
        else:
            self.buckets.pop(bucket, None)

    def drop_past(self, at_ms: int) -> None:
        within = self.meter.is_within
        self.buckets = {bucket: amount for bucket, amount in self.buckets.items() if within(bucket, at_ms)}
        self.values = {value: bucket for value, bucket in self.values.items() if within(bucket, at_ms)}

    def move_to(self, meter: Meter) -> None:
        """The window has another length now: each bucket counts to its end."""
        width, old = meter.width_ms, self.meter.width_ms
        buckets: dict[int, int] = {}
        for bucket, amount in self.buckets.items():
            merged = ((bucket + 1) * old - 1) // width
            buckets[merged] = buckets.get(merged, 0) + amount
        self.buckets = buckets
        self.values = {value: ((index + 1) * old - 1) // width for value, index in self.values.items()}
        self.meter = meter

    @property
    def end_ms(self) -> int:
        """When nothing of it counts any more."""
        last = max([*self.buckets, *self.values.values()], default=-1)
        return 0 if last < 0 else self.meter.find_end_ms(last)


class LimitUsage:
    """All of a partition's usage. Only events change it; `changed`: the table's new entries."""

    def __init__(self, table: Mapping[bytes, bytes]) -> None:
        """`table`: the partition's recovered state."""
        self.changed: dict[bytes, bytes | None] = {}
        read = (_Usage.decode(value) for key, value in table.items() if key.startswith(USAGE_PREFIX))
        self._usage = {usage.meter.key: usage for usage in read}
        charged = (_decode_charged(value) for key, value in table.items() if key.startswith(CHARGE_PREFIX))
        self._charged = {charge.offset: charge for charge in sorted(charged)}
        self._latest_ms = max((limits_charged.at_ms for limits_charged in self._charged.values()), default=0)
        self._ends = [(usage.end_ms, key) for key, usage in self._usage.items()]
        heapq.heapify(self._ends)

    def __len__(self) -> int:
        """Actions of which it is kept what they counted."""
        return len(self._charged)

    @property
    def subjects(self) -> int:
        """How many usages there are."""
        return len(self._usage)

    def see(
        self, meter: Meter, share: int, at_ms: int, values: Iterable[str] | None, own: int | None
    ) -> LimitSeen:
        """What is used on a meter at this moment, without what the action at the offset `own` counts itself.
        `values`: fingerprints of those of the action, None where the limit counts no values."""
        at_ms = max(at_ms, self._latest_ms)
        usage = self._usage.get(meter.key)
        if usage is None or usage.meter.measure != meter.measure:
            full = usage is None and self._count_subjects(at_ms) >= MOST_SUBJECTS
            return LimitSeen(None if full else 0, share, None if values is None else len(set(values)))
        if usage.meter != meter:
            moved = _Usage(usage.meter)
            moved.buckets, moved.values = usage.buckets, usage.values
            moved.move_to(meter)
            usage = moved
        if values is not None:
            return LimitSeen(usage.count(at_ms), share, usage.count_new(values, at_ms))
        used = max(0, usage.count(at_ms) - self._count_own(meter, own, at_ms))
        return LimitSeen(min(used, MAX_SAFE_INTEGER), share)

    def _count_subjects(self, at_ms: int) -> int:
        if len(self._usage) < MOST_SUBJECTS:
            return len(self._usage)
        return sum(usage.end_ms > at_ms for usage in self._usage.values())

    def _count_own(self, meter: Meter, own: int | None, at_ms: int) -> int:
        charged = None if own is None else self._charged.get(own)
        if charged is None or not meter.is_within(charged.at_ms // meter.width_ms, at_ms):
            return 0
        return sum(charge.amount for charge in charged.charges if charge.meter[:2] == meter[:2])

    def apply(self, change: LimitsCharged | LimitsCorrected) -> None:
        """Take over a decision's change."""
        if isinstance(change, LimitsCharged):
            self._charge(change)
        else:
            self._correct(change)

    def _charge(self, charged: LimitsCharged) -> None:
        """Count an action, in place of what it counted before."""
        late_ms = self._latest_ms - charged.at_ms
        if late_ms > 0:
            until_ms = charged.until_ms + late_ms
            charged = charged._replace(at_ms=self._latest_ms, until_ms=until_ms)
        self._latest_ms = charged.at_ms
        before = self._charged.pop(charged.offset, None)
        if before is not None:
            self._take_back(before)
        self._drop_past(charged.at_ms)
        for charge in charged.charges:
            if charge.amount or charge.values:
                self._add(charge, charged.at_ms)
        self._keep(charged)
        while len(self._charged) > MOST_CHARGED:
            self._forget(next(iter(self._charged)))

    def release(self, offset: int) -> None:
        """An escalation ended without its action: it counts nothing, unless it is carried out."""
        charged = self._charged.get(offset)
        if charged is None or charged.carried:
            return
        self._take_back(charged)
        charges = (
            charge._replace(amount=0, values=(), later=charge.values or charge.later)
            for charge in charged.charges
        )
        self._keep(charged._replace(charges=tuple(charges)))

    def _correct(self, corrected: LimitsCorrected) -> None:
        """Take an outcome's word for what an action did."""
        charged = self._charged.get(corrected.offset)
        if charged is None:
            return
        charges = []
        for charge in charged.charges:
            after = charge
            if charge.is_rows:
                after = charge._replace(amount=corrected.correct(charge.amount))
            elif corrected.happened:
                after = charge._replace(amount=charge.full, values=charge.values or charge.later, later=())
            if after != charge:
                self._replace(charge, after, charged.at_ms)
            charges.append(after)
        carried = charged.carried or corrected.happened
        self._keep(charged._replace(charges=tuple(charges), carried=carried))

    def _replace(self, before: Charge, after: Charge, at_ms: int) -> None:
        """Count the same action otherwise, under the window that its usage has by now, and nothing where that
        counts something else."""
        usage = self._usage.get(before.meter.key)
        if usage is None:
            self._add(after, at_ms)
        elif usage.meter.measure == before.meter.measure:
            usage.take_back(before.amount, at_ms)
            usage.add(after, at_ms)
            self._write(usage)

    def _add(self, charge: Charge, at_ms: int) -> None:
        meter = charge.meter
        usage = self._usage.get(meter.key)
        if usage is None or usage.meter.measure != meter.measure:
            if usage is None and len(self._usage) >= MOST_SUBJECTS:
                return
            usage = self._usage[meter.key] = _Usage(meter)
        elif usage.meter != meter:
            usage.move_to(meter)
        usage.drop_past(at_ms)
        usage.add(charge, at_ms)
        self._write(usage)

    def _take_back(self, charged: LimitsCharged) -> None:
        for charge in charged.charges:
            usage = self._usage.get(charge.meter.key)
            if charge.amount and usage is not None and usage.meter.measure == charge.meter.measure:
                usage.take_back(charge.amount, charged.at_ms)
                self._write(usage)

    def _write(self, usage: _Usage) -> None:
        key = usage.meter.key
        self.changed[USAGE_PREFIX + orjson.dumps(key)] = usage.encode()
        if usage.end_ms != usage.noted_ms:
            usage.noted_ms = usage.end_ms
            heapq.heappush(self._ends, (usage.end_ms, key))

    def _keep(self, charged: LimitsCharged) -> None:
        self._charged[charged.offset] = charged
        charges = [
            (charge.meter, wire_int(charge.amount), wire_int(charge.full), charge.values, charge.later)
            for charge in charged.charges
        ]
        stored = [*charged[:4], charges]
        self.changed[_name_charge(charged.offset)] = orjson.dumps(stored, default=list)

    def _forget(self, offset: int) -> None:
        del self._charged[offset]
        self.changed[_name_charge(offset)] = None

    def _drop_past(self, at_ms: int) -> None:
        """Let go what no longer counts, and what no outcome can correct any more."""
        while self._ends and self._ends[0][0] <= at_ms:
            _, key = heapq.heappop(self._ends)
            usage = self._usage.get(key)
            if usage is not None and usage.end_ms <= at_ms:
                del self._usage[key]
                self.changed[USAGE_PREFIX + orjson.dumps(key)] = None
        while self._charged:
            offset, oldest = next(iter(self._charged.items()))
            if oldest.until_ms > at_ms:
                break
            self._forget(offset)


def _name_charge(offset: int) -> bytes:
    return b"%b%d" % (CHARGE_PREFIX, offset)


def _decode_charged(stored: bytes) -> LimitsCharged:
    offset, at_ms, until_ms, carried, charges = orjson.loads(stored)
    return LimitsCharged(offset, at_ms, until_ms, carried, tuple(map(_decode_charge, charges)))


def _decode_charge(stored: list[Any]) -> Charge:
    (key, measure, window_ms), amount, full, *values = stored
    meter = Meter(tuple(key), measure, window_ms)
    return Charge(meter, int(amount), int(full), *map(tuple, values))
