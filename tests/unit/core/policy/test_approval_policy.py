"""A bundle's terms for approvals: which routes it may have, and which changes let more people through."""

from __future__ import annotations

import json
import re
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.actions.stages import load_bundle
from sluice.core.foundation.errors import BundleError
from sluice.core.policy.approval_policy import ApprovalPolicy
from sluice_topics.relaxations import find_relaxations
from tests.unit.core.scene import BUNDLE_BYTES, bundle, relaxations

TTL_MS = 1000
TWO = {"groups": ["desk", "leads"], "next_after_ms": 400}
GIVEN: dict[str, Any] = {**json.loads(BUNDLE_BYTES), "escalation_ttl_ms": TTL_MS}


@pytest.mark.parametrize(
    ("route", "message"),
    [
        ({}, "groups: Field required"),
        ({"groups": []}, "groups: List should have at least 1"),
        ({"groups": [""]}, "groups[0]: String should have at least 1"),
        ({**TWO, "groups": ["desk", "desk"]}, "a group is named twice"),
        ({"groups": ["desk", "leads"]}, "next_after_ms goes with more than one group"),
        ({"groups": ["desk"], "next_after_ms": 400}, "next_after_ms goes with more than one group"),
        ({**TWO, "next_after_ms": 0}, "next_after_ms: Input should be greater"),
        ({**TWO, "remind_after_ms": 400}, "remind_after_ms must be below next_after_ms"),
        ({**TWO, "remind_after_ms": 0}, "remind_after_ms: Input should be greater"),
        ({**TWO, "next_after_ms": 1000}, "approvals.routing[0]: its last step comes after 1000 ms"),
        ({**TWO, "next_after_ms": 700, "remind_after_ms": 300}, "its last step comes after 1000 ms"),
        ({"groups": ["desk"], "remind_after_ms": 1000}, "its last step comes after 1000 ms"),
        ({"groups": ["desk"], "tools": []}, "tools: List should have at least 1"),
        ({"groups": ["desk"], "tools": ["[b-a]"]}, "approvals.routing[0]"),
        ({"groups": ["desk"], "tiers": ["T5"]}, "tiers[0]: Input should be 'T1'"),
        ({"groups": ["desk"], "surprise": 1}, "surprise: Extra inputs"),
    ],
)
def test_a_route_that_cannot_be_taken_is_refused(route: dict[str, Any], message: str) -> None:
    with pytest.raises(BundleError, match=re.escape(message)):
        load_bundle(json.dumps({**GIVEN, "approvals": {"routing": [route]}}).encode())


def test_the_last_step_may_come_just_before_the_end() -> None:
    route = {**TWO, "next_after_ms": 700, "remind_after_ms": 299}
    assert load_bundle(json.dumps({**GIVEN, "approvals": {"routing": [route]}}).encode()).approvals.routing


def describe(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What is looser, in sentences."""
    pair = ApprovalPolicy(**before), ApprovalPolicy(**after)
    return [one.sentence for one in find_relaxations(*pair)]


def make_routes(*routes: dict[str, Any]) -> dict[str, Any]:
    """These routes as a bundle has them."""
    return {"routing": list(routes)}


DESK, LEADS = {"groups": ["desk"]}, {"groups": ["leads"]}


@pytest.mark.parametrize(
    ("before", "after", "sentences"),
    [
        ({"quorum": {"T4": 2}}, {}, ["an action of T4 needs 1 approvals, not 2"]),
        ({"quorum": {"T3": 3}}, {"quorum": {"T3": 2}}, ["an action of T3 needs 2 approvals, not 3"]),
        ({"quorum": {"T3": 2}}, {"quorum": {"T3": 2, "T4": 2}}, []),
        ({}, make_routes(DESK), []),
        (make_routes(DESK), {}, ["what went to desk: every approver may answer"]),
        (make_routes(DESK), make_routes(LEADS), ["what went to desk: leads may answer too"]),
        (make_routes(TWO), make_routes(DESK), []),
        (make_routes(DESK), make_routes(TWO), ["what went to desk: leads may answer too"]),
        (make_routes(TWO), make_routes({**TWO, "next_after_ms": 500}), []),
        (make_routes(TWO), make_routes({**TWO, "remind_after_ms": 5}), []),
        (
            make_routes(TWO),
            make_routes({**TWO, "next_after_ms": 300}),
            ["what went to desk, then leads: leads may answer after 300 ms, not after 400 ms"],
        ),
        (
            make_routes(TWO),
            make_routes({"groups": ["leads", "desk"], "next_after_ms": 400}),
            ["what went to desk, then leads: leads may answer after 0 ms, not after 400 ms"],
        ),
        (
            make_routes(DESK),
            make_routes({**DESK, "tiers": ["T4"]}),
            ["what went to desk: every approver may answer"],
        ),
        (make_routes({**DESK, "tiers": ["T4"]}), make_routes(DESK), []),
        (
            make_routes({**DESK, "tenants": ["acme"]}, LEADS),
            make_routes(LEADS),
            ["what went to desk: leads may answer too"],
        ),
        (
            make_routes({**DESK, "tools": ["pay*"]}, LEADS),
            make_routes({**DESK, "tools": ["pay*", "refund"]}, LEADS),
            ["what went to leads: desk may answer too", "what went to desk: leads may answer too"],
        ),
        (make_routes({**DESK, "tools": ["a"]}, LEADS), make_routes({**DESK, "tools": ["a"]}, LEADS), []),
        (make_routes({**DESK, "tools": ["a"]}), make_routes({**DESK, "tools": ["a"]}, LEADS), []),
    ],
)
def test_a_change_that_lets_more_people_or_fewer_approvals_through_is_looser(
    before: dict[str, Any], after: dict[str, Any], sentences: list[str]
) -> None:
    assert describe(before, after) == sentences


def test_what_has_too_many_lists_of_tools_to_compare_counts_as_looser() -> None:
    many = [{"groups": ["desk"], "tools": [f"tool{at}"]} for at in range(9)]
    (sentence,) = describe(make_routes(*many), make_routes(*many[:-1]))
    assert "too many lists of tools" in sentence
    assert describe(make_routes(*many), make_routes(*many)) == []


def test_the_comparison_of_bundles_has_it_with_its_paths() -> None:
    old = bundle(approvals={"quorum": {"T4": 2}, **make_routes(DESK)})
    new = bundle(approvals=make_routes(LEADS), escalation_ttl_ms=old.escalation_ttl_ms + 1)
    paths = [one.path for one in relaxations(old, new)]
    assert paths == ["escalation_ttl_ms", "approvals.quorum.T4", "approvals.routing"]
    assert relaxations(new, bundle(approvals=make_routes(LEADS))) == []


PATTERNS = ("pay*", "*refund", "erase")
TOOLS = ("pay", "payrefund", "refund", "erase", "other")
TENANTS = ("acme", "globex", "third")
ROUTE = st.fixed_dictionaries(
    {"groups": st.permutations(["desk", "leads", "board"]).flatmap(lambda of: st.just(of[:2]))},
    optional={
        "tiers": st.lists(st.sampled_from(["T3", "T4"]), min_size=1, max_size=2, unique=True),
        "tools": st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2, unique=True),
        "tenants": st.lists(st.sampled_from(TENANTS[:2]), min_size=1, max_size=2, unique=True),
    },
).flatmap(lambda one: st.sampled_from([{**one, "next_after_ms": ms} for ms in (100, 200)]))
ROUTING = st.lists(ROUTE, max_size=3)


@given(ROUTING, ROUTING)
def test_nobody_gets_a_right_without_a_sentence(before: list[Any], after: list[Any]) -> None:
    """Over all actions, groups and times: where nothing is told, nobody may answer who could not before."""
    if describe(make_routes(*before), make_routes(*after)):
        return
    old, new = ApprovalPolicy(routing=before), ApprovalPolicy(routing=after)
    for action in product(("T3", "T4"), TOOLS, TENANTS):
        one, other = old.find_route(*action), new.find_route(*action)
        for at_ms in (0, 100, 200):
            assert one is None or (
                other is not None and set(other.list_reached(0, at_ms)) <= set(one.list_reached(0, at_ms))
            )


@given(ROUTING)
def test_the_same_routing_is_not_looser(routing: list[Any]) -> None:
    assert describe(make_routes(*routing), make_routes(*routing)) == []
