"""Rules are evaluated in lists for speed, and each comes to what it comes to alone."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.cel.bounds import MAX_SOURCE
from sluice.core.cel.cel_values import MAX_ITEMS, MAX_TEXT
from sluice.core.foundation.clock import rfc3339
from sluice.core.rules.rule import FactReference, Rule
from sluice.core.rules.rule_set import RuleSet
from sluice.core.rules.variables import Cited, moment
from tests.unit.core.scene import START, entry, registry

RATE = registry(entry("fact", "rate", value=2, valid_from=rfc3339(START)))
CITED = Cited(RATE.facts, "acme", START)
FACTS = {
    "rate": FactReference(id="rate"),
    "named": FactReference(id_from="action.parameters.text"),
    "past": FactReference(id="rate", valid_at_from="now - duration('1h') // before it was valid"),
}
PLAIN = (
    "action.rows == 1",
    "action.rows == 2 // and a comment",
    "action.reversible == null",
    "action.parameters.n > 3",
    "has(action.parameters.n) && action.parameters.n < 5.5",
    "1 / (action.rows - 1) > 0",
    "action.parameters.absent == 1",
    "action.parameters.absent == 1 || action.rows == 1",
    "action.parameters.text.contains('rate')",
    "action.parameters.text.matches('^[a-z]+$')",
    "action.parameters.l.all(one, one != 'x')",
    "action.parameters.l.filter(one, one == 1).size() > 1",
    "action.parameters.size() < 3",
    "action.parameters == {}",
    "[1, 2].exists(one, one == action.rows)",
    "now > timestamp('2025-01-01T00:00:00Z') ? action.rows > 0 : false",
    "(" * 30 + "true" + ")" * 30,
)
CITING = (
    "facts.rate == action.rows",
    "facts.named == 2",
    "facts.rate == 2 && action.parameters.n == 1",
    "facts.past == 2",
)
Written = tuple[str, str | None, str]
RULES = st.tuples(
    st.sampled_from(["invariant", "assertion", "forbidden"]),
    st.none() | st.sampled_from(PLAIN + CITING),
    st.sampled_from(PLAIN * 3 + CITING),
)
PARAMETERS = st.fixed_dictionaries(
    {},
    optional={
        "n": st.sampled_from([1, 4, 5.5, 2**70, "1", None]),
        "text": st.sampled_from(["rate", "Rate 1", "", 7, "x" * (MAX_TEXT + 1)]),
        "l": st.sampled_from([[], ["x"], [1] * 20, [0] * (MAX_ITEMS + 1), 3]),
    },
)


def compile_rules(*written: Written) -> RuleSet:
    """The rules, called by their places."""
    rules = []
    for place, (kind, when, condition) in enumerate(written):
        facts = {name: one for name, one in FACTS.items() if f"facts.{name}" in f"{when} {condition}"}
        fields = {"id": f"r{place}", "type": kind, "reason": "because", "when": when, "condition": condition}
        rules.append(Rule.model_validate({**fields, "facts": facts}))
    return RuleSet(rules)


@cache
def alone(written: Written) -> RuleSet:
    """One rule in a bundle of its own."""
    return compile_rules(written)


def read_text(rules: RuleSet, variables: dict[str, Any]) -> list[dict[str, Any]]:
    """What the verdict says of each, but for their names."""
    return [{**one.entry, "rule": ""} for one in rules.evaluate(variables, CITED)]


def variables_with(parameters: dict[str, Any], rows: int) -> dict[str, Any]:
    """What the rules above read."""
    now = moment(START)
    return {"action.rows": rows, "action.reversible": None, "now": now, "action.parameters": parameters}


@settings(max_examples=40, deadline=None)
@given(
    st.lists(RULES, min_size=1, max_size=20),
    st.sampled_from([1, 1, 1, 7]),
    st.lists(st.tuples(PARAMETERS, st.integers(1, 2)), min_size=1, max_size=6),
)
def test_what_a_rule_comes_to_does_not_depend_on_the_rules_around_it(
    written: list[Written], times: int, actions: list[tuple[dict[str, Any], int]]
) -> None:
    together = compile_rules(*written * times)
    for parameters, rows in actions:
        variables = variables_with(parameters, rows)
        each = [read_text(alone(one), variables)[0] for one in written]
        assert read_text(together, variables) == each * times


def test_one_undecided_rule_of_many_leaves_the_others_as_they_are() -> None:
    written: list[Written] = [("invariant", None, "action.rows == 1")] * 150
    written[70] = ("invariant", None, "action.parameters.absent == 1")
    found = compile_rules(*written).evaluate(variables_with({}, 1), CITED)
    assert [place for place, one in enumerate(found) if one.passed is not True] == [70]
    assert "absent" in str(found[70].why)


def test_rules_too_long_for_one_list_are_decided_all_the_same() -> None:
    long = "action.rows == 2" + " " * (MAX_SOURCE - 16)
    found = compile_rules(*[("forbidden", long, "true")] * 30).evaluate(variables_with({}, 2), CITED)
    assert all(one.passed is False for one in found)
