"""Mend 5: the recount has nothing to say against the fault runs' own traffic, of every kind of input."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from load.installations import neutral_policy, quality_policy
from sluice.core.foundation.input_record import InputRecord
from sluice.core.registry.keys import Roots
from sluice.core.rerun.policy_then import DecisionSettings, PolicyThen
from sluice.core.rerun.recomputation import EnteredRecord, Recomputation
from sluice.core.rerun.walk import WrittenRecord, group_answers, read_entry
from tests.unit.load.decided import BEGAN_MS, LIMITS, PREFIX, STAGES, TRUST, decide


@cache
def then() -> PolicyThen:
    ends: Counter[str] = Counter()
    control = []
    for topic, key, value in neutral_policy.records(TRUST, BEGAN_MS):
        control.append(InputRecord(topic, 0, ends[topic], BEGAN_MS, key, value))
        ends[topic] += 1
    roots = Roots([TRUST.root_key])
    names = neutral_policy.BUNDLE, quality_policy.BUNDLE, "test"
    return PolicyThen(control, roots, DecisionSettings(STAGES, roots, *names, LIMITS, 0, "here"))


@pytest.mark.parametrize("seed", range(4))
def test_an_honest_run_is_recounted_as_it_was_decided(seed: int) -> None:
    evidence = decide(seed, 150)
    inputs = {}
    for one in evidence.inputs:
        base = one.topic.removeprefix(PREFIX)
        inputs[base, 0, one.offset] = InputRecord(base, 0, one.offset, one.timestamp_ms, one.key, one.value)
    written = [
        WrittenRecord(
            one.topic.removeprefix(PREFIX), 0, one.offset, one.timestamp_ms, one.key, one.value or b"", ()
        )
        for one in evidence.ledger
    ]
    entries = [entry for one in written if (entry := read_entry(one)) is not None]
    assert len(entries) == len(written)
    recount = Recomputation(then(), LIMITS)
    said: Counter[str] = Counter()
    for group in group_answers(entries):
        place = group[0].coordinates
        taken = [EnteredRecord(one.fields, one.written.written_ms) for one in group]
        found = recount.take(taken, None if place is None else inputs.get(place))
        for entry, counted in zip(group, found, strict=True):
            said[entry.fields["schema"]] += 1
            assert (counted.differences, counted.not_checked) == ((), ()), entry.fields
    assert {"sluice/verdict/v1", "sluice/memory_decision/v1", "sluice/reservation_settled/v1"} <= said.keys()
