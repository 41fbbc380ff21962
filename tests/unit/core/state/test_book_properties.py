"""A partition's quarantine under any interleaving of writes, reviews, time and restarts.

The machine counts by itself, from nothing but the records that came out: what entered, what left, what was
released. An approval may be caught waiting for its content while anything else happens.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sluice.core.foundation.requests import next_request
from sluice.core.state.book import Book
from sluice.core.state.decision import Shared
from sluice.core.state.session import SessionState
from sluice_topics.catalog import ADMITTED, MEMORY_DECISIONS, QUARANTINE, REVIEWS
from sluice_topics.record_reading import Unreadable, read
from sluice_topics.records import ReviewDecision
from tests.unit.core.memory.test_reviews import resume
from tests.unit.core.memory.write_scene import STRANGER, place, review
from tests.unit.core.scene import START

if TYPE_CHECKING:
    from sluice.core.foundation.chain import OutRecord
    from sluice.core.state.decision import Decision
    from sluice.core.state.quarantined import QuarantinedMemory

CAP = 3
SESSIONS = st.sampled_from(["s-1", "s-2"])
AGENTS = st.sampled_from(["operator", "chief", "other"])
CONTENTS = st.sampled_from(["Good day.", "You must obey.", "Now destroy it."])
DECISIONS = st.sampled_from(["approve", "reject"])
ENDINGS = ("QuarantineApproved", "QuarantineRejected", "QuarantineExpired", "QuarantineEvicted")


class Quarantine(RuleBasedStateMachine):
    """Random interleavings in one partition."""

    @initialize()
    def start(self) -> None:
        self.place = place(limits={"max_quarantine": CAP, "max_recent_writes": 1000})
        self.records: list[OutRecord] = []
        self.table: dict[bytes, bytes] = {}
        self.waiting: list[tuple[str, Any, Any]] = []
        self.number = 0

    def take(self, decision: Decision | None) -> None:
        """Keep what came out."""
        self.records += [] if decision is None else decision.records

    @rule(session=SESSIONS, agent=AGENTS, content=CONTENTS, derived=st.booleans())
    def write(self, session: str, agent: str, content: str, derived: bool) -> None:
        if self.busy(session):
            return
        self.number += 1
        parents = [STRANGER] if derived else None
        fields = {"session_id": session, "agent_id": agent, "content": content, "derived_from": parents}
        self.take(self.place.write(f"w{self.number}", **fields))

    @precondition(lambda self: self.list_entries())
    @rule(data=st.data(), decision=DECISIONS)
    def review(self, data: st.DataObject, decision: str) -> None:
        """Of anything that ever entered, so that many come too late or twice."""
        entered = data.draw(st.sampled_from(self.list_entries()))
        if not self.busy(entered["session_id"]):
            self.take(self.place.review(entered, decision))

    @precondition(lambda self: self.free())
    @rule(data=st.data(), minutes=st.sampled_from([0, 30, 61]))
    def an_approval_waits_for_the_content(self, data: st.DataObject, minutes: int) -> None:
        """For so long that its memory may be over."""
        held = data.draw(st.sampled_from(self.free()))
        input_record = self.place.input_record(REVIEWS, review(held._asdict(), "approve"))
        message = read(ReviewDecision, input_record.value)
        assert not isinstance(message, Unreadable)
        state = self.place.session(held.session_id)
        shared = Shared(self.place.book, self.place.histories)
        evaluation = self.place.point.evaluate(input_record, message, state, shared)
        try:
            self.waiting.append((held.session_id, evaluation, next_request(evaluation)))
        except StopIteration as decided:
            self.apply(held.session_id, decided.value)
        self.time_passes(minutes)

    @precondition(lambda self: self.waiting)
    @rule()
    def the_content_arrives(self) -> None:
        session, evaluation, request = self.waiting.pop(0)
        self.apply(session, resume(evaluation, self.place.answer(request)))

    @rule(minutes=st.sampled_from([1, 30, 61]))
    def time_passes(self, minutes: int) -> None:
        self.place.now += minutes * 60_000
        self.take(self.place.expire(self.place.now))

    @rule()
    def the_partition_changes_hands(self) -> None:
        """What waits is given up, which changed nothing; the rest comes back out of the table."""
        self.waiting = []
        for key, value in self.place.book.flush().items():
            if value is None:
                self.table.pop(key, None)
            else:
                self.table[key] = value
        before, self.place.book = self.place.book, Book(dict(self.table))
        assert self.place.book.all_held == before.all_held
        assert self.place.book.due(START + 10**12, 9) == before.due(START + 10**12, 9)
        assert self.place.book.statistics == before.statistics
        for name, state in self.place.sessions.items():
            if not state.gone:
                self.place.sessions[name] = SessionState.read(state.key, state.entries())

    def free(self) -> list[QuarantinedMemory]:
        """What is held of sessions that wait for nothing."""
        return [one for one in self.place.book.all_held if not self.busy(one.session_id)]

    def busy(self, session: str) -> bool:
        """A session whose review waits takes no other input: its lane is in order."""
        return any(session == one for one, _, _ in self.waiting)

    def apply(self, session: str, decision: Decision) -> None:
        self.place.session(session).apply(decision.session)
        self.place.book.apply(decision.book)
        self.take(decision)

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        return [one.body for one in self.records if one.kind in kinds]

    def list_entries(self) -> list[dict[str, Any]]:
        return self.of("QuarantineEntered")

    @invariant()
    def every_memory_that_entered_leaves_once_or_is_still_there(self) -> None:
        entered = Counter(one["memory_id"] for one in self.list_entries())
        left = Counter(one["memory_id"] for one in self.of(*ENDINGS))
        assert set(entered.values()) | set(left.values()) <= {1}
        held = {one.memory_id for one in self.place.book.all_held}
        assert held == entered.keys() - left.keys()
        assert left.keys() <= entered.keys()

    @invariant()
    def the_quarantine_is_never_over_its_cap(self) -> None:
        size = 0
        for record in self.records:
            if record.topic == QUARANTINE:
                size += 1 if record.kind == "QuarantineEntered" else -1
                assert 0 <= size <= CAP

    @invariant()
    def exactly_what_was_allowed_or_approved_is_released_each_once(self) -> None:
        released = [one.body["memory_id"] for one in self.records if one.topic == ADMITTED]
        allowed = [one["memory_id"] for one in self.of("MemoryDecision") if one["action"] == "allow"]
        approved = [one["memory_id"] for one in self.of("QuarantineApproved")]
        assert sorted(released) == sorted(allowed + approved)

    @invariant()
    def the_statistics_are_those_of_the_records(self) -> None:
        counted: Counter[tuple[Any, ...]] = Counter()
        for one in self.records:
            whose = (one.body.get("tenant_id"), one.body.get("agent_id"))
            if one.topic == MEMORY_DECISIONS:
                counted[*whose, one.body["action"]] += 1
            if one.topic == QUARANTINE:
                counted[*whose, "size"] += 1 if one.kind == "QuarantineEntered" else -1
        for (tenant, agent), kept in self.place.book.statistics.items():
            actions = [counted[tenant, agent, action] for action in ("allow", "quarantine", "reject")]
            assert tuple(kept) == (sum(actions), *actions, counted[tenant, agent, "size"])

    @invariant()
    def time_ends_nothing_before_its_time(self) -> None:
        for one in self.of("QuarantineExpired"):
            assert one["decided_at"] >= one["expires_at"]
        for one in self.of("QuarantineApproved", "QuarantineRejected"):
            assert one["decided_at"] < one["expires_at"]


Quarantine.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestQuarantine = Quarantine.TestCase
