"""The rules of the quality gate, said once more as tables, and every cell of them put through the gate.

Nothing here is made from the gate's code: what a dimension makes of a value, and what a tier makes of a class
that fails, stands below as people would look it up.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from sluice.offline.panels import read_retrieval_row
from sluice.offline.quality_evaluation import judge_retrievals
from tests.unit.core.retrieval.quality_scene import quality_bundle

if TYPE_CHECKING:
    from collections.abc import Iterator

ABSENT = object()
TABLES: dict[str, Any] = {
    "ttl_by_class": {"day": 86400, "blink": 0.1, "ages": None, "untimed_default": 60, "half": 60},
    "ttl_by_tool": {"trader": {"day": 60, "ages": 10, "blink": None}},
    "min_confidence_by_class": {"day": 0.8, "blink": 0, "ages": 1, "untimed_default": 0.5, "half": 0.5},
    "provenance_required_by_class": {
        "day": True,
        "blink": False,
        "ages": True,
        "untimed_default": False,
        "half": True,
    },
    "default_by_class": {"untimed_default": "downgrade", "half": "flag"},
    "action_matrix": {
        "sandbox": {
            "day": {"freshness": "flag", "confidence": "flag", "provenance": "flag"},
            "blink": {"freshness": "pass", "confidence": "pass", "provenance": "pass"},
        },
        "bounded": {
            "day": {"freshness": "deny", "confidence": "downgrade", "provenance": "flag"},
            "blink": {"freshness": "downgrade", "confidence": "pass", "provenance": "deny"},
            "half": {"freshness": "deny"},
        },
        "high_privilege": {
            "day": {"freshness": "deny", "confidence": "deny", "provenance": "deny"},
            "blink": {"freshness": "flag", "confidence": "downgrade", "provenance": "pass"},
            "half": {"confidence": "pass"},
        },
    },
}

# What comes of a class whose dimension fails:  freshness confidence provenance, unregistered scheme.
COMES_TO = """
sandbox         day              flag       flag       flag       flag
sandbox         blink            pass       pass       pass       flag
sandbox         ages             flag       flag       flag       flag
sandbox         untimed_default  downgrade  downgrade  downgrade  downgrade
sandbox         half             flag       flag       flag       flag
sandbox         gossip           downgrade  downgrade  downgrade  downgrade
bounded         day              deny       downgrade  flag       flag
bounded         blink            downgrade  pass       deny       deny
bounded         ages             flag       flag       flag       flag
bounded         untimed_default  downgrade  downgrade  downgrade  downgrade
bounded         half             deny       flag       flag       flag
bounded         gossip           deny       downgrade  deny       deny
high_privilege  day              deny       deny       deny       deny
high_privilege  blink            flag       downgrade  pass       deny
high_privilege  ages             deny       deny       deny       deny
high_privilege  untimed_default  downgrade  downgrade  downgrade  deny
high_privilege  half             flag       pass       flag       deny
high_privilege  gossip           deny       deny       deny       deny
"""
OUTCOMES = {tuple(line.split()[:2]): line.split()[2:] for line in COMES_TO.strip().splitlines()}

NO_TIME: list[Any] = [-0.001, -1, -86400, "60", "", True, False, None, ABSENT, [], {}]
NO_SCORE: list[Any] = [-0.0001, -1, 1.0001, 2, 10**400, "0.9", "", True, False, None, ABSENT, [], {}]
# The ages that are fresh and those that are not, by class; after a tool's name, for that tool.
FRESH: dict[str, list[float]] = {
    "day": [0, 1, 86399, 86399.999, 86400, 86400.0],
    "blink": [0, 0.05, 0.099, 0.1],
    "ages": [0, 86400, 10**12],
    "untimed_default": [0, 60],
    "half": [0, 59.999, 60],
    "trader day": [0, 60],
    "trader blink": [0, 0.1, 0.101, 10**9],
    "trader ages": [0, 10],
    "trader half": [60],
    "gossip": [],
}
STALE: dict[str, list[float]] = {
    "day": [86400.00000000001, 86400.001, 86401, 10**15, 1e300],
    "blink": [0.10000000000000002, 0.101, 1],
    "ages": [],
    "untimed_default": [60.001, 61],
    "half": [60.001, 61],
    "trader day": [60.001, 86400],
    "trader blink": [],
    "trader ages": [10.001, 86400],
    "trader half": [60.001],
    "gossip": [0, 1, 86400],
}
SURE: dict[str, list[float]] = {
    "day": [0.8, 0.8000000000000002, 0.9, 1, 1.0],
    "blink": [0, 0.0, 0.5, 1],
    "ages": [1, 1.0],
    "untimed_default": [0.5, 1],
    "half": [0.5, 1],
    "gossip": [],
}
UNSURE: dict[str, list[float]] = {
    "day": [0.7999999999999999, 0.5, 0, 0.0],
    "blink": [],
    "ages": [0.9999999999999999, 0.5, 0],
    "untimed_default": [0.4999, 0],
    "half": [0.4999, 0],
    "gossip": [0, 0.5, 1],
}
OWN = "doc-4711"
# The reference, whether its hash verified, and what that is.
REFERENCES: list[tuple[Any, Any, str]] = [
    ("https://example.com/source", True, "verified"),
    ("http://example.com/", True, "verified"),
    ("gate-source://ledger/entry", True, "verified"),
    ("gate-feed://prices/today", True, "verified"),
    ("https://example.com/source", False, "unverified"),
    ("https://example.com/source", ABSENT, "unverified"),
    ("https://example.com/source", None, "unverified"),
    ("https://example.com/source", "true", "unverified"),
    ("https://example.com/source", 1, "unverified"),
    (f"https://example.com/{OWN}", True, "unverified"),
    (f"urn:memory:{OWN}", True, "unverified"),
    ("example.com/source", True, "unverified"),
    (5, True, "unverified"),
    ("ftp://example.com/source", True, "unregistered"),
    ("urn:isbn:0451450523", False, "unregistered"),
    ("", False, "missing"),
    ("", True, "missing"),
    (None, True, "missing"),
    (ABSENT, ABSENT, "missing"),
]
# By state: may it pass where a reference is required, may it where none is, and the flag if it does not.
STATES = {
    "verified": (True, True, "provenance_unverified"),
    "unverified": (False, False, "provenance_unverified"),
    "unregistered": (False, False, "provenance_unverified"),
    "missing": (False, True, "provenance_missing"),
}
REQUIRED = {"day": True, "blink": False, "ages": True, "untimed_default": False, "half": True}
WORST_FIRST = ("deny", "downgrade", "flag", "pass")
CASES = [(tier, name, None) for tier, name in OUTCOMES] + [
    (tier, name, "trader")
    for tier in ("sandbox", "bounded", "high_privilege")
    for name in ("day", "blink", "ages", "half")
]


Value = tuple[Any, bool]
"""An age or a score, and whether it is good enough."""


def judge(good: list[Any], bad: list[Any]) -> list[Value]:
    return [(one, True) for one in good] + [(one, False) for one in bad]


def select_near_limit(some: list[Value]) -> list[Value]:
    """The last that is good enough and the first that is not."""
    return [one for one in some if one[1]][-1:] + [one for one in some if not one[1]][:1]


def cells(name: str, tool: str | None) -> Iterator[tuple[Value, Value, tuple[Any, Any, str]]]:
    """Every age with every score, and with a reference of each state; of what is no age, no score, or another
    reference of the same state, every one with the others' nearest two."""
    timed = name if tool is None else f"{tool} {name}"
    ages, scores = judge(FRESH[timed], STALE[timed]), judge(SURE[name], UNSURE[name])
    of_each_state = {state: (uri, verified, state) for uri, verified, state in REFERENCES}.values()
    edge_ages = select_near_limit([*ages, *judge([], NO_TIME)])
    edge_scores = select_near_limit([*scores, *judge([], NO_SCORE)])
    yield from itertools.product(ages, scores, of_each_state)
    yield from itertools.product(judge([], NO_TIME), edge_scores, of_each_state)
    yield from itertools.product(edge_ages, judge([], NO_SCORE), of_each_state)
    yield from itertools.product(edge_ages, edge_scores, REFERENCES)


def item(**fields: Any) -> dict[str, Any]:
    return {field: value for field, value in fields.items() if value is not ABSENT}


def compute_expected(
    tier: str, name: str, fresh: bool, sure: bool, state: str
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Outcome, flags and codes, looked up."""
    when_required, when_not, flag = STATES[state]
    known = name in REQUIRED
    traced = known and (when_required if REQUIRED[name] else when_not)
    freshness, confidence, provenance, unregistered = OUTCOMES[tier, name]
    failed = []
    if not fresh:
        failed.append((freshness, "stale", "FRESHNESS_TTL_EXCEEDED"))
    if not sure:
        failed.append((confidence, "low_confidence", "CONFIDENCE_BELOW_MINIMUM"))
    if not traced:
        outcome = unregistered if state == "unregistered" else provenance
        failed.append((outcome, flag, "PROVENANCE_FAILED"))
    came_to = [one[0] for one in failed] or ["pass"]
    worst = next(outcome for outcome in WORST_FIRST if outcome in came_to)
    return worst, tuple(one[1] for one in failed), tuple(one[2] for one in failed)


@pytest.mark.parametrize(("tier", "name", "tool"), CASES)
def test_every_cell_of_the_grid_comes_out_as_the_tables_say(tier: str, name: str, tool: str | None) -> None:
    rows, wanted = [], []
    for (age, fresh), (score, sure), (uri, verified, state) in cells(name, tool):
        fields = item(
            item_id=OWN,
            content_class=name,
            freshness_age_seconds=age,
            confidence_score=score,
            provenance_uri=uri,
            provenance_hash_verified=verified,
        )
        given = {"item": fields, "quality_bundle": TABLES, "autonomy_tier": tier, "toolName": tool}
        rows.append(read_retrieval_row({"id": "cell", "label": "pass", "input": given}))
        wanted.append(compute_expected(tier, name, fresh, sure, state))
    found = judge_retrievals(rows, quality_bundle())
    differing = [
        (one.row.item, (one.outcome, one.flags, one.codes), what)
        for one, what in zip(found, wanted, strict=True)
        if (one.outcome, one.flags, one.codes) != what
    ]
    assert differing == []


@pytest.mark.parametrize("named", [ABSENT, None, "", 5, True, ["day"], {"day": 1}, "Day", "day "])
@pytest.mark.parametrize(("tier", "outcome"), [("sandbox", "downgrade"), ("high_privilege", "deny")])
def test_a_class_that_is_none_fails_in_everything(named: Any, tier: str, outcome: str) -> None:
    fields = item(
        content_class=named,
        freshness_age_seconds=1,
        confidence_score=1,
        provenance_uri="https://example.com/source",
        provenance_hash_verified=True,
    )
    given = {"item": fields, "quality_bundle": TABLES, "autonomy_tier": tier}
    row = read_retrieval_row({"id": "cell", "label": outcome, "input": given})
    (found,) = judge_retrievals([row], quality_bundle())
    assert (found.outcome, found.flags) == (outcome, ("stale", "low_confidence", "provenance_unverified"))
    assert found.codes == ("FRESHNESS_TTL_EXCEEDED", "CONFIDENCE_BELOW_MINIMUM", "PROVENANCE_FAILED")
