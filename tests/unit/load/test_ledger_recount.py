"""A rerun has nothing to say against the fault runs' own traffic, of every kind of input."""

from __future__ import annotations

import pytest

from tests.unit.load.decided import decide, execute_again


@pytest.mark.parametrize("seed", range(4))
def test_an_honest_run_is_executed_again_as_it_was_decided(seed: int) -> None:
    evidence = decide(seed, 150)
    reruns = execute_again(evidence)
    assert [rerun for rerun in reruns if (rerun.status, rerun.not_checked) != ("identical", ())] == []
    assert {"verdict", "memory_decision", "quality_decision"} <= {rerun.kind for rerun in reruns}
    assert any(b"sluice/reservation_settled/v1" in (record.value or b"") for record in evidence.ledger)
