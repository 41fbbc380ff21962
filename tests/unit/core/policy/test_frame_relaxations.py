"""Mend 22.11: what the gates share can make a bundle looser too, and is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.core.scene import BUNDLE_BYTES, bundle, relaxations

SHIPPED: dict[str, Any] = json.loads(BUNDLE_BYTES)


def describe(**changes: Any) -> list[str]:
    return [one.sentence for one in relaxations(bundle(), bundle(**changes))]


def add_type(name: str, **changes: Any) -> dict[str, Any]:
    types: dict[str, Any] = SHIPPED["action_types"]
    return {**types, name: {**types[name], **changes}}


def test_the_same_bundle_is_not_looser() -> None:
    assert describe() == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"irreversible_row_threshold": 9000},
            "what cannot be undone is denied above 9000 rows, not above 1000",
        ),
        (
            {"outcomes": {**SHIPPED["outcomes"], "unsigned_factor": 1000}},
            "an outcome without a signature may claim 1000 times the reserved rows, not 10 times",
        ),
        (
            {"outcomes": {**SHIPPED["outcomes"], "alarm_recipient": "nobody"}},
            "alarms of outcomes go to nobody, who may not read them",
        ),
        (
            {
                "action_types": add_type(
                    "PAYMENT", tier={"reversible": "T1", "irreversible": "T4", "unknown": "T4"}
                )
            },
            "PAYMENT of reversible effect has tier T1, not T3",
        ),
        ({"action_types": add_type("PAYMENT", risk=0)}, "PAYMENT counts as 0 per mille of risk, not 800"),
        (
            {"action_types": add_type("PAYMENT", reversible=True)},
            "PAYMENT is no longer taken for what cannot be undone",
        ),
        (
            {"action_types": add_type("PAYMENT", words=[])},
            "a tool called 'pay' counts as OTHER, not as PAYMENT",
        ),
    ],
)
def test_a_looser_bound_is_told(changes: dict[str, Any], sentence: str) -> None:
    assert sentence in describe(**changes)


def test_lower_bounds_on_unknown_rows_are_looser() -> None:
    name, policy = next(
        (name, one) for name, one in SHIPPED["action_types"].items() if one["rows_upper_bound"] > 1
    )
    found = describe(action_types=add_type(name, rows_upper_bound=1))
    assert found == [f"unknown rows of {name} count as 1, not {policy['rows_upper_bound']}"]


@pytest.mark.parametrize(
    "changes",
    [
        {"irreversible_row_threshold": 10},
        {"action_types": add_type("DATABASE_READ", risk=1000)},
        {
            "action_types": add_type(
                "DATABASE_READ", tier={"reversible": "T4", "irreversible": "T4", "unknown": "T4"}
            )
        },
    ],
)
def test_a_stricter_bound_is_not_told(changes: dict[str, Any]) -> None:
    assert describe(**changes) == []
