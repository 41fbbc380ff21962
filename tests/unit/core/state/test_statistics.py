"""Seed 003's statistics: what each decision and each way out of quarantine adds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.state.statistics import NOTHING, Statistics, Whose, read_statistics
from tests.unit.core.memory.write_scene import HOUR, STRANGER, Place, place
from tests.unit.core.scene import START

OPERATOR = Whose("acme", "operator")
COUNTS = st.builds(Statistics, *[st.integers(0, 2**40)] * 5)


@pytest.mark.parametrize(
    ("fields", "counted"),
    [
        ({}, Statistics(1, 1, 0, 0, 0)),
        ({"derived_from": [STRANGER]}, Statistics(1, 0, 1, 0, 1)),
        ({"timestamp": None}, Statistics(1, 0, 0, 1, 0)),
    ],
)
def test_a_decision_counts_once_under_its_tenant_and_agent(
    fields: dict[str, Any], counted: Statistics
) -> None:
    place = Place()
    place.write(**fields)
    assert place.book.statistics == {OPERATOR: counted}


def test_agents_that_nobody_registered_count_together() -> None:
    place = Place()
    place.write("w-1", agent_id="one")
    place.write("w-2", agent_id="two")
    assert place.book.statistics == {Whose("unregistered", ""): Statistics(2, 0, 0, 2, 0)}


def test_every_way_out_of_quarantine_makes_it_smaller_and_the_rest_stays() -> None:
    full = place(limits={"max_quarantine": 4})
    entered = [full.hold(f"w{number}") for number in range(5)]
    assert full.book.statistics[OPERATOR] == Statistics(5, 0, 5, 0, 4)
    full.review(entered[1], "approve")
    full.review(entered[2], "reject")
    assert full.book.statistics[OPERATOR] == Statistics(5, 0, 5, 0, 2)
    full.expire(START + HOUR)
    assert full.book.statistics[OPERATOR] == Statistics(5, 0, 5, 0, 0)


def test_one_agents_memory_that_evicts_anothers_makes_that_ones_quarantine_smaller() -> None:
    full = place(limits={"max_quarantine": 1})
    full.hold("w-1")
    full.hold("w-2", agent_id="chief")
    assert full.book.statistics[OPERATOR].size == 0
    assert full.book.statistics[Whose("acme", "chief")].size == 1


def test_the_names_are_the_seeds() -> None:
    assert Statistics(4, 1, 1, 2, 1).fields() == {
        "totalEvaluated": 4,
        "allowed": 1,
        "quarantined": 1,
        "rejected": 2,
        "currentQuarantineSize": 1,
    }


@given(COUNTS, COUNTS)
def test_sums_count_everything_once(one: Statistics, two: Statistics) -> None:
    assert one.plus(two) == two.plus(one) == Statistics(*map(sum, zip(one, two, strict=True)))
    assert one.plus(NOTHING) == one


@given(st.text(), st.text())
def test_whose_they_are_survives_the_tables_key(tenant: str, agent: str) -> None:
    whose = Whose(tenant, agent)
    assert Whose.parse_key(whose.key) == whose


def test_a_recovered_table_gives_every_count_and_nothing_else() -> None:
    table = {OPERATOR.key: b"[4,1,1,2,1]", b"s:n:": b"{}", b"p:": b"{}"}
    assert read_statistics(table) == {OPERATOR: Statistics(4, 1, 1, 2, 1)}
