"""Mend 16: the log says in one plain line why a worker stops."""

from __future__ import annotations

import orjson
import pytest
from aiokafka.errors import InvalidProducerIdMapping, InvalidTxnState, KafkaError, ProducerFenced

from sluice.stream.engine.crash_guard import (
    RESERVED_KEY,
    STATE_VERSION,
    PartitionRecord,
    read_state_version,
)
from sluice.stream.engine.intake import OffsetGap
from sluice.stream.engine.takeover import StateBehind, StateTooNew, refuse_if_newer
from sluice.stream.engine.transaction import TransactionOverdue
from sluice.stream.process import EXIT_FAULT, EXIT_FENCED, MOST_SIGNS, choose_ending


def cause(fault: BaseException, by: BaseException) -> BaseException:
    fault.__cause__ = by
    return fault


@pytest.mark.parametrize(
    "fault",
    [
        ProducerFenced(),
        InvalidTxnState(),
        cause(KafkaError("Unexpected error during batch delivery"), InvalidTxnState()),
    ],
)
def test_a_worker_whose_partitions_were_taken_over_says_so(fault: BaseException) -> None:
    found = choose_ending(fault)
    assert (found.status, found.traced) == (EXIT_FENCED, False)
    assert (
        found.line == "the worker stops with status 4: another worker has taken over a partition of this one"
    )


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (StateBehind("the changelog ends at 3"), "StateBehind: the changelog ends at 3"),
        (OffsetGap("expected offset 6, got 8"), "OffsetGap: expected offset 6, got 8"),
        (
            cause(TransactionOverdue("not committed after 60 s"), TimeoutError()),
            "TransactionOverdue: not committed after 60 s",
        ),
        (
            cause(KafkaError("Unexpected error during batch delivery"), InvalidProducerIdMapping()),
            "KafkaError: Unexpected error during batch delivery ← [Error 49] InvalidProducerIdMapping",
        ),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_what_can_happen_to_a_worker_is_told_in_one_line_with_its_cause(
    fault: BaseException, reason: str
) -> None:
    found = choose_ending(fault)
    assert found.line == f"the worker stops with status 3: {reason}"
    assert (found.status, found.traced) == (EXIT_FAULT, False)


def test_a_fault_that_nobody_expected_comes_with_its_traceback() -> None:
    assert choose_ending(KeyError("session")).traced


def test_no_fault_breaks_the_line_or_floods_the_log() -> None:
    line = choose_ending(KafkaError("two\nlines, \x1b[31mred\u202e" + "x" * 10_000)).line
    assert line.isprintable()
    assert len(line) < MOST_SIGNS + 100


def test_state_without_a_version_is_of_the_first_one_and_that_of_a_later_release_is_refused() -> None:
    written = PartitionRecord(sequence=3).encode()
    assert read_state_version(written) == read_state_version(None) == STATE_VERSION
    earlier = {name: value for name, value in orjson.loads(written).items() if name != "state"}
    assert read_state_version(orjson.dumps(earlier)) == 1
    refuse_if_newer(0, {RESERVED_KEY: orjson.dumps(earlier)})
    later = orjson.dumps({**earlier, "state": STATE_VERSION + 1})
    with pytest.raises(StateTooNew, match="partition 4: a later release"):
        refuse_if_newer(4, {RESERVED_KEY: later})
