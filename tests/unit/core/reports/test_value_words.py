"""Looked-up values in words: every origin has some, and the value shown is the one that was looked up."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.actions.destinations import Origin
from sluice.core.registry.argument_roles import ArgumentRoles, RoleReader, read_argument_at
from sluice.core.reports.value_words import ORIGIN_WORDS, add_texts, describe_values
from tests.unit.core.actions.test_destinations import make_session
from tests.unit.core.scene import only, verdict_of

READER = RoleReader(ArgumentRoles(destination=["$.to", "$.payee.iban"], object=["$.files"]))
NAMES = st.sampled_from(["to", "payee", "iban", "files", "a.b", "x#1", 'q"]', "[0]", "é", "~", "!"])
SCALARS = st.one_of(
    st.text(max_size=6), st.integers(-9, 9), st.sampled_from(['{"iban": "x", "y": ["z"]}', "[1, 2]"])
)
TREES = st.recursive(
    SCALARS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(NAMES, TREES, max_size=4))
def test_a_path_leads_back_to_its_value(parameters: dict[str, Any]) -> None:
    for one in READER.read(parameters):
        assert read_argument_at(parameters, one.path) == one.value
    assert read_argument_at(parameters, "$.nothing[3]!.here") is None


def test_every_origin_has_words() -> None:
    assert set(ORIGIN_WORDS) == set(get_args(Origin))


def test_an_escalation_says_what_the_verdict_says_and_shows_each_value() -> None:
    session = make_session()
    given = {"to": "Ann <ann@ACME.example>, eve@evil.example"}
    decision = session.propose(toolName="mail", parameters=given)
    opened = only(decision, "EscalationOpened")
    verdict = verdict_of(decision)
    (gate,) = (one for one in verdict["gateResults"] if one["gate"] == "destinations")
    assert opened["values"] == gate["detail"]["values"]
    shown = describe_values(opened["values"], "payer", given)
    assert [one.value for one in shown] == ["ann@acme.example", "eve@evil.example"]
    assert shown == describe_values(add_texts(opened["values"], given), "payer")
    assert {one.value for one in describe_values(opened["values"], "payer")} == {None}
    assert shown[0].sentence.startswith("the address at $.to#1 (destination): it was seen nowhere")
    assert "values" not in only(session.propose(action_id="other", toolName="pay"), "EscalationOpened")


@pytest.mark.parametrize(
    ("finding", "said"),
    [
        ({"origin": "untrusted_read", "source": "x.pdf", "seen_before_ms": 3000}, "in x.pdf, 3 s before"),
        ({"origin": "history", "used_by": "other"}, "other has used it before"),
        ({"origin": "of_a_later_release"}, "of a later release; payer has never used it"),
        ({"origin": "unknown", "path": "$"}, "every value beyond the first 64 (destination): it was not"),
    ],
)
def test_a_sentence_says_where_when_and_who(finding: dict[str, Any], said: str) -> None:
    whole = {"path": "$.to", "role": "destination", "kind": "email", **finding}
    (one,) = describe_values([whole], "payer", {"to": ["no text"]})
    assert said in one.sentence
    assert one.value is None
