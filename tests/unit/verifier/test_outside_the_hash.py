"""Mend 5: findings name the forged record and not the genuine one, and see what lies outside the hash."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from load.tamper import fields_of, relaid, seal
from sluice.verifier.verify import verify
from tests.unit.verifier.ledgers import genuine_ledger

if TYPE_CHECKING:
    from sluice.verifier.export import Located

LEDGER = genuine_ledger(seed=7, records=8, partitions=1)
LAST = LEDGER[-1]


def append_forged(ledger: list[Located], count: int) -> list[Located]:
    """`count` forged verdicts that continue the chain as they must, with offsets far behind."""
    head = fields_of(ledger[-1])
    made = []
    for number in range(1, count + 1):
        source = {**head["input"], "offset": 1000 + number}
        body = {
            **head,
            "schema": "sluice/verdict/v1",
            "verdict_id": f"verdict:{source['topic']}:{source['partition']}:{source['offset']}",
            "escalation_id": None,
            "input": source,
            "sequence": head["sequence"] + 1,
            "prev_hash": head["event_hash"],
        }
        head = seal(body)
        value = json.dumps(head).encode()
        made.append(replace(ledger[-1], topic="gate.verdicts", offset=500 + number, value=value))
    return made


@given(cut=st.integers(1, 6), forged=st.integers(1, 4), first=st.booleans())
def test_a_forged_run_is_named_and_never_the_genuine_record_that_came_after_it(
    cut: int, forged: int, *, first: bool
) -> None:
    """The worker went on after records were forged: its own numbers were taken."""
    before, after = LEDGER[:cut], LEDGER[cut:]
    run = append_forged(before, min(forged, len(after) - 1))
    report = verify([*before, *run, *after] if first else [*before, *after, *run])
    named = {finding.offset for finding in report.findings if finding.code in ("inserted", "forked")}
    assert named == {one.offset for one in run}
    assert not {finding.code for finding in report.findings} & {"broken_link", "missing"}


def test_where_both_end_the_chain_nobody_is_called_the_genuine_one() -> None:
    before, genuine = LEDGER[:-1], LAST
    (forged,) = append_forged(before, 1)
    for order in ([*before, forged, genuine], [*before, genuine, forged]):
        (finding,) = [one for one in verify(order).findings if one.code != "out_of_order"]
        assert finding.code == "forked"
        assert {finding.offset, int(finding.message.split("offset ")[1].split()[0])} == {
            forged.offset,
            genuine.offset,
        }


@pytest.mark.parametrize("key", [None, b"", b"s-9-9", b"\xff"])
def test_a_key_that_is_not_the_session_s_is_found(key: bytes | None) -> None:
    report = verify([*LEDGER[:-1], replace(LAST, key=key)])
    assert [(one.code, one.offset) for one in report.findings] == [("key_mismatch", LAST.offset)]


@pytest.mark.parametrize(("at_ms", "codes"), [(None, []), (99_000, []), (39_000, ["too_early"])])
def test_a_record_that_is_older_than_its_input_is_found(at_ms: int | None, codes: list[str]) -> None:
    value = reseal(LAST, input={**fields_of(LAST)["input"], "timestamp": 100_000})
    report = verify([*LEDGER[:-1], replace(LAST, value=value, timestamp_ms=at_ms)])
    assert [one.code for one in report.findings] == codes


def test_a_record_under_another_prefix_is_found() -> None:
    ledger = genuine_ledger(seed=7, records=8, partitions=1, prefix="staging.")
    strange = replace(ledger[-1], topic=ledger[-1].topic.replace("staging.", "production."))
    report = verify([*ledger[:-1], strange])
    assert "misplaced" in {one.code for one in report.findings}


def test_a_verdict_on_the_input_of_another_kind_is_found() -> None:
    verdict = next(one for one in LEDGER if one.topic == "gate.verdicts")
    source = {**fields_of(verdict)["input"], "topic": "gate.outcomes"}
    name = f"verdict:gate.outcomes:{source['partition']}:{source['offset']}"
    value = reseal(verdict, input=source, verdict_id=name)
    changed = [replace(one, value=value) if one is verdict else one for one in LEDGER]
    assert "foreign_id" in {one.code for one in verify(changed).findings}


def test_two_decisions_on_one_input_are_found_wherever_they_lie() -> None:
    before = LEDGER
    (forged,) = append_forged(before, 1)
    source = fields_of(next(one for one in before if one.topic == "gate.verdicts"))["input"]
    name = f"verdict:{source['topic']}:{source['partition']}:{source['offset']}"
    again = replace(forged, value=reseal(forged, input=source, verdict_id=name))
    assert [one.code for one in verify([*before, again]).findings] == ["duplicate_id"]


def reseal(record: Located, **changes: Any) -> bytes:
    return json.dumps(seal(fields_of(record) | changes)).encode()


def test_the_untouched_ledger_has_no_finding_with_times_and_keys() -> None:
    assert verify([replace(one, timestamp_ms=5) for one in relaid(LEDGER)]).intact
