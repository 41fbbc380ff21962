"""Locked facts: which revision speaks of an action, and what a verdict says of it (seed 000, product.md)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.cel.cel_values import MAX_ITEMS
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.errors import RegistryError
from sluice.core.registry.facts import Fact, find_in_force
from tests.unit.core.rules.rule_scene import make_ruled
from tests.unit.core.scene import START, entry, registry

DAY = 86_400_000
TIMES = st.integers(0, 30)


def fact(revision: int, since: int, until: int | None, tenant: str | None = None) -> Fact:
    """A revision of one fact; its value is its revision."""
    return Fact("f", f"fact/f@{revision}", f"sha256:{revision}", revision, since, until, tenant)


def rate(revision: int, value: Any, since: int, until: int | None = None, **more: Any) -> dict[str, Any]:
    """A registry entry of the fact "rate", valid from and to days after the start."""
    valid_to = None if until is None else rfc3339(START + until * DAY)
    spec = {"value": value, "valid_from": rfc3339(START + since * DAY), "valid_to": valid_to, **more}
    return entry("fact", "rate", revision, **spec)


def verdict(*facts: dict[str, Any], reference: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """The verdict under one rule: the rate is 2."""
    held = {
        "id": "r",
        "type": "invariant",
        "reason": "the rate is two",
        "condition": "facts.rate == 2",
        "facts": {"rate": reference or {"id": "rate"}},
    }
    return make_ruled([held], *facts).verdict(**fields)


@pytest.mark.parametrize(
    ("at", "revision"),
    [(9, None), (10, 1), (19, 1), (20, 3), (24, 3), (25, 2), (29, 2), (30, 1), (99, 1)],
)
def test_the_highest_revision_whose_span_holds_the_moment_counts(at: int, revision: int | None) -> None:
    known = [fact(2, 20, 30), fact(1, 10, None), fact(3, 20, 25)]
    found = find_in_force(known, "acme", at)
    assert (None if found is None else found.revision) == revision


def test_revision_ten_is_above_revision_nine() -> None:
    known = [fact(9, 0, None), fact(10, 0, None)]
    found = find_in_force(known, "acme", 5)
    assert found is known[1]


@given(st.lists(st.tuples(TIMES, st.none() | TIMES), max_size=8), TIMES)
def test_what_counts_holds_the_moment_and_nothing_newer_does(spans: list[Any], at: int) -> None:
    known = [fact(place, since, until) for place, (since, until) in enumerate(spans, 1)]
    holding = [
        one for one in known if one.valid_from_ms <= at and (one.valid_to_ms is None or at < one.valid_to_ms)
    ]
    assert find_in_force(known, "acme", at) == (holding[-1] if holding else None)
    assert find_in_force(reversed(known), "acme", at) == find_in_force(known, "acme", at)


def test_a_fact_of_another_tenant_is_not_there() -> None:
    known = [fact(1, 0, None), fact(2, 0, None, "globex")]
    assert find_in_force(known, "acme", 5) is known[0]
    assert find_in_force(known, "globex", 5) is known[1]
    assert find_in_force(known[1:], "acme", 5) is None


def test_a_fact_that_was_used_is_evidence_and_its_hash_is_recorded() -> None:
    decided = verdict(rate(1, 1, -9), rate(2, 2, -8))
    assert decided["outcome"] == "ALLOW"
    assert decided["evidence_refs"] == ["rate"]
    assert decided["rule_results"][0]["facts"] == {"rate": "fact/rate@2"}
    assert decided["registry_hashes"]["fact/rate@2"] == registry(rate(2, 2, -8)).facts["rate"][0].hash
    assert "fact/rate@1" not in decided["registry_hashes"]


def test_a_fact_of_tomorrow_does_not_speak_of_today() -> None:
    assert verdict(rate(1, 2, -1), rate(2, 3, 1))["outcome"] == "ALLOW"


def test_a_fact_that_does_not_resolve_makes_its_rule_inconclusive() -> None:
    decided = verdict(rate(1, 2, 1))
    assert decided["outcome"] == "ESCALATE"
    assert decided["rule_results"][0]["passed"] is None
    assert "unresolved_fact: rate" in decided["rule_results"][0]["reason"]
    assert decided["evidence_refs"] == []


@pytest.mark.parametrize(
    ("reference", "parameters", "outcome"),
    [
        ({"id_from": "action.parameters.which"}, {"which": "rate"}, "ALLOW"),
        ({"id_from": "action.parameters.which"}, {"which": "other"}, "ESCALATE"),
        ({"id_from": "action.parameters.which"}, {"which": 5}, "ESCALATE"),
        ({"id_from": "action.parameters.which"}, {}, "ESCALATE"),
        (
            {"id": "rate", "valid_at_from": "action.parameters.at"},
            {"at": "2025-11-21T15:00:00+02:00"},
            "ALLOW",
        ),
        (
            {"id": "rate", "valid_at_from": "action.parameters.at"},
            {"at": "2025-11-21T12:59:59.999Z"},
            "BLOCK",
        ),
        ({"id": "rate", "valid_at_from": "action.parameters.at"}, {"at": "2020-01-01T00:00:00Z"}, "ESCALATE"),
        ({"id": "rate", "valid_at_from": "action.parameters.at"}, {"at": "yesterday"}, "ESCALATE"),
        ({"id": "rate", "valid_at_from": "now - duration('1h') // before"}, {}, "BLOCK"),
    ],
)
def test_a_reference_may_take_the_fact_and_the_time_from_the_action(
    reference: dict[str, Any], parameters: dict[str, Any], outcome: str
) -> None:
    facts = (rate(1, 1, -9), rate(2, 2, 0))
    assert verdict(*facts, reference=reference, parameters=parameters)["outcome"] == outcome


def test_a_fact_is_only_used_by_a_rule_that_applies() -> None:
    held = {
        "id": "r",
        "type": "invariant",
        "reason": "the rate is two",
        "when": "action.type == 'PAYMENT'",
        "condition": "facts.rate == 2",
        "facts": {"rate": {"id": "rate"}},
    }
    decided = make_ruled([held], rate(1, 1, -9)).verdict()
    assert (decided["outcome"], decided["evidence_refs"]) == ("ALLOW", [])
    assert "fact/rate@1" not in decided["registry_hashes"]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"value": 1, "valid_from": "2025-01-01"}, "valid_from"),
        ({"value": 1, "valid_from": rfc3339(START), "valid_to": rfc3339(START)}, "later than valid_from"),
        ({"value": [0] * (MAX_ITEMS + 1), "valid_from": rfc3339(START)}, "too large"),
        ({"valid_from": rfc3339(START)}, "value"),
    ],
)
def test_a_fact_that_no_rule_could_read_is_refused(spec: dict[str, Any], says: str) -> None:
    with pytest.raises(RegistryError, match=says):
        registry(entry("fact", "f", **spec))
