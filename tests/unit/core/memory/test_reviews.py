"""Reviews of held memories: who may say what, of which content, until when, and how often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.decide.replay import decide
from sluice.core.foundation.input_record import InputRecord
from sluice.core.foundation.requests import Answer
from sluice.core.registry.keys import is_signed_by
from sluice.core.state.decision import Shared
from sluice_topics.audience import UNNAMED
from sluice_topics.catalog import REVIEWS
from sluice_topics.record_reading import Unreadable, read
from sluice_topics.records import ReviewDecision
from tests.unit.core.memory.write_scene import CAROL, HOUR, PARTITION, STRANGER, Place, place, review
from tests.unit.core.scene import START, entry, kinds, only

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from sluice.core.foundation.requests import Request
    from sluice.core.state.decision import Decision

OTHER_DIGEST = "sha256:" + "1" * 64


def test_an_approval_releases_the_content_with_its_own_record() -> None:
    place = Place()
    entered = place.hold()
    place.now += 1000
    approval = place.review(entered, "approve")
    assert kinds(approval) == ["QuarantineApproved", "AdmittedMemory", "SourceFeedback"]
    approved, released = only(approval, "QuarantineApproved"), only(approval, "AdmittedMemory")
    assert (approved["approver_id"], approved["approver_entry"]) == ("carol", "approver/carol@1")
    assert (approved["justification"], approved["decided_at"]) == (
        "read and compared",
        "2025-11-21T13:00:01.000Z",
    )
    assert (released["how"], released["approver_id"]) == ("approved", "carol")
    assert released["content"] == "The customer prefers e-mail (w-1)."
    assert released["input"]["offset"] == 1
    assert only(approval, "SourceFeedback")["verdict"] == "positive"
    assert len(place.book) == 0


def test_a_rejection_releases_nothing_and_asks_for_no_content() -> None:
    place = Place()
    entered = place.hold()
    rejection = place.review(entered, "reject")
    assert kinds(rejection) == ["QuarantineRejected", "SourceFeedback"]
    assert only(rejection, "SourceFeedback")["verdict"] == "negative"
    assert (place.asked, len(place.book)) == ([], 0)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"subject_id": "memory:gate.memory.writes.proposed:3:999"}, "unknown_subject"),
        ({"session_id": "s-2"}, "unknown_subject"),
        ({"decision": "deny"}, "wrong_decision"),
        ({"digest": OTHER_DIGEST}, "wrong_digest"),
        ({"approver_id": "nobody"}, "not_a_reviewer"),
        ({"approver_id": "no-reviewer"}, "not_a_reviewer"),
        ({"approver_id": "gone"}, "not_a_reviewer"),
        ({"approver_id": "over"}, "not_a_reviewer"),
        ({"approver_id": "globex-only"}, "not_a_reviewer"),
        ({"approver_id": "operator"}, "own_memory"),
    ],
)
@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_review_that_does_not_count_is_refused_with_its_reason(
    decision: str, changed: dict[str, str], reason: str
) -> None:
    place = Place()
    entered = place.hold()
    refusal = place.review(entered, **{"decision": decision, **changed})
    assert kinds(refusal) == ["InputRefused"]
    assert only(refusal, "InputRefused")["reason"] == reason
    assert (len(place.book), place.asked) == (1, [])


def test_the_owner_of_an_agent_does_not_review_what_it_wrote() -> None:
    place = Place()
    entered = place.hold(agent_id="owned")
    refusal = only(place.review(entered, "approve", approver_id="boss"), "InputRefused")
    assert refusal["reason"] == "own_memory"
    assert "QuarantineApproved" in kinds(place.review(entered, "approve"))


@pytest.mark.parametrize("name", ["decision", "justification"])
def test_what_was_altered_after_it_was_signed_does_not_count(name: str) -> None:
    place = Place()
    altered = {**review(place.hold(), "reject"), name: "approve"}
    assert only(place.take(REVIEWS, altered), "InputRefused")["reason"] == "wrong_signature"
    garbled = {**altered, "signature": "no base64!"}
    assert only(place.take(REVIEWS, garbled), "InputRefused")["reason"] == "wrong_signature"


def test_a_review_counts_once() -> None:
    place = Place()
    entered = place.hold()
    place.review(entered, "approve")
    for again in ("approve", "reject"):
        assert only(place.review(entered, again), "InputRefused")["reason"] == "unknown_subject"


def test_a_reviewer_of_some_tenants_reviews_those() -> None:
    place = Place()
    entered = place.hold(agent_id="other")
    assert "QuarantineApproved" in kinds(place.review(entered, "approve", approver_id="globex-only"))


@pytest.mark.parametrize(("late_ms", "ends"), [(-1, "QuarantineApproved"), (0, "QuarantineExpired")])
def test_a_review_at_the_hour_finds_the_memory_expired_timer_or_not(late_ms: int, ends: str) -> None:
    place = Place()
    entered = place.hold()
    place.now = START + HOUR + late_ms
    decision = place.review(entered, "approve")
    assert (kinds(decision)[0], len(place.book)) == (ends, 0)
    assert ("AdmittedMemory" in kinds(decision)) == (late_ms < 0)
    if late_ms == 0:
        assert only(decision, "InputRefused")["reason"] == "expired"


@pytest.mark.parametrize(
    "answer",
    [
        Answer("unavailable", detail="gone"),
        Answer("overrun", detail="over 10 s"),
        Answer("answered", "no bytes"),
        Answer("answered", b"{"),
    ],
)
def test_content_that_cannot_be_read_again_leaves_the_memory_where_it_is(answer: Answer) -> None:
    place = Place(answers={"held_input": answer})
    entered = place.hold()
    assert only(place.review(entered, "approve"), "InputRefused")["reason"] == "content_unavailable"
    assert len(place.book) == 1


def test_other_content_at_the_same_place_is_not_released() -> None:
    place = Place()
    entered = place.hold()
    place.inputs[1] = place.inputs[1].replace(b"prefers", b"detests")
    assert only(place.review(entered, "approve"), "InputRefused")["reason"] == "content_unavailable"


def make_waiting_approval(place: Place) -> tuple[dict[str, Any], Generator[Request, Answer, Decision]]:
    """A held memory, and its approval at the point where it asks for the content."""
    entered = place.hold()
    input_record = place.input_record(REVIEWS, review(entered, "approve"))
    message = read(ReviewDecision, input_record.value)
    assert not isinstance(message, Unreadable)
    shared = Shared(place.book, place.histories)
    return entered, place.point.evaluate(input_record, message, place.session("s-1"), shared)


def _expire(place: Place) -> str:
    decision = place.expire(START + HOUR)
    assert decision is not None
    return kinds(decision)[0]


def _reject(place: Place) -> str:
    (held,) = place.book.select_crowding(1)
    entered = {name: getattr(held, name) for name in ("memory_id", "session_id", "content_digest")}
    return kinds(place.review(entered, "reject"))[0]


@pytest.mark.parametrize(
    ("meanwhile", "ends"), [(_expire, "QuarantineExpired"), (_reject, "QuarantineRejected")]
)
def test_an_approval_that_waits_for_the_content_loses_to_what_happens_meanwhile(
    meanwhile: Callable[[Place], str], ends: str
) -> None:
    place = Place()
    _, approval = make_waiting_approval(place)
    request = next(approval)
    assert meanwhile(place) == ends
    decision = resume(approval, place.answer(request))
    assert kinds(decision) == ["InputRefused"]
    assert only(decision, "InputRefused")["reason"] == "unknown_subject"


def resume(evaluation: Generator[Request, Answer, Decision], answer: Answer) -> Decision:
    """The end of an evaluation that asks for nothing more."""
    try:
        evaluation.send(answer)
    except StopIteration as decided:
        decision: Decision = decided.value
        return decision
    raise AssertionError("it asks again")


def test_a_memory_may_be_reviewed_after_its_session_is_gone() -> None:
    """A session folds away with time; what its agent wanted to keep goes on waiting."""
    place = Place()
    entered = place.hold()
    del place.sessions["s-1"]
    assert "QuarantineApproved" in kinds(place.review(entered, "approve"))
    assert place.session("s-1").gone


def test_the_reviewers_signature_is_over_the_review_without_it() -> None:
    signed = ReviewDecision.model_validate(review(Place().hold(), "approve"))
    assert is_signed_by(CAROL.public_key(), signed, UNNAMED)
    assert not is_signed_by(CAROL.public_key(), signed.model_copy(update={"digest": OTHER_DIGEST}), UNNAMED)


def test_a_review_under_another_key_than_its_sessions_is_unreadable() -> None:
    place = Place()
    input_record = place.input_record(REVIEWS, review(place.hold(), "approve"))
    moved = InputRecord(REVIEWS, PARTITION, input_record.offset, START, b"s-2", input_record.value)
    decision = decide(place.point, moved, place.session("s-2"), place.answer, Shared(place.book, {}))
    assert only(decision, "DeadLetter")["code"] == "key_mismatch"


@pytest.mark.parametrize(
    ("subject", "subject_id"), [("tenant", "acme"), ("agent", "operator"), ("session", "s-1")]
)
def test_what_is_frozen_since_is_not_released_but_may_be_rejected(subject: str, subject_id: str) -> None:
    frozen = entry("freeze", "f", subject=subject, subject_id=subject_id, reason="looked into")
    before = Place()
    entered = before.hold()
    before.point = place(frozen).point
    assert only(before.review(entered, "approve"), "InputRefused")["reason"] == "frozen"
    assert len(before.book) == 1
    assert kinds(before.review(entered, "reject")) == ["QuarantineRejected", "SourceFeedback"]


def test_the_registered_type_of_a_source_goes_on_not_the_claimed_one() -> None:
    crawl = entry("source", "acme/crawl", tenant_id="acme", source_id="crawl", type="external")
    known = place(crawl)
    claimed = {"id": "crawl", "type": "system"}
    decision = known.write(source=claimed, derived_from=[STRANGER])
    entered = only(decision, "QuarantineEntered")
    assert (entered["source_type"], only(decision, "SourceFeedback")["type"]) == ("external", "external")
    released = only(known.review(entered, "approve"), "AdmittedMemory")
    assert released["source"] == {"id": "crawl", "type": "external"}
