"""The records say exactly what the product's page says, and take nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from sluice_topics import records
from sluice_topics.records import ProposedAction, Verdict
from sluice_topics.records.base import LedgerRecord
from sluice_topics.records.verdicts import OUTCOME_OF
from tests.unit.records import action, ledger_records

LEDGER = ledger_records()


def model(kind: str) -> type[LedgerRecord]:
    found: type[LedgerRecord] = getattr(records, kind)
    return found


def test_every_record_of_the_ledger_has_an_example_here() -> None:
    kinds = {name for name in records.__all__ if issubclass(getattr(records, name), LedgerRecord)}
    assert kinds == LEDGER.keys()


@pytest.mark.parametrize("kind", LEDGER)
def test_a_ledger_record_goes_out_by_wire_names_as_it_came_in(kind: str) -> None:
    record = model(kind).model_validate(LEDGER[kind])
    assert json.loads(record.model_dump_json(by_alias=True)) == LEDGER[kind]


@pytest.mark.parametrize("kind", LEDGER)
@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("sequence", 0),
        ("partition", -1),
        ("prev_hash", "genesis"),
        ("event_hash", "sha256:00"),
        ("decided_at", "2026-11-21T10:00:00Z"),
        ("input", {}),
        ("schema", "sluice/other/v1"),
        ("unknown", 1),
    ],
)
def test_a_ledger_record_refuses_what_breaks_the_chains_fields(kind: str, field: str, wrong: Any) -> None:
    with pytest.raises(ValidationError):
        model(kind).model_validate(LEDGER[kind] | {field: wrong})


@pytest.mark.parametrize("field", ["counted", "signed", "disputed"])
def test_a_settlement_says_what_it_counted_and_whose_word_it_was(field: str) -> None:
    body = {name: value for name, value in LEDGER["ReservationSettled"].items() if name != field}
    with pytest.raises(ValidationError):
        model("ReservationSettled").model_validate(body)


@pytest.mark.parametrize("kind", LEDGER)
@pytest.mark.parametrize(
    "field", ["schema", "partition", "sequence", "prev_hash", "event_hash", "decided_at", "input"]
)
def test_a_ledger_record_needs_each_of_the_chains_fields(kind: str, field: str) -> None:
    body = {name: value for name, value in LEDGER[kind].items() if name != field}
    with pytest.raises(ValidationError):
        model(kind).model_validate(body)


@pytest.mark.parametrize(
    ("rows", "good"), [(2**53 - 1, True), (2**53, False), (str(2**53), True), ("12", False)]
)
def test_only_integers_beyond_what_every_reader_keeps_are_strings(rows: int | str, good: bool) -> None:
    body = LEDGER["Verdict"] | {"rows_reserved": rows}
    if good:
        assert Verdict.model_validate(body).rows_reserved == rows
    else:
        with pytest.raises(ValidationError):
            Verdict.model_validate(body)


@pytest.mark.parametrize("word", OUTCOME_OF)
@pytest.mark.parametrize("outcome", OUTCOME_OF.values())
def test_the_two_vocabularies_are_tied_one_to_one(word: str, outcome: str) -> None:
    body = LEDGER["Verdict"] | {"verdict": word, "outcome": outcome}
    if (word, outcome) in OUTCOME_OF.items():
        Verdict.model_validate(body)
    else:
        with pytest.raises(ValidationError, match="goes with outcome"):
            Verdict.model_validate(body)


def test_the_seeds_own_names_are_on_the_wire() -> None:
    verdict = {field.alias or name for name, field in Verdict.model_fields.items()}
    assert verdict >= {"shadowOutcome", "blockReason", "escalationId", "gateResults", "traceId"}
    assert verdict >= {"rule_results", "evidence_refs", "rerun_hash", "schema", "duplicate_of"}
    proposed = {field.alias or name for name, field in ProposedAction.model_fields.items()}
    assert proposed == action().keys()


def test_a_record_cannot_be_changed() -> None:
    record = ProposedAction.model_validate(action())
    with pytest.raises(ValidationError, match="frozen"):
        record.action_id = "other"  # type: ignore[misc]


def test_a_verdict_that_was_not_read_has_no_ids() -> None:
    unknown = dict.fromkeys(("action_id", "agent_id", "session_id", "tenant_id", "request_id"))
    assert Verdict.model_validate(LEDGER["Verdict"] | unknown).action_id is None
