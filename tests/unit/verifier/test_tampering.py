"""Whatever one does to a ledger, the verifier says so, and about an intact one it says nothing."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import rfc8785
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from load.tamper import TAMPERINGS, fields_of, relaid, seal
from sluice.verifier.verify import verify
from tests.unit.verifier.ledgers import genuine_ledger

if TYPE_CHECKING:
    from sluice.verifier.export import Located

SEEDS = st.integers(0, 10_000)
PLACES = st.integers(0, 23)


@given(seed=SEEDS, shuffle=st.randoms(use_true_random=False))
def test_an_intact_ledger_is_so_however_its_topics_are_interleaved(seed: int, shuffle: random.Random) -> None:
    ledger = genuine_ledger(seed, 24)
    series = sorted({(r.topic, r.partition) for r in ledger})
    queues = [[r for r in ledger if (r.topic, r.partition) == each] for each in series]
    mixed = []
    while any(queues):
        mixed.append(shuffle.choice([queue for queue in queues if queue]).pop(0))
    report = verify(mixed)
    assert report.intact, report.findings
    assert [summary.last for summary in report.partitions.values()] == [8, 8, 8]


@pytest.mark.parametrize("kind", TAMPERINGS)
@given(seed=SEEDS)
def test_each_kind_of_tampering_is_named(kind: str, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - seeded, not secret
    tampered = TAMPERINGS[kind](genuine_ledger(seed, 24), rng)
    codes = {finding.code for finding in verify(relaid(tampered.records)).findings}
    if kind == "move_session":  # a session at the very end leaves no gap behind
        assert "moved" in codes
    else:
        assert tampered.codes <= codes, tampered.what


@settings(max_examples=300)
@given(seed=SEEDS, where=st.integers(0, 1 << 20), byte=st.integers(0, 255), at=st.integers(0, 11))
def test_no_changed_byte_of_any_record_goes_unseen(seed: int, where: int, byte: int, at: int) -> None:
    ledger = genuine_ledger(seed, 12)
    value = ledger[at].value or b""
    place = where % len(value)
    changed = value[:place] + bytes([byte]) + value[place + 1 :]
    report = verify([*ledger[:at], replace(ledger[at], value=changed), *ledger[at + 1 :]])
    assert not report.intact or _same_meaning(value, changed), changed


@given(seed=SEEDS, at=PLACES, target=PLACES, change=st.sampled_from(["drop", "copy", "displace"]))
def test_no_record_dropped_copied_or_displaced_goes_unseen(
    seed: int, at: int, target: int, change: str
) -> None:
    ledger = genuine_ledger(seed, 24)
    taken = ledger[at]
    rest = [*ledger[:at], *ledger[at + 1 :]]
    if change == "drop":
        assume(fields_of(taken)["sequence"] < 8)  # the tail is what a bare chain cannot miss
        tampered = rest
    elif change == "copy":
        tampered = [*ledger[:target], taken, *ledger[target:]]
    else:
        tampered = [*rest[:target], taken, *rest[target:]]
        assume(_sort_by_series(tampered) != _sort_by_series(ledger))
    assert not verify(relaid(tampered)).intact


@given(seed=SEEDS, at=st.integers(0, 11))
def test_a_forged_record_read_before_the_genuine_one_is_the_one_named(seed: int, at: int) -> None:
    ledger = genuine_ledger(seed, 12)
    genuine = ledger[at]
    assume(fields_of(genuine)["sequence"] < 4)
    forged = seal(fields_of(genuine) | {"note": "forged"})
    first = replace(genuine, offset=genuine.offset + 100, value=json.dumps(forged).encode())
    findings = [f for f in verify([*ledger[:at], first, *ledger[at:]]).findings if f.code == "inserted"]
    assert [finding.offset for finding in findings] == [first.offset]


def test_the_cut_off_tail_is_what_a_bare_chain_cannot_see() -> None:
    ledger = genuine_ledger(1, 12)
    assert verify(ledger[:-1]).intact


def test_nothing_at_all_is_no_finding_and_no_record() -> None:
    report = verify([])
    assert (report.intact, report.records, report.partitions) == (True, 0, {})


def _same_meaning(one: bytes, other: bytes) -> bool:
    try:
        first, second = (rfc8785.dumps(json.loads(text, parse_int=float)) for text in (one, other))
    except ValueError:
        return False
    return first == second


def _sort_by_series(ledger: list[Located]) -> dict[tuple[str, int], list[bytes | None]]:
    series: dict[tuple[str, int], list[bytes | None]] = {}
    for record in ledger:
        series.setdefault((record.topic, record.partition), []).append(record.value)
    return series
