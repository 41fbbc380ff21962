"""The checks of the fault runs: silent on an honest run, and each finds what it is there for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from load.recomputation.input_answers import AnswerAccount, account
from load.recomputation.run_findings import memory_figures
from load.recomputation.session_recount import wrong_sessions
from load.recomputation.stored_sessions import HEAD, PAGE
from sluice.core.actions import proposal
from sluice.core.memory import write
from sluice_topics.catalog import BUNDLES, DEAD_LETTERS
from tests.unit.load.decided import PREFIX, change_record, decide, execute_again

if TYPE_CHECKING:
    from types import ModuleType

    from load.installations.installation import Evidence
    from sluice.adapters.kafka.kafka_read import StoredRecord

COUNTS = ("lost", "doubled", "contradicted", "unread", "faulted")


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_an_honest_run_has_nothing_to_find(seed: int) -> None:
    evidence = decide(seed, 150)
    found = account(evidence)
    assert {what: found.count(what) for what in COUNTS} == dict.fromkeys(COUNTS, 0)
    assert found.foreign == 0
    assert wrong_sessions(found, evidence.changelog) == {}


def test_an_input_without_an_answer_is_lost() -> None:
    evidence = decide(1, 100)
    verdict = next(one for one in evidence.ledger if "verdict_id" in _body(one))
    found = account(replace(evidence, ledger=[one for one in evidence.ledger if one is not verdict]))
    assert found.count("lost") == 1


def test_a_second_verdict_is_a_duplicate_and_a_different_one_a_conflict() -> None:
    evidence = decide(2, 100)
    verdict = next(one for one in evidence.ledger if "verdict_id" in _body(one))
    again = change_record(verdict, sequence=10_000)
    assert _counts(replace(evidence, ledger=[*evidence.ledger, again])) == (1, 0)
    other = change_record(verdict, sequence=10_000, decided_at="1999-12-31T23:59:59.999Z")
    assert _counts(replace(evidence, ledger=[*evidence.ledger, other])) == (1, 1)


def test_an_answer_to_other_bytes_than_the_input_has_is_foreign() -> None:
    evidence = decide(3, 50)
    first = evidence.inputs[0]
    inputs = [replace(first, value=b"{}"), *evidence.inputs[1:]]
    assert account(replace(evidence, inputs=inputs)).foreign >= 1


def test_a_dead_letter_about_the_policy_is_an_answer_to_no_input_and_not_foreign() -> None:
    evidence = decide(7, 50)
    where = {"topic": BUNDLES, "partition": 0, "offset": 3, "timestamp": 0, "digest": "sha256:"}
    letter = replace(
        change_record(evidence.ledger[-1], sequence=10_000, topic=BUNDLES, input=where, code="tombstone"),
        topic=f"{PREFIX}{DEAD_LETTERS}",
    )
    found = account(replace(evidence, ledger=[*evidence.ledger, letter]))
    assert (found.foreign, [one["code"] for one in found.refused]) == (0, ["tombstone"])


def test_a_total_that_counts_a_repeat_is_wrong() -> None:
    evidence = decide(4, 150)
    repeat = next(n for n, r in enumerate(evidence.ledger) if _body(r).get("duplicate_of"))
    session = _body(evidence.ledger[repeat])["session"]
    session["after"]["aggregateActionCount"] += 1
    ledger = list(evidence.ledger)
    ledger[repeat] = change_record(ledger[repeat], session=session)
    assert len(_wrong(replace(evidence, ledger=ledger))) == 1


def test_two_verdicts_of_a_session_in_the_other_order_are_wrong() -> None:
    evidence = decide(5, 150)
    key = evidence.ledger[0].key
    of_session = [n for n, r in enumerate(evidence.ledger) if r.key == key and "verdict_id" in _body(r)]
    first, second = of_session[0], of_session[1]
    ledger = list(evidence.ledger)
    swapped = _body(ledger[first])["sequence"], _body(ledger[second])["sequence"]
    ledger[first] = change_record(ledger[first], sequence=swapped[1])
    ledger[second] = change_record(ledger[second], sequence=swapped[0])
    assert len(_wrong(replace(evidence, ledger=ledger))) == 1


def test_a_state_that_is_behind_the_ledger_is_wrong() -> None:
    evidence = decide(6, 150)
    state = next(one for one in evidence.changelog if (one.key or b"").startswith(HEAD))
    accounts = _body(state)["a"]
    accounts["load"][0] -= 1
    changelog = [change_record(one, a=accounts) if one is state else one for one in evidence.changelog]
    assert len(_wrong(replace(evidence, changelog=changelog))) == 1


@pytest.mark.parametrize("change", [{"reason": "unknown_subject"}, {"schema": "another"}])
def test_an_outcome_that_is_refused_otherwise_or_not_counted_is_wrong(change: dict[str, str]) -> None:
    evidence = decide(8, 400)
    schema = "sluice/input_refused/v1" if "reason" in change else "sluice/reservation_settled/v1"
    reasons = {"outcome_replayed", "already_settled", None}
    number = next(
        n
        for n, record in enumerate(evidence.ledger)
        if (body := _body(record))["schema"] == schema and body.get("reason") in reasons
    )
    ledger = list(evidence.ledger)
    ledger[number] = change_record(ledger[number], **change)
    assert len(_wrong(replace(evidence, ledger=ledger))) == 1


@pytest.mark.parametrize("change", [{"outcome": "BLOCK", "verdict": "denied"}, {"duplicate_of": None}])
def test_the_rerun_finds_another_outcome_and_a_repeat_that_counts_anew(change: dict[str, Any]) -> None:
    """Of these the recount has no rules of its own."""
    evidence, (field, *_) = decide(4, 150), change
    ledger = list(evidence.ledger)
    number = next(
        n
        for n, record in enumerate(ledger)
        if (body := _body(record)).get("outcome") == "ALLOW" and body[field]
    )
    ledger[number] = change_record(ledger[number], **change)
    reruns = execute_again(replace(evidence, ledger=ledger))
    assert field in {difference.field for rerun in reruns for difference in rerun.differences}


@pytest.mark.parametrize("field", ["reserved", "actual", "aggregateRowsAffected"])
def test_the_rerun_finds_a_settlement_that_counts_otherwise(field: str) -> None:
    evidence = decide(4, 150)
    ledger = list(evidence.ledger)
    schema = "sluice/reservation_settled/v1"
    number = next(n for n, record in enumerate(ledger) if _body(record)["schema"] == schema)
    ledger[number] = change_record(ledger[number], **{field: _body(ledger[number])[field] + 1})
    reruns = execute_again(replace(evidence, ledger=ledger))
    assert field in {difference.field for rerun in reruns for difference in rerun.differences}


class _Any(str):
    """Equal to every digest."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return True


@pytest.mark.parametrize("gate", [proposal, write])
def test_a_rule_that_takes_other_bytes_under_an_id_for_a_repeat_is_found(
    gate: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Worker and rerun have one rule, so the rerun agrees, and no total changes."""
    monkeypatch.setattr(gate, "extract_hex", _Any)
    evidence = decide(4, 600)
    if gate is proposal:
        assert {rerun.status for rerun in execute_again(evidence)} == {"identical"}
        assert "other bytes: ALLOW" in str(_wrong(evidence))
    else:
        wrong = [figure.name for figure in memory_figures(evidence, account(evidence)) if not figure.holds]
        assert "wrong_memory_decisions" in wrong


def _wrong(evidence: Evidence) -> dict[str, list[str]]:
    return wrong_sessions(account(evidence), evidence.changelog)


def _counts(evidence: Evidence) -> tuple[int, int]:
    found: AnswerAccount = account(evidence)
    return found.count("doubled"), found.count("contradicted")


def _body(record: StoredRecord) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(record.value or b"{}")
    return body


def test_a_page_that_outlives_its_session_is_found() -> None:
    evidence = decide(5, 150)
    state = next(one for one in evidence.changelog if (one.key or b"").startswith(HEAD))
    session = (state.key or b"").removeprefix(HEAD)
    stray = replace(state, key=b"%b9:%b" % (PAGE, session), value=b"[[],[]]")
    wrong = wrong_sessions(account(evidence), [*evidence.changelog, stray])
    assert wrong == {session.decode(): ["1 pages are left that its state does not name"]}
