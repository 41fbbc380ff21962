"""What each finding says and where it points, one wrong thing at a time."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from load.tamper import fields_of, seal
from sluice.verifier.verify import verify
from tests.unit.verifier.ledgers import genuine_ledger

LEDGER = genuine_ledger(seed=7, records=4, partitions=1)
LAST = LEDGER[-1]


def _change_last(**changes: Any) -> set[str]:
    """The findings' codes when the last record, which nothing follows, is sealed with other fields."""
    value = json.dumps(seal(fields_of(LAST) | changes)).encode()
    return {f.code for f in verify([*LEDGER[:-1], replace(LAST, value=value)]).findings}


def test_the_unchanged_ledger_has_no_finding_and_its_head_is_the_last_hash() -> None:
    report = verify(LEDGER)
    assert report.intact
    assert report.partitions[0].head == fields_of(LAST)["event_hash"]
    assert _change_last() == set()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"schema": "sluice/session_folded/v1"}, "misplaced"),
        ({"schema": "acme/other/v1"}, "misplaced"),
        ({"schema": None}, "misplaced"),
        ({"partition": 1}, "moved"),
        ({"prev_hash": "GENESIS"}, "broken_link"),
        ({"sequence": 6}, "missing"),
        ({"sequence": 2**53 - 1}, "missing"),
        ({"sequence": 2}, "inserted"),
        ({"sequence": 0}, "unreadable"),
        ({"sequence": True}, "unreadable"),
        ({"sequence": "4"}, "unreadable"),
        ({"input": "x"}, "unreadable"),
        ({"prev_hash": "\ud7ff"}, "unreadable"),
    ],
)
def test_a_record_that_is_sealed_but_wrong_is_found(changes: dict[str, Any], code: str) -> None:
    assert code in _change_last(**changes)


def test_a_decision_of_another_input_than_it_names_is_found() -> None:
    source = fields_of(LAST)["input"]
    assert _change_last(input=source | {"offset": 99}) == {"foreign_id"}
    assert "moved" in _change_last(input=source | {"partition": 5})


@pytest.mark.parametrize(
    ("end", "codes"), [("", set()), (":2", set()), (":1", {"foreign_id"}), (":x", {"foreign_id"})]
)
def test_one_outcome_may_settle_in_several_accounts(end: str, codes: set[str]) -> None:
    source = fields_of(LAST)["input"] | {"topic": "gate.outcomes"}
    name = f"outcome:{source['topic']}:{source['partition']}:{source['offset']}{end}"
    fields = {"schema": "sluice/reservation_settled/v1", "outcome_id": name, "input": source}
    value = json.dumps(seal(fields_of(LAST) | fields)).encode()
    moved = replace(LAST, topic="gate.session.events", value=value)
    assert {finding.code for finding in verify([*LEDGER[:-1], moved]).findings} == codes


def test_two_decisions_on_one_input_are_found() -> None:
    ledger = genuine_ledger(3, 12, partitions=1)
    verdict = next(record for record in ledger if record.topic == "gate.verdicts")
    again = seal(fields_of(verdict) | {"sequence": 13, "prev_hash": "sha256:" + "1" * 64})
    report = verify([*ledger, replace(verdict, offset=99, value=json.dumps(again).encode())])
    assert {finding.code for finding in report.findings} == {"broken_link", "duplicate_id"}


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"[]",
        b"{",
        b"\xff",
        b'{"a":1,"a":2}',
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b'{"a":1e999}',
        b'{"a":9007199254740993}',
        b'{"a":' + b"9" * 5000 + b"}",
        b'{"a":"\\ud800"}',
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b"\xef\xbb\xbf{}",
    ],
    ids=lambda value: repr(value)[:24],
)
def test_what_is_not_strict_json_is_unreadable_and_named_by_its_place(value: bytes | None) -> None:
    report = verify([*LEDGER, replace(LAST, offset=77, value=value)])
    assert [(f.code, f.topic, f.offset) for f in report.findings] == [("unreadable", LAST.topic, 77)]


@pytest.mark.parametrize("member", [b'"a":"\\ud800"', b'"a":1e999', b'"a":9007199254740993', b'"\\ud800":1'])
def test_a_ledger_record_without_a_canonical_form_is_unreadable(member: bytes) -> None:
    value = (LAST.value or b"")[:-1] + b"," + member + b"}"
    codes = [finding.code for finding in verify([*LEDGER[:-1], replace(LAST, value=value)]).findings]
    assert codes == ["unreadable"]


def test_a_missing_run_is_one_finding_that_names_both_its_ends() -> None:
    ledger = genuine_ledger(7, 12, partitions=1)
    (finding,) = [f for f in verify(_drop(ledger, {3, 4, 5})).findings if f.code == "missing"]
    assert finding.sequence == 3
    assert finding.message == "records 3 to 5 are in no topic, though record 6 is there"


def test_a_chain_that_lost_its_beginning_says_so() -> None:
    report = verify(_drop(genuine_ledger(7, 12, partitions=1), {1}))
    assert [(f.code, f.sequence) for f in report.findings] == [("missing", 1)]
    assert report.partitions[0].first == 2


def test_topic_names_may_carry_a_prefix() -> None:
    assert verify(genuine_ledger(7, 12, prefix="staging.")).intact


def test_one_altered_record_is_one_finding() -> None:
    value = json.dumps(fields_of(LEDGER[1]) | {"note": "else"}).encode()
    report = verify([LEDGER[0], replace(LEDGER[1], value=value), *LEDGER[2:]])
    assert [(f.code, f.sequence, f.offset) for f in report.findings] == [("altered", 2, LEDGER[1].offset)]


def _drop(ledger: list[Any], sequences: set[int]) -> list[Any]:
    return [record for record in ledger if fields_of(record)["sequence"] not in sequences]
