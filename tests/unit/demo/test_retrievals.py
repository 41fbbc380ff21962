"""What the demo's agents read, and what the gate makes of it: one thing of every kind."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from sluice_demo.answers import AnsweredRetrieval
from sluice_demo.follow_ups import STORE, make_reports, override_items
from sluice_demo.sessions import ACKNOWLEDGING, SILENT, STORY_AGAIN, STORY_CONTRACT, STORY_READ
from sluice_topics.catalog import SESSION_EVENTS, VERDICTS
from sluice_topics.record_reading import read
from sluice_topics.records import ProposedRetrieval, RetrievalReport
from tests.unit.demo.deciding import Deciding

if TYPE_CHECKING:
    from sluice_demo.answers import DemoAnswers
    from sluice_demo.material import Material, RunOptions

STORY = "repeating"
NOON = "2026-01-01T12:00:00.000Z"


def test_every_retrieval_is_readable_and_lies_in_a_session_of_actions(material: Material) -> None:
    acting = {session.id for session in material.sessions}
    for one in material.retrievals:
        record = read(ProposedRetrieval, one.outgoing.value)
        assert isinstance(record, ProposedRetrieval)
        assert record.session_id in acting
    assert len(material.retrievals) >= 100


def test_every_item_gets_one_decision_and_nothing_is_shown_without_one(
    decided: Deciding, material: Material
) -> None:
    answers = decided.answers
    assert (answers.unanswered, answers.answered_twice, answers.unfounded) == ([], 0, 0)
    items = sum(len(one.fields["items"]) for one in material.retrievals)
    assert sum(len(one.decisions) for one in answers.iterate_retrievals()) == items


def test_a_retrieval_is_answered_when_all_its_items_are(decided: Deciding) -> None:
    found = _make_reading(decided.answers, STORY_READ)
    only_first = AnsweredRetrieval(found.planned, found.decisions[:1], found.served)
    assert found.unfounded == []
    assert only_first.unfounded, "what is shown without a decision is noticed"


def test_the_story_reads_one_thing_of_every_kind(decided: Deciding) -> None:
    found = {one["item_id"]: one for one in _make_reading(decided.answers, STORY_READ).decisions}
    assert {item: (one["outcome"], one["stages"][-1]["stage"]) for item, one in found.items()} == {
        "story-lease": ("pass", "content"),
        "story-travel-policy": ("deny", "quality"),
        "story-overtime": ("downgrade", "quality"),
        "story-ruling": ("flag", "content"),
        "story-wiki-page": ("flag", "content"),
        "story-rate-card": ("deny", "poisoning"),
        "story-supplier-note": ("deny", "content"),
        "story-price-list": ("flag", "content"),
    }
    assert found["story-travel-policy"]["flags_set"] == ["stale"]
    assert found["story-ruling"]["flags_set"] == found["story-wiki-page"]["flags_set"]
    assert found["story-price-list"]["would_have_been"] == "deny"
    assert not found["story-overtime"]["body_released"]


def test_ordinary_sessions_meet_every_outcome_and_every_flag_too(decided: Deciding) -> None:
    decisions = [
        decision
        for one in decided.answers.iterate_retrievals()
        if one.planned.session_id != STORY
        for decision in one.decisions
    ]
    outcomes = Counter(one["outcome"] for one in decisions)
    assert outcomes["pass"] > len(decisions) / 2
    assert outcomes.keys() == {"pass", "flag", "downgrade", "deny"}
    flags = {flag for one in decisions for flag in one["flags_set"]}
    assert flags >= {"stale", "low_confidence", "provenance_missing", "provenance_unverified"}
    assert {one["autonomy_tier"] for one in decisions} == {"sandbox", "bounded", "high_privilege"}


def test_a_signature_that_does_not_fit_the_hash_is_noticed(decided: Deciding) -> None:
    details = [
        dimension["detail"]
        for one in decided.answers.iterate_retrievals()
        for decision in one.decisions
        for dimension in decision["dimensions"]
        if dimension["dimension"] == "provenance"
    ]
    assert "wrong signature" in details
    assert "signed by source price-feed" in details


def test_a_denial_for_a_contract_is_overridden_by_a_signed_entry_and_comes_back_flagged(
    wish: RunOptions, material: Material
) -> None:
    deciding = Deciding(wish, material)
    deciding.take(material.opening)
    (escalation,) = deciding.answers.item_escalations
    assert [item["item_id"] for item in escalation["items"]] == ["story-contract-template"]
    answer = override_items(deciding.answers, material.config.readings.story.override, NOON)
    deciding.take(answer.again)
    deciding.say(wish.trust.sign_overrides(answer.entries))
    deciding.take(answer.again)
    before, after = (_template(one) for one in _readings(deciding.answers, STORY_AGAIN))
    assert (before["outcome"], before["override"]) == ("deny", None)
    assert (after["outcome"], after["flags_set"]) == ("flag", ["stale"])
    assert after["override"]["approver_id"] == "reviewer"


def test_an_action_that_names_the_flags_gets_no_advisory_and_one_that_does_not_does(
    wish: RunOptions, material: Material
) -> None:
    session = next(one for one in material.sessions if one.id == STORY)
    deciding = Deciding(wish, material)
    deciding.take(material.opening)
    deciding.take([one for one in material.plan if one.session_id == STORY and one.role == "action"])
    found = {one.planned.fields["action_id"]: one.body for one in deciding.answers.iterate(VERDICTS)}
    named, silent = (found[session.actions[place]["action_id"]] for place in (ACKNOWLEDGING, SILENT))
    assert _flags(named)["outstanding"] == _flags(silent)["acknowledged"] == []
    assert _flags(named)["acknowledged"] == _flags(silent)["outstanding"] != []


def test_stores_report_what_was_shown_and_one_item_that_nobody_decided_on(
    wish: RunOptions, material: Material
) -> None:
    deciding = Deciding(wish, material)
    deciding.take(material.opening)
    reports = make_reports(deciding.answers, material.config.readings.story, NOON)
    deciding.take(reports)
    assert all(isinstance(read(RetrievalReport, one.outgoing.value), RetrievalReport) for one in reports)
    found = [one.body for one in deciding.answers.iterate(SESSION_EVENTS)]
    assert {one["reported_by"] for one in found} == {STORE}
    assert [one["uncovered"] for one in found] == [["story-shared-drive"], []]
    assert found[0]["autonomy_tier"] == "bounded", "a tier whose target is missed"


def _readings(answers: DemoAnswers, request_id: str) -> list[AnsweredRetrieval]:
    return [one for one in answers.iterate_retrievals() if one.planned.fields["request_id"] == request_id]


def _make_reading(answers: DemoAnswers, request_id: str) -> AnsweredRetrieval:
    (found,) = _readings(answers, request_id)
    return found


def _template(one: AnsweredRetrieval) -> dict[str, Any]:
    return next(decision for decision in one.decisions if decision["item_id"] == "story-contract-template")


def _flags(verdict: dict[str, Any]) -> dict[str, list[str]]:
    flags: dict[str, list[str]] = verdict["session"]["flags"]
    return flags


def test_the_contract_is_read_at_high_privilege(decided: Deciding) -> None:
    decisions = _make_reading(decided.answers, STORY_CONTRACT).decisions
    assert {one["autonomy_tier"] for one in decisions} == {"high_privilege"}
