"""Stage "rules": what each kind of rule does to a verdict (seed 000, Stage 1)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sluice.core.cel.cel_values import MAX_ITEMS, MAX_TEXT
from sluice.core.foundation.errors import BundleError
from sluice_topics.records.base import MAX_COUNT
from tests.unit.core.rules.rule_scene import make_ruled, rules_only

TRUE, FALSE, UNKNOWN = "action.rows == 1", "action.rows == 2", "action.parameters.absent == 1"


def rule(name: str = "r", **fields: Any) -> dict[str, Any]:
    """An invariant that holds, some fields changed."""
    return {"id": name, "type": "invariant", "reason": "because", "condition": TRUE, **fields}


def verdict(*rules: dict[str, Any], facts: tuple[dict[str, Any], ...] = (), **fields: Any) -> dict[str, Any]:
    """The verdict on a harmless action under these rules."""
    return make_ruled(list(rules), *facts).verdict(**fields)


@pytest.mark.parametrize(
    ("kind", "condition", "passed", "outcome"),
    [
        ("invariant", TRUE, True, "ALLOW"),
        ("invariant", FALSE, False, "BLOCK"),
        ("invariant", UNKNOWN, None, "ESCALATE"),
        ("assertion", TRUE, True, "ALLOW"),
        ("assertion", FALSE, False, "BLOCK"),
        ("assertion", UNKNOWN, None, "ESCALATE"),
        ("forbidden", TRUE, False, "BLOCK"),
        ("forbidden", FALSE, True, "ALLOW"),
        ("forbidden", UNKNOWN, None, "ESCALATE"),
    ],
)
def test_each_kind_of_rule_decides_by_its_condition(
    kind: str, condition: str, passed: bool | None, outcome: str
) -> None:
    decided = verdict(rule(type=kind, condition=condition))
    assert decided["outcome"] == outcome
    assert decided["rule_results"][0]["passed"] is passed


@pytest.mark.parametrize(
    ("kind", "condition"), [("invariant", FALSE), ("assertion", FALSE), ("forbidden", TRUE)]
)
def test_only_a_failed_assertion_may_be_overruled(kind: str, condition: str) -> None:
    entry_of_rule = verdict(rule(type=kind, condition=condition, severity="warn"))["rule_results"][0]
    assert entry_of_rule == {
        "rule": "r",
        "type": kind,
        "passed": False,
        "severity": "warn",
        "reason": "because",
        "overridable": kind == "assertion",
    }


def test_the_reason_of_a_denial_names_the_rule_and_what_it_says() -> None:
    assert verdict(rule(condition=FALSE))["blockReason"] == "rule_failed: r: because"


def test_an_inconclusive_rule_says_what_was_missing() -> None:
    decided = verdict(rule(condition=UNKNOWN))
    assert "absent" in decided["rule_results"][0]["reason"]
    assert decided["blockReason"].startswith("inconclusive: rule r: ")


@pytest.mark.parametrize(
    ("when", "condition", "passed", "outcome"),
    [
        (FALSE, FALSE, True, "ALLOW"),
        (FALSE, UNKNOWN, True, "ALLOW"),
        (TRUE, FALSE, False, "BLOCK"),
        (UNKNOWN, TRUE, None, "ESCALATE"),
        (UNKNOWN, FALSE, None, "ESCALATE"),
    ],
)
def test_a_rule_speaks_only_when_it_applies(
    when: str, condition: str, passed: bool | None, outcome: str
) -> None:
    decided = verdict(rule(when=when, condition=condition))
    assert (decided["outcome"], decided["rule_results"][0]["passed"]) == (outcome, passed)
    assert decided["rule_results"][0].get("applies", True) is (when != FALSE)


def test_block_beats_escalate_and_every_rule_is_listed_in_order() -> None:
    decided = verdict(rule("a", condition=UNKNOWN), rule("b"), rule("c", condition=FALSE), rule("d"))
    assert decided["outcome"] == "BLOCK"
    assert [(one["rule"], one["passed"]) for one in decided["rule_results"]] == [
        ("a", None),
        ("b", True),
        ("c", False),
        ("d", True),
    ]
    gate = next(one for one in decided["gateResults"] if one["gate"] == "rules")
    assert gate["detail"] == {"rules": 4, "failed": ["c"], "inconclusive": ["a"]}


def test_a_bundle_without_rules_passes_and_lists_none() -> None:
    decided = verdict()
    assert (decided["outcome"], decided["rule_results"]) == ("ALLOW", [])


@pytest.mark.parametrize("kind", ["invariant", "assertion", "forbidden"])
@pytest.mark.parametrize("large", ["x" * (MAX_TEXT + 1), ["x"] * (MAX_ITEMS + 1)], ids=["text", "list"])
@pytest.mark.parametrize(
    "asks", ["has(action.parameters.v)", "!has(action.parameters.v)", "size(action.parameters.v) > 0"]
)
def test_no_rule_passes_on_a_value_too_large_to_see(kind: str, large: Any, asks: str) -> None:
    decided = verdict(rule(type=kind, condition=asks), rule("other"), parameters={"v": large})
    assert [one["passed"] for one in decided["rule_results"]] == [None, True]
    assert (
        decided["rule_results"][0]["reason"]
        == "inconclusive: over_bound: action.parameters.v is too large for rules"
    )


def test_work_beyond_the_limit_is_inconclusive_and_cheap_rules_are_still_decided() -> None:
    heavy = "action.parameters.l.filter(x, x != 1).size() == 0"
    rules = [rule(f"heavy-{place}", condition=heavy) for place in range(20)]
    decided = verdict(*rules, rule("cheap", condition=FALSE), parameters={"l": [1] * MAX_ITEMS})
    passed = [one["passed"] for one in decided["rule_results"]]
    assert passed[0] is True
    assert None in passed[:-1]
    assert passed[-1] is False


@given(st.integers(min_value=2**53, max_value=MAX_COUNT))
@example(MAX_COUNT)
@settings(max_examples=25)
def test_totals_beyond_what_a_float_holds_are_compared_as_what_they_are(rows: int) -> None:
    limit = rule(condition="session.aggregateRowsAffected < 5000000 && action.rows > 0")
    assert verdict(limit, rows_affected=rows)["rule_results"][0]["passed"] is False


def test_session_values_count_this_action_too() -> None:
    session = make_ruled([rule(condition="session.aggregateActionCount < 3")])
    outcomes = [session.verdict(action_id=f"a-{place}")["outcome"] for place in range(3)]
    assert outcomes == ["ALLOW", "ALLOW", "BLOCK"]


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ([rule(), rule()], "$.rules[1].id: another rule is called r"),
        ([rule(), rule("s", condition="1 +")], "$.rules[1].condition: "),
        ([rule(when="action.rows")], "$.rules[0].when: yields INT, not BOOL"),
        ([rule(condition="facts.rate > 1")], "$.rules[0].condition: 1:6: undeclared reference"),
        ([rule(facts={"rate": {"id": "eur"}})], "$.rules[0].facts.rate: is never read"),
        ([rule(facts={"rate": {"id_from": "1"}})], "$.rules[0].facts.rate.id_from: yields INT"),
        (
            [rule(facts={"rate": {"id": "eur", "valid_at_from": "1.5"}})],
            "$.rules[0].facts.rate.valid_at_from: ",
        ),
        ([rule(facts={"rate": {}})], "$.rules[0].facts.rate: "),
        ([rule(facts={"rate": {"id": "a", "id_from": "'b'"}})], "$.rules[0].facts.rate: "),
        ([rule(type="qualitative")], "$.rules[0].type: "),
        ([rule(name) for name in map(str, range(1500))], "$.rules: too many"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_rules_that_cannot_be_meant_refuse_the_bundle(rules: list[dict[str, Any]], says: str) -> None:
    with pytest.raises(BundleError) as refusal:
        rules_only(rules)
    assert str(refusal.value).startswith(says)


def test_an_alias_means_one_fact_in_a_bundle() -> None:
    first = rule("a", condition="facts.rate > 1", facts={"rate": {"id": "eur"}})
    second = rule("b", condition="facts.rate > 1", facts={"rate": {"id": "usd"}})
    with pytest.raises(BundleError, match="names another fact"):
        rules_only([first, second])


def test_a_rule_may_read_only_the_facts_that_it_names() -> None:
    named = rule("a", condition="facts.rate > 1", facts={"rate": {"id": "eur"}})
    with pytest.raises(BundleError, match="is read and not among them"):
        rules_only([named, rule("b", condition="facts.rate > 1")])


def test_two_hundred_rules_are_decided_together() -> None:
    rules = [rule(f"r-{place}", when=TRUE, condition=f"action.rows < {place}") for place in range(200)]
    passed = [one["passed"] for one in verdict(*rules)["rule_results"]]
    assert passed == [False, False, *[True] * 198]


@pytest.mark.parametrize(
    ("condition", "fields"),
    [
        ("agent.id == 'operator' && agent.tier == 'T3' && agent.tenant == 'acme'", {}),
        ("action.id == 'act-1' && action.tool == 'find' && action.type == 'DATABASE_READ'", {}),
        ("action.tier == 'T1' && action.mode == 'high_stakes' && action.rows == 1", {}),
        ("action.mode == 'standard' && !tool.registered", {"mode": "standard", "toolName": "unheard_of"}),
        ("action.reversible == true && action.reasoning == null && action.delegate_to == null", {}),
        ("action.reasoning.contains('why')", {"reasoning": "this is why"}),
        ("action.tool_description == 'finds'", {"tool_description": "finds"}),
        ("action.acknowledged_flags == ['seen']", {"acknowledged_flags": ["seen"]}),
        ("action.acknowledged_flags.size() == 0 && action.governanceContext == {}", {}),
        ("action.governanceContext.chainDepth == 2", {"governanceContext": {"chainDepth": 2}}),
        ("session.id == 's-1' && now == timestamp('2025-11-21T13:00:00Z')", {}),
    ],
)
def test_a_rule_reads_what_is_known_of_the_action(condition: str, fields: dict[str, Any]) -> None:
    assert verdict(rule(condition=condition), **fields)["rule_results"][0]["passed"] is True
