"""Memory writes and reviews that the core fails on, or that nobody looks into: rejected, and told why."""

from __future__ import annotations

import json

import pytest

from sluice.core.decide.replay import decide
from sluice.core.foundation.input_record import InputRecord
from sluice.core.foundation.requests import Answer, Request
from sluice.core.state.decision import Shared
from sluice.core.state.statistics import Statistics, Whose
from sluice_topics.catalog import MEMORY_WRITES, REVIEWS, SOURCE_FEEDBACK
from sluice_topics.records import MemoryDecision
from tests.unit.core.memory.write_scene import PARTITION, STRANGER, Place, place, write
from tests.unit.core.scene import START, kinds, only

CHAIN = {"partition": 3, "sequence": 1, "prev_hash": "GENESIS", "event_hash": "sha256:" + "0" * 64}


def make_flawed(request: Request) -> Answer:
    """Stands for a flaw of the core behind an answer."""
    raise ZeroDivisionError(request.port)


def make_failing(agent_id: str = "operator") -> tuple[Place, InputRecord]:
    """A write that asks for something."""
    asking = place(trust={"llmAnalysis": True}, analysis={})
    return asking, asking.input_record(MEMORY_WRITES, write(agent_id=agent_id, content="private"))


def test_a_write_that_the_core_raises_on_is_rejected_and_remembered_nowhere() -> None:
    asking, input_record = make_failing()
    state = asking.session("s-1")
    decision = decide(asking.point, input_record, state, make_flawed, Shared(asking.book, {}))
    assert kinds(decision) == ["MemoryDecision", "DeadLetter"]
    decided = only(decision, "MemoryDecision")
    assert (decided["action"], decided["reason"], decided["write_id"]) == ("reject", "internal_error", "w-1")
    assert (decided["tenant_id"], decided["trustScore"]) == ("acme", None)
    assert "agent/operator@1" in decided["registry_hashes"]
    assert decision.session == ()
    asking.book.apply(decision.book)
    assert asking.book.statistics == {Whose("acme", "operator"): Statistics(1, 0, 0, 1, 0)}
    MemoryDecision.model_validate({**decided, **CHAIN})


def test_the_same_write_is_judged_when_it_comes_again() -> None:
    asking, input_record = make_failing()
    decide(asking.point, input_record, asking.session("s-1"), make_flawed, Shared(asking.book, {}))
    assert asking.decide(content="private")["duplicate_of"] is None


@pytest.mark.parametrize(
    ("topic", "first"),
    [(MEMORY_WRITES, "MemoryDecision"), (REVIEWS, "InputRefused"), (SOURCE_FEEDBACK, "InputRefused")],
)
def test_what_was_in_flight_at_three_crashes_is_answered_unread(topic: str, first: str) -> None:
    decision = Place().point.unread(InputRecord(topic, PARTITION, 7, START, b"s-1", b"\xff no JSON"))
    assert (kinds(decision), decision.session) == ([first, "DeadLetter"], ())


def test_an_unread_write_counts_as_nobodys_and_is_a_whole_record() -> None:
    place = Place()
    decision = place.point.unread(InputRecord(MEMORY_WRITES, PARTITION, 7, START, b"s-1", b"?"))
    decided = only(decision, "MemoryDecision")
    assert (decided["memory_id"], decided["write_id"]) == ("memory:gate.memory.writes.proposed:3:7", None)
    MemoryDecision.model_validate({**decided, **CHAIN})
    place.book.apply(decision.book)
    assert place.book.statistics == {Whose("unregistered", ""): Statistics(1, 0, 0, 1, 0)}


@pytest.mark.parametrize(
    ("changed", "code", "path"),
    [
        ({"content": 7}, "wrong_type", "$.content"),
        ({"source": {"id": "mail", "type": "oracle"}}, None, "$.source.type"),
        ({"surprise": 1}, None, "$.surprise"),
    ],
)
def test_a_write_that_cannot_be_read_is_a_dead_letter_and_counts_nowhere(
    changed: dict[str, object], code: str | None, path: str
) -> None:
    place = Place()
    raw = json.dumps({**write(), **changed}).encode()
    input_record = InputRecord(MEMORY_WRITES, PARTITION, 1, START, b"s-1", raw)
    decision = decide(place.point, input_record, place.session("s-1"), shared=Shared(place.book, {}))
    letter = only(decision, "DeadLetter")
    assert letter["path"] == path
    assert code is None or letter["code"] == code
    assert (decision.session, decision.book) == ((), ())


def test_a_fault_leaves_what_waits_where_it_is() -> None:
    asking, _ = make_failing()
    asking.answers["analysis"] = Answer("unavailable", detail="down")
    held = asking.hold("w-0")
    input_record = asking.input_record(MEMORY_WRITES, write("w-1", derived_from=[STRANGER]))
    asking.book.apply(
        decide(asking.point, input_record, asking.session("s-1"), make_flawed, Shared(asking.book, {})).book
    )
    assert asking.book.find_quarantined(held["memory_id"]) is not None
    assert len(asking.book) == 1
