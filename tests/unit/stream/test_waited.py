"""Mend 1: a worker knows how long an action with a deadline has waited, and the verdict records it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluice.core.actions.verdict import RERUN_FIELDS
from sluice.core.decide.replay import decide
from sluice.core.foundation.input_record import InputRecord
from sluice.core.rerun.rerun_result import compare_records
from sluice.core.state.session import SessionState, session_key
from sluice.stream.engine.evaluation import receive
from sluice_topics.catalog import ACTIONS
from tests.unit.core.scene import START, action, point, verdict_of


def input_record(**fields: Any) -> InputRecord:
    return InputRecord(ACTIONS, 0, 1, START, b"s-1", json.dumps(action(**fields)).encode())


def test_only_an_action_that_names_a_deadline_is_timed() -> None:
    assert receive(input_record(deadline_ms=5)).has_deadline
    assert not receive(input_record()).has_deadline
    assert not receive(InputRecord(ACTIONS, 0, 1, START, b"s-1", b"no json")).has_deadline


@pytest.mark.parametrize(("now_ms", "waited_ms"), [(START, 0), (START + 1500, 1500), (START - 70_000, 0)])
def test_it_waited_from_the_brokers_time_on_and_never_less_than_nothing(now_ms: int, waited_ms: int) -> None:
    assert receive(input_record(deadline_ms=5)).measure_wait(now_ms).input_record.waited_ms == waited_ms


def test_the_verdict_records_it_and_is_the_same_when_decided_again() -> None:
    came = receive(input_record(deadline_ms=1000)).measure_wait(START + 1000).input_record
    first = verdict_of(decide(point(), came, SessionState(session_key("s-1"))))
    assert (first["outcome"], first["waited_ms"]) == ("BLOCK", 1000)
    again = verdict_of(decide(point(), came, SessionState(session_key("s-1"))))
    assert compare_records(RERUN_FIELDS, first, again) == ()
