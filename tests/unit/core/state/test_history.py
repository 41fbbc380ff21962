"""What is known of a source across sessions: told by whoever learns it, folded by one owner, seen by all."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from sluice.core.decide.replay import decide
from sluice.core.foundation.input_record import InputRecord
from sluice.core.state.decision import Shared
from sluice.core.state.history import UNSEEN, History, SourceName
from sluice.core.state.session import SessionState
from sluice_topics.catalog import SOURCE_FEEDBACK
from tests.unit.core.memory.write_scene import Place
from tests.unit.core.scene import START, kinds, only

MAIL = SourceName("acme", "mail")
WHOLE = st.integers(0, 2**40)


def feedback(verdict: str, source_type: str = "user", name: SourceName = MAIL) -> InputRecord:
    """As it arrives at the owner."""
    body = {
        "schema": "sluice/source_feedback/v1",
        "tenant_id": name.tenant,
        "source_id": name.source,
        "type": source_type,
        "verdict": verdict,
        "memory_id": "memory:gate.memory.writes.proposed:3:1",
        "decided_at": "2025-11-21T13:00:00.000Z",
    }
    return InputRecord(SOURCE_FEEDBACK, 0, 1, START, name.key().encode(), json.dumps(body).encode())


def fold(place: Place, *input_records: InputRecord) -> list[dict[str, object]]:
    """The histories that the owner publishes."""
    published = []
    for input_record in input_records:
        decision = decide(place.point, input_record, SessionState(b"s:none"), shared=Shared(place.book, {}))
        place.book.apply(decision.book)
        published += [one.body for one in decision.records if one.kind == "SourceHistory"]
    return published


def test_a_source_is_told_of_when_a_session_first_sees_it_and_not_again() -> None:
    place = Place()
    assert only(place.write("w-1"), "SourceFeedback")["verdict"] == "seen"
    assert "SourceFeedback" not in kinds(place.write("w-2"))
    place.histories[MAIL] = History("user", 0, 0, 1)
    assert "SourceFeedback" not in kinds(place.write("w-3", session_id="s-2"))


def test_nobody_is_told_of_the_sources_of_agents_that_nobody_registered() -> None:
    assert kinds(Place().write(agent_id="nobody")) == ["MemoryDecision"]


def test_feedback_lies_under_the_key_of_its_source_and_tenant() -> None:
    (told,) = [one for one in Place().write().records if one.kind == "SourceFeedback"]
    assert told.subject == '["acme","mail"]'


def test_the_owner_counts_each_review_once_and_numbers_what_it_publishes() -> None:
    published = fold(
        Place(), feedback("seen"), feedback("positive"), feedback("negative"), feedback("positive")
    )
    assert [(one["positive"], one["negative"], one["revision"]) for one in published] == [
        (0, 0, 1),
        (1, 0, 2),
        (1, 1, 3),
        (2, 1, 4),
    ]


def test_the_type_is_the_one_that_was_seen_first() -> None:
    published = fold(Place(), feedback("seen", "external"), feedback("seen", "system"), feedback("positive"))
    assert [one["type"] for one in published] == ["external", "external"]


def test_two_tenants_sources_of_one_id_are_two() -> None:
    place = Place()
    fold(place, feedback("positive"), feedback("negative", name=SourceName("globex", "mail")))
    assert place.book.history(MAIL) == History("user", 1, 0, 1)
    assert place.book.history(SourceName("globex", "mail")) == History("user", 0, 1, 1)
    assert SourceName("a", 'b","c').key() != SourceName('a","b', "c").key()


def test_a_decision_rests_on_the_history_and_records_its_revision() -> None:
    place = Place(histories={MAIL: History("user", 0, 10, 11)})
    decided = place.decide()
    # h = 2/14, w = 10/20: 0.142857 x 0.5 + 0.7 x 0.5
    assert decided["trustScore"]["dimensions"]["sourceReliability"] == 0.421429
    assert decided["seen"]["source"] == {
        "type": "user",
        "positive": 0,
        "negative": 10,
        "revision": 11,
        "session_type": None,
        "last_at": None,
    }


def test_a_source_that_was_seen_as_another_type_elsewhere_is_judged_as_that() -> None:
    place = Place(histories={MAIL: History("external", 0, 0, 1)})
    decided = place.decide(source={"id": "mail", "type": "system"})
    assert decided["trustScore"]["dimensions"]["sourceReliability"] == 0.2


def test_a_session_holds_a_source_to_its_type_before_the_others_have_heard_of_it() -> None:
    place = Place()
    place.write("w-1", source={"id": "mail", "type": "external"})
    place.now += 1000
    decided = place.decide("w-2", source={"id": "mail", "type": "system"})
    assert decided["trustScore"]["dimensions"]["sourceReliability"] == 0.2
    assert decided["seen"]["source"]["session_type"] == "external"


@given(st.sampled_from(["system", "user", None]), WHOLE, WHOLE, WHOLE)
def test_a_history_survives_its_bytes(kind: str | None, positive: int, negative: int, revision: int) -> None:
    history = History(kind, positive, negative, revision)
    assert History.decode(history.encode()) == history
    assert History.decode(None) == UNSEEN
