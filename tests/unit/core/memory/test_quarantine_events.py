"""What ends a memory's waiting but a review: time, and a full quarantine."""

from __future__ import annotations

from typing import Any

from tests.unit.core.memory.write_scene import HOUR, Place, place
from tests.unit.core.scene import START, kinds, only


def names(decision: Any, kind: str) -> list[str]:
    """Write ids of the events of a kind, in order."""
    return [one.body["write_id"] for one in decision.records if one.kind == kind]


def test_a_timer_expires_what_is_due_the_earliest_first_and_names_no_input() -> None:
    timed = Place()
    for number in range(3):
        timed.hold(f"w{number}")
        timed.now += 1000
    assert timed.expire(START + HOUR - 1) is None
    decision = timed.expire(START + HOUR + 1000)
    assert decision is not None
    assert names(decision, "QuarantineExpired") == ["w0", "w1"]
    first = decision.records[0].body
    assert (first["input"], first["decided_at"]) == (None, "2025-11-21T14:00:01.000Z")
    assert (first["entered_at"], first["expires_at"]) == (
        "2025-11-21T13:00:00.000Z",
        "2025-11-21T14:00:00.000Z",
    )
    assert (decision.session, len(timed.book)) == ((), 1)


def test_a_timer_takes_no_more_at_once_than_it_is_told() -> None:
    timed = Place()
    for number in range(5):
        timed.hold(f"w{number}")
    decision = timed.point.expire_held(timed.book, START + HOUR, 3)
    assert decision is not None
    assert names(decision, "QuarantineExpired") == ["w0", "w1", "w2"]


def test_a_write_ends_nobodys_time_since_a_review_may_have_come_before_it() -> None:
    """Each topic of a partition is read by itself: what came earlier may be decided later."""
    late = Place()
    entered = late.hold("old")
    late.now += HOUR
    assert "QuarantineExpired" not in kinds(late.write("new", session_id="s-2"))
    late.now -= 1
    assert "QuarantineApproved" in kinds(late.review(entered, "approve"))


def test_a_full_quarantine_evicts_its_oldest_and_says_for_whom() -> None:
    small = place(limits={"max_quarantine": 2})
    small.hold("w0", session_id="s-0")
    small.hold("w1", session_id="s-1")
    decision = small.write("w2", session_id="s-2", derived_from=["stranger"])
    assert kinds(decision)[:3] == ["MemoryDecision", "QuarantineEvicted", "QuarantineEntered"]
    evicted, entered = only(decision, "QuarantineEvicted"), only(decision, "QuarantineEntered")
    assert (evicted["write_id"], evicted["by"]) == ("w0", entered["memory_id"])
    assert (len(small.book), small.book.find_quarantined(evicted["memory_id"])) == (2, None)


def test_a_smaller_cap_after_a_restart_evicts_down_to_it() -> None:
    large = Place()
    for number in range(4):
        large.hold(f"w{number}")
    small = place(limits={"max_quarantine": 2})
    small.book, small.offset = large.book, large.offset
    decision = small.write("w4", derived_from=["stranger"])
    assert names(decision, "QuarantineEvicted") == ["w0", "w1", "w2"]
    assert len(small.book) == 2


def test_the_state_holds_digest_and_coordinates_and_no_content() -> None:
    held = Place()
    held.hold(content="a secret that must not be kept twice")
    entries = held.book.flush()
    stored = [value for key, value in entries.items() if key.startswith(b"q:")]
    assert len(stored) == 1
    assert b"secret" not in b"".join(value or b"" for value in entries.values())
