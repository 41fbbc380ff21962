"""The checks on memories in the fault runs: silent on an honest run, and each finds what it is there for."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from load.recomputation.input_answers import account
from load.recomputation.quarantine_recount import APPROVED, ENTERED, EVICTED, EXPIRED
from load.recomputation.run_findings import memory_figures
from sluice_topics.catalog import MEMORY_DECISIONS, QUARANTINE, SESSION_EVENTS
from tests.unit.load.decided import change_record, decide, execute_again

if TYPE_CHECKING:
    from collections.abc import Callable

    from load.installations.installation import Evidence
    from sluice.adapters.kafka.kafka_read import StoredRecord

EVENTS = 600


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32))
def test_an_honest_run_has_nothing_to_find(seed: int) -> None:
    assert _collect(decide(seed, 200)) == set()


def test_a_run_has_everything_in_it_that_the_checks_are_about() -> None:
    evidence = _honest()
    assert [one for one in memory_figures(evidence, account(evidence)) if not one.holds] == []


def test_a_memory_that_leaves_twice_is_found() -> None:
    gone = _first(QUARANTINE, EXPIRED)
    again = change_record(gone, sequence=_body(gone)["sequence"] + 0.5)
    assert "wrong_quarantine_events" in _collect(replace(_honest(), ledger=[*_honest().ledger, again]))


def test_a_memory_that_enters_and_never_leaves_is_found() -> None:
    gone = _first(QUARANTINE, EVICTED)
    assert "wrong_held" in _collect(_drop(gone))


def test_a_memory_that_its_decision_holds_and_no_event_is_found() -> None:
    assert "wrong_memory_decisions" in _collect(_drop(_first(QUARANTINE, ENTERED)))


@pytest.mark.parametrize(
    ("schema", "field"), [(EXPIRED, "decided_at"), (EVICTED, "expires_at"), (APPROVED, "content_digest")]
)
def test_an_end_that_is_too_early_or_of_something_else_is_found(schema: str, field: str) -> None:
    wrong = "sha256:" if field == "content_digest" else "2001-01-01T00:00:00.000Z"
    assert "wrong_quarantine_events" in _collect(_add(_first(QUARANTINE, schema), **{field: wrong}))


def test_the_eviction_of_a_newer_one_is_found() -> None:
    evicted = _first(QUARANTINE, EVICTED)
    entered = _first(QUARANTINE, ENTERED, _body(evicted)["memory_id"])
    wrong = change_record(entered, held="gate.memory.writes.proposed:0:999999")
    end = change_record(evicted, held="gate.memory.writes.proposed:0:999999")
    swapped = {id(entered): wrong, id(evicted): end}
    ledger = [swapped.get(id(one), one) for one in _honest().ledger]
    assert "wrong_quarantine_events" in _collect(replace(_honest(), ledger=ledger))


def test_another_action_than_is_due_is_found() -> None:
    held = _first(MEMORY_DECISIONS, of=lambda body: body["action"] == "quarantine")
    assert "wrong_memory_decisions" in _collect(_add(held, action="reject"))


@pytest.mark.parametrize(
    ("of", "change", "field"),
    [
        (lambda body: body["duplicate_of"], {"duplicate_of": None}, "duplicate_of"),
        (lambda body: body["reason"].startswith("write_id_conflict"), {"action": "allow"}, "action"),
        (lambda body: body["action"] == "allow", {"write_id": "another"}, "write_id"),
        (lambda body: body["action"] == "allow", {"content_digest": "sha256:" + 64 * "0"}, "content_digest"),
        (lambda body: _get_source(body)["session_type"], {"session_type": None}, "seen.source.session_type"),
    ],
)
def test_the_rerun_finds_a_decision_that_is_not_of_its_write(
    of: Callable[[dict[str, Any]], bool], change: dict[str, Any], field: str
) -> None:
    """Of these the recount has no rules of its own."""
    decision = _first(MEMORY_DECISIONS, of=of)
    if field.startswith("seen"):
        seen = _body(decision)["seen"]
        change = {"seen": {**seen, "source": {**seen["source"], **change}}}
    reruns = execute_again(_add(decision, **change))
    assert field in {difference.field for rerun in reruns for difference in rerun.differences}


def _get_source(body: dict[str, Any]) -> dict[str, Any]:
    source: dict[str, Any] = body["seen"]["source"]
    return source


def test_a_review_that_is_refused_for_no_reason_is_found() -> None:
    refusal = _first(SESSION_EVENTS, of=lambda body: body.get("reason") == "unknown_subject")
    assert _collect(_add(refusal, reason="wrong_digest")) == {"wrong_reviews"}


@pytest.mark.parametrize("make", [lambda all_: all_[1:], lambda all_: [*all_, all_[0]]])
def test_a_release_that_is_lost_or_doubled_is_found(
    make: Callable[[list[StoredRecord]], list[StoredRecord]],
) -> None:
    assert _collect(replace(_honest(), admitted=make(_honest().admitted))) == {"wrong_releases"}


def test_a_release_of_other_content_is_found() -> None:
    first, *rest = _honest().admitted
    other = change_record(first, content="something else")
    assert _collect(replace(_honest(), admitted=[other, *rest])) == {"wrong_releases"}


@pytest.mark.parametrize(("key", "name"), [(b"n:", "wrong_statistics"), (b"f:", "wrong_histories")])
def test_a_state_that_is_behind_the_ledger_is_found(key: bytes, name: str) -> None:
    changelog = _honest().changelog
    last = max(n for n, one in enumerate(changelog) if (one.key or b"").startswith(key))
    assert _collect(replace(_honest(), changelog=[*changelog[:last], *changelog[last + 1 :]])) == {name}


def test_a_held_memory_that_is_written_again_with_another_time_is_found() -> None:
    changelog = _honest().changelog
    put = next(one for one in changelog if (one.key or b"").startswith(b"q:") and one.value)
    assert _collect(replace(_honest(), changelog=[put, *changelog])) == {"wrong_held"}


def test_feedback_that_is_told_twice_is_found() -> None:
    evidence = _honest()
    told = next(one for one in evidence.feedback if _body(one)["verdict"] == "positive")
    found = _collect(replace(evidence, feedback=[*evidence.feedback, told]))
    assert {"wrong_feedback", "wrong_histories"} <= found


def test_a_history_that_leaves_out_a_revision_is_found() -> None:
    assert "wrong_histories" in _collect(replace(_honest(), histories=_honest().histories[1:]))


def test_a_decision_on_a_history_that_never_was_is_found() -> None:
    knowing = _first(MEMORY_DECISIONS, of=lambda body: body["seen"]["source"]["revision"] > 0)
    seen = _body(knowing)["seen"]
    seen["source"]["positive"] += 1
    assert _collect(_add(knowing, seen=seen)) == {"wrong_sights"}


@cache
def _honest() -> Evidence:
    return decide(3, EVENTS)


def _collect(evidence: Evidence) -> set[str]:
    found = memory_figures(evidence, account(evidence))
    return {one.name for one in found if one.goal == "0" and not one.holds}


def _first(
    topic: str,
    schema: str | None = None,
    memory_id: str | None = None,
    of: Callable[[dict[str, Any]], bool] = lambda _: True,
) -> StoredRecord:
    bodies = ((one, _body(one)) for one in _honest().ledger if one.topic.endswith(topic))
    return next(
        one
        for one, body in bodies
        if schema in {None, body["schema"]} and memory_id in {None, body.get("memory_id")} and of(body)
    )


def _drop(record: StoredRecord) -> Evidence:
    return replace(_honest(), ledger=[one for one in _honest().ledger if one is not record])


def _add(record: StoredRecord, **fields: Any) -> Evidence:
    ledger = [change_record(one, **fields) if one is record else one for one in _honest().ledger]
    return replace(_honest(), ledger=ledger)


def _body(record: StoredRecord) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(record.value or b"{}")
    return body
