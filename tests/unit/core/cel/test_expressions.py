"""Conditions are type-checked when they are loaded, and when they are evaluated nothing is raised."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from cel_expr_python import cel
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.cel.cel_values import Values
from sluice.core.cel.language import MAX_FAILURE, ExpressionError, Failure, Language

NOW = datetime(2025, 11, 21, 13, tzinfo=UTC)
LANGUAGE = Language(
    {
        "action.tool": cel.Type.STRING,
        "action.rows": cel.Type.INT,
        "action.reversible": cel.Type.DYN,
        "p": cel.Type.Map(cel.Type.STRING, cel.Type.DYN),
        "now": cel.Type.TIMESTAMP,
    }
)


def value(source: str, **parameters: Any) -> Any:
    """What an expression comes to."""
    variables = {
        "action.tool": "pay",
        "action.rows": 3,
        "action.reversible": None,
        "p": parameters,
        "now": NOW,
    }
    activation = LANGUAGE.make_activation(Values(variables).variables)
    return LANGUAGE.compile(source).evaluate(activation)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("action.tol == 'pay'", "undeclared reference to 'action.tol'"),
        ("action.tool > 3", "no matching overload"),
        ("action.rows", "yields INT, not BOOL"),
        ("p.flag", "yields DYN, not BOOL"),
        ("1 +", "Syntax error"),
        ("", "Syntax error"),
        ("x" * 4097, "over 4096 characters"),
        ("(" * 60 + "true" + ")" * 60, "recursion"),
        ("+".join(["1"] * 500) + " == 1", "recursion"),
        ("p.n == 99999999999999999999", "invalid int literal"),
    ],
)
def test_a_condition_that_is_wrong_is_refused_when_it_is_loaded(source: str, says: str) -> None:
    with pytest.raises(ExpressionError, match=says):
        LANGUAGE.compile(source, ("BOOL",))


@pytest.mark.parametrize(
    "source",
    [
        "p.absent == 1",
        "p.n / 0 == 1",
        "p.text > 3",
        "p.n * 2.5 > 1.0",
        "timestamp(p.text) < now",
        "p.list[7] == 1",
        "p.n + 9223372036854775807 > 0",
        "p.list.all(one, one.startsWith('a'))",
        "action.reversible.deep == 1",
        "int(p.text) == 1",
        "p[p.text] == 1",
    ],
)
def test_what_has_no_value_is_a_failure(source: str) -> None:
    found = value(source, n=1, text="seven", list=[1, 2])
    assert isinstance(found, Failure)
    assert 0 < len(found.message) <= MAX_FAILURE


def test_a_failure_message_is_short_whatever_it_quotes() -> None:
    assert len(value("p[p.key] == 1", key="k" * 10_000).message) == MAX_FAILURE


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("p.n > 1.5", True),
        ("p.whole == 7", True),
        ("p.n == 2 || p.absent == 1", True),
        ("p.n == 3 && p.absent == 1", False),
        ("has(p.absent)", False),
        ("action.reversible == null", True),
        ("now - timestamp('2025-11-21T12:00:00Z') == duration('1h')", True),
        ("'\\u00e9' in p.list", True),
    ],
)
def test_a_condition_reads_json_as_people_do(source: str, found: bool) -> None:
    assert value(source, n=2, whole=7.0, list=["é"]) is found


@given(st.integers(min_value=2**63) | st.integers(max_value=-(2**63) - 1))
def test_an_integer_beyond_int64_breaks_nothing_around_it(number: int) -> None:
    assert value("p.other == 1", number=number, other=1, deep={"list": [number]}) is True
    assert value("p.number > 0", number=number) is (number > 0)


def test_an_integer_of_int64_is_exact() -> None:
    assert value("p.a == p.b", a=2**63 - 1, b=2**63 - 2) is False


def test_has_of_a_variable_is_refused_and_of_a_field_below_it_is_not() -> None:
    with pytest.raises(ExpressionError, match="compare it with null"):
        LANGUAGE.compile("has(action.reversible)")
    assert value("has(p.x) && has(p.x.y)", x={"y": 0}) is True
