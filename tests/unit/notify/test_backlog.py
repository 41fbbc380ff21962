"""Every record is delivered once in the order of its subject, and a position never passes one that is not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluice.notify.backlog import AssignedPart, CommittedEvent, DeliveryBacklog

PART = ("gate.escalations", 3)
OPENED, EXPIRED = "sluice/escalation_opened/v1", "sluice/escalation_expired/v1"


def record(offset: int, subject: str, schema: str = OPENED) -> CommittedEvent:
    return CommittedEvent(PART, offset, 0, {"schema": schema, "escalation_id": subject})


def backlog(position: int = 0, old_until: int = 0, most: int = 10) -> DeliveryBacklog:
    found = DeliveryBacklog(most, lambda pending: pending.subject[:1])
    found.assign(AssignedPart(PART, position, old_until))
    return found


def take(found: DeliveryBacklog, *records: CommittedEvent) -> DeliveryBacklog:
    for one in records:
        found.take(one, one.fields["escalation_id"])
    found.note_position(PART, records[-1].offset + 1)
    return found


Fault = tuple[int, str | None]
"""How many records are delivered before it, and its scope."""
FAULTS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([None, "", "a", "b"])), max_size=8)


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=12), FAULTS)
def test_all_is_delivered_in_order_and_nothing_is_committed_before_it(
    subjects: list[str], faults: list[Fault]
) -> None:
    found = take(backlog(), *(record(at, name) for at, name in enumerate(subjects)))
    delivered: dict[str, list[int]] = {name: [] for name in subjects}
    now = 0.0
    while sum(map(len, delivered.values())) < len(subjects):
        now += 1
        pending = found.find_due(now)
        if pending is None:
            continue
        count, scope = faults.pop() if faults else (len(pending.records), None)
        delivered[pending.subject] += [one.offset for one in pending.records[:count]]
        is_whole = count >= len(pending.records)
        found.note_delivered(pending, count)
        if not is_whole:
            found.postpone(pending, now + 2, scope)
        done = {offset for offsets in delivered.values() for offset in offsets}
        assert found.list_committable()[PART] == min(set(range(len(subjects) + 1)) - done)
    assert all(offsets == sorted(offsets) for offsets in delivered.values())
    assert found.list_committable() == {PART: len(subjects)}


def test_what_shares_a_scope_waits_with_it_and_others_do_not() -> None:
    found = take(backlog(), record(0, "a1"), record(1, "a2"), record(2, "b1"))
    first = found.find_due(0.0)
    assert first is not None
    found.postpone(first, 5.0, "a")
    second = found.find_due(0.0)
    assert second is not None
    assert second.subject == "b1"
    found.postpone(second, 5.0, "")
    assert found.find_due(4.9) is None
    assert found.find_due(5.1) is not None


def test_a_new_group_tells_only_what_still_waits_of_what_was_there_before() -> None:
    found = take(backlog(old_until=3), record(0, "over"), record(1, "waits"))
    assert found.find_due(0.0) is None
    assert found.list_committable() == {}
    take(found, record(2, "over", EXPIRED), record(3, "new"))
    subjects = []
    while (pending := found.find_due(0.0)) is not None:
        subjects.append(pending.subject)
        found.note_delivered(pending, len(pending.records))
    assert subjects == ["waits", "new"]


def test_it_says_when_it_is_full_and_forgets_what_is_of_others() -> None:
    found = take(backlog(most=2), record(0, "a"), record(1, "b"))
    assert found.is_full
    found.revoke([PART])
    assert not found.is_full
    assert found.find_due(0.0) is None
    assert found.list_committable() == {}
