"""Statistics of the memory gate, as people and programs get them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.bootstrap.ledger_reading import GateCounts, LedgerCounts
from sluice.cli.ledger.quarantine_counts import By, build_counted_fields, build_counted_parts
from sluice.cli.output import print_parts
from sluice.core.reports.memory_recount import Behind, compare_statistics
from sluice.core.state.statistics import Statistics, Whose

if TYPE_CHECKING:
    import pytest

ONE, TWO, OTHER = Whose("acme", "one"), Whose("acme", "two"), Whose("zeta", "one")
LIVE = {
    (0, ONE): Statistics(3, 1, 1, 1, 1),
    (1, ONE): Statistics(1, 1),
    (1, TWO): Statistics(2, 2),
    (1, OTHER): Statistics(1, 0, 0, 1),
}
LEDGER = {**LIVE, (1, TWO): Statistics(3, 3)}
UNEQUAL = GateCounts(LIVE, LedgerCounts(LEDGER, compare_statistics(LIVE, LEDGER), [Behind(5, 7, 9)]))


def test_rows_are_by_tenant_or_by_agent_and_the_whole_is_the_same() -> None:
    by_tenant, by_agent = (build_counted_fields(GateCounts(LIVE), by) for by in By)
    assert [(row["tenant"], row["totalEvaluated"]) for row in by_tenant["rows"]] == [("acme", 6), ("zeta", 1)]
    assert [(row["tenant"], row["agent"]) for row in by_agent["rows"]] == [ONE, TWO, OTHER]
    assert by_tenant["overall"] == by_agent["overall"] == Statistics(7, 4, 1, 2, 1).fields()


def test_without_a_recount_nothing_is_said_of_one() -> None:
    assert set(build_counted_fields(GateCounts(LIVE), By.tenant)) == {"by", "rows", "overall"}


def test_a_recount_that_differs_says_where_and_by_how_much() -> None:
    fields = build_counted_fields(UNEQUAL, By.tenant)
    (one,) = fields["differences"]
    assert (one["partition"], one["tenant"], one["agent"]) == (1, "acme", "two")
    assert (one["live"]["allowed"], one["recounted"]["allowed"]) == (2, 3)
    assert fields["behind"] == [{"partition": 5, "state": 7, "ledger": 9}]


def test_only_a_recount_without_difference_or_loss_is_equal() -> None:
    assert LedgerCounts(LIVE, [], []).equal
    assert not LedgerCounts(LIVE, [], [Behind(5, 7, 9)]).equal
    assert not LedgerCounts(LEDGER, compare_statistics(LIVE, LEDGER), []).equal


def test_people_read_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    print_parts(build_counted_parts(UNEQUAL, By.agent))
    text = capsys.readouterr().out
    assert "differs: partition 1, acme two: live (2, 2, 0, 0, 0), ledger (3, 3, 0, 0, 0)" in text
    assert "behind: partition 5: the state ends at sequence 7, the ledger at 9" in text
    assert "equal" not in text
    print_parts(build_counted_parts(GateCounts({}, LedgerCounts({}, [], [])), By.tenant))
    assert "The recount is equal." in capsys.readouterr().out
