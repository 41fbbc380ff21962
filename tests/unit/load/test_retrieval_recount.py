"""The checks on retrievals in fault runs: silent on an honest run, and each finds what it is there for."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from load.recomputation.input_answers import account
from load.recomputation.retrieval_recount import ESCALATION
from load.recomputation.run_findings import retrieval_figures
from sluice_topics.catalog import ALARMS, ESCALATIONS, QUALITY_DECISIONS, SESSION_EVENTS
from tests.unit.load.decided import change_record, decide

if TYPE_CHECKING:
    from collections.abc import Callable

    from load.installations.installation import Evidence
    from sluice.adapters.kafka.kafka_read import StoredRecord

EVENTS = 900
ANOTHER = "sha256:" + 64 * "9"
Body = dict[str, Any]


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32))
def test_an_honest_run_has_nothing_to_find(seed: int) -> None:
    assert _collect(decide(seed, 200)) == set()


def test_a_run_has_everything_in_it_that_the_checks_are_about() -> None:
    assert [one for one in retrieval_figures(_honest(), account(_honest())) if not one.holds] == []


@pytest.mark.parametrize(("field", "value"), [("quality_bundle_id", "another"), ("item_id", "another")])
def test_a_decision_under_another_bundle_or_on_another_item_is_found(field: str, value: str) -> None:
    assert "wrong_item_decisions" in _collect(_add(_first(QUALITY_DECISIONS), **{field: value}))


@pytest.mark.parametrize(
    ("outcome", "field", "value"),
    [
        ("deny", "outcome", "flag"),
        ("deny", "reason_codes", []),
        ("flag", "outcome", "pass"),
        ("flag", "flags_set", []),
        ("pass", "body_released", False),
    ],
)
def test_what_is_served_otherwise_than_decided_is_found(outcome: str, field: str, value: object) -> None:
    def matches(body: Body) -> bool:
        return bool(body["outcome"] == outcome and body[field])

    assert "wrong_served" in _collect(_add(_first(QUALITY_DECISIONS, matches), **{field: value}))


def test_a_missing_decision_of_one_item_is_found() -> None:
    second = _first(QUALITY_DECISIONS, lambda body: body["place"] == 1)
    assert "wrong_item_decisions" in _collect(_drop(second))


def test_a_second_decision_on_one_item_is_a_duplicate_and_a_different_one_a_conflict() -> None:
    one = _first(QUALITY_DECISIONS, lambda body: body["place"] == 1)
    again, other = change_record(one, sequence=10**6), change_record(one, sequence=10**6, outcome="pass")
    twice = account(replace(_honest(), ledger=[*_honest().ledger, again]))
    assert (twice.count("doubled"), twice.count("contradicted")) == (1, 0)
    assert account(replace(_honest(), ledger=[*_honest().ledger, other])).count("contradicted") == 1


def test_the_decisions_of_one_request_are_no_duplicates() -> None:
    assert any(_body(one).get("place") == 1 for one in _honest().ledger)
    assert account(_honest()).count("doubled") == 0


def test_one_request_under_two_policies_is_found() -> None:
    second = _first(QUALITY_DECISIONS, lambda body: body["place"] == 1)
    assert "wrong_item_decisions" in _collect(_add(second, bundle_hash=ANOTHER))


def test_an_escalation_that_is_missing_undue_or_names_other_items_is_found() -> None:
    opened = _first(ESCALATIONS, lambda body: body["schema"] == ESCALATION)
    assert "wrong_retrieval_escalations" in _collect(_drop(opened))
    assert "wrong_retrieval_escalations" in _collect(_add(opened, items=[]))
    decision = _first(QUALITY_DECISIONS, lambda body: body["escalation_id"] is None)
    wrong = _collect(_add(decision, escalation_id=_body(opened)["escalation_id"]))
    assert "wrong_retrieval_escalations" in wrong


@pytest.mark.parametrize("make", [lambda all_: all_[1:], lambda all_: [*all_, all_[0]]])
def test_a_retrieval_that_is_served_twice_or_not_at_all_is_found(
    make: Callable[[list[StoredRecord]], list[StoredRecord]],
) -> None:
    assert _collect(replace(_honest(), served=make(_honest().served))) == {"wrong_served"}


def test_items_in_another_order_a_body_too_many_or_a_flag_too_few_are_found() -> None:
    for change in (_reverse, _add_every_body, _drop_flags):
        served = [change_record(one, items=change(_body(one)["items"])) for one in _honest().served]
        assert _collect(replace(_honest(), served=served)) == {"wrong_served"}


def test_a_retrieval_served_in_answer_to_other_bytes_is_found() -> None:
    first, *rest = _honest().served
    other = change_record(first, input={**_body(first)["input"], "digest": "sha256:" + "00" * 32})
    assert _collect(replace(_honest(), served=[other, *rest])) == {"wrong_served"}


def test_a_retrieval_served_to_another_session_is_found() -> None:
    first, *rest = _honest().served
    assert _collect(replace(_honest(), served=[replace(first, key=b"another"), *rest])) == {"wrong_served"}


@pytest.mark.parametrize("change", [{"covered": 1000}, {"uncovered": ["x"]}, {"autonomy_tier": "admin"}])
def test_a_report_that_is_counted_otherwise_is_found(change: Body) -> None:
    reported = _first(SESSION_EVENTS, lambda body: "report_event_id" in body)
    assert _collect(_add(reported, **change)) == {"wrong_coverage"}


def test_a_session_that_forgets_a_retrieval_is_found() -> None:
    changelog = _honest().changelog
    states = [one for one in changelog if (one.key or b"").startswith(b"s:")]
    pages = [one for one in changelog if (one.key or b"").startswith(b"r:")]
    forgetful = [
        change_record(one, p=None) if one in states else one for one in changelog if one not in pages
    ]
    assert _collect(replace(_honest(), changelog=forgetful)) == {"wrong_remembered"}


def test_a_reference_that_is_wanted_twice_or_not_at_all_is_found() -> None:
    wanted = _list_wanted(_honest())
    assert _collect(replace(_honest(), wanted=[*wanted, wanted[0]])) == {"wrong_wanted"}
    others = [one for one in wanted if _body(one)["uri"] != _body(wanted[0])["uri"]]
    assert _collect(replace(_honest(), wanted=others)) == {"wrong_wanted"}


def test_a_reference_that_was_wanted_just_before_need_not_be_wanted_again() -> None:
    """Within the 20 s of a short run: only the first wish for each is there."""
    evidence = decide(10, 300)
    wanted = _list_wanted(evidence)
    first = {one.key: one for one in reversed(wanted)}
    assert len(first) < len(wanted)
    assert _collect(replace(evidence, wanted=[*first.values()])) == set()


def test_a_wish_of_a_decision_that_was_written_first_stands_for_one_of_an_earlier_input() -> None:
    """Sessions of a partition do not wait for one another: only the last wish for each is there."""
    evidence = decide(10, 300)
    wanted = _list_wanted(evidence)
    last = {one.key: one for one in wanted}
    assert len(last) < len(wanted)
    assert _collect(replace(evidence, wanted=[*last.values()])) == set()


def _list_wanted(evidence: Evidence) -> list[StoredRecord]:
    return [one for one in evidence.wanted if _body(one)["wanted_by"] == "retrieval"]


def test_an_alarm_about_another_class_is_found() -> None:
    assert _collect(_add(_first(ALARMS), subject="law")) == {"wrong_alarms"}


def _reverse(items: list[Body]) -> list[Body]:
    return items[::-1]


def _add_every_body(items: list[Body]) -> list[Body]:
    return [one | {"body": one["body"] or "a body"} for one in items]


def _drop_flags(items: list[Body]) -> list[Body]:
    return [one | {"flags": dict.fromkeys(one["flags"], False)} for one in items]


@cache
def _honest() -> Evidence:
    return decide(3, EVENTS)


def _collect(evidence: Evidence) -> set[str]:
    found = retrieval_figures(evidence, account(evidence))
    return {one.name for one in found if one.goal == "0" and not one.holds}


def _first(topic: str, of: Callable[[Body], bool] = lambda _: True) -> StoredRecord:
    return next(one for one in _honest().ledger if one.topic.endswith(topic) and of(_body(one)))


def _drop(record: StoredRecord) -> Evidence:
    return replace(_honest(), ledger=[one for one in _honest().ledger if one is not record])


def _add(record: StoredRecord, **fields: Any) -> Evidence:
    ledger = [change_record(one, **fields) if one is record else one for one in _honest().ledger]
    return replace(_honest(), ledger=ledger)


def _body(record: StoredRecord) -> Body:
    body: Body = json.loads(record.value or b"{}")
    return body
