"""Approvals of actions with sealed values, and approvers who narrow these: sealed as the action's are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluice.core.decide.kinds import read_input_message
from sluice.core.decide.replay import drive
from sluice.core.foundation.sealed_input import Keys
from sluice.core.state.escalation import parameters_digest
from sluice_topics.catalog import REVIEWS
from sluice_topics.records import ReviewDecision
from sluice_topics.sealing import PersonalField, SubjectKey, is_sealed, seal_document
from tests.unit.core.actions.escalation_scene import Office, answer_to
from tests.unit.core.scene import action, only

ANNA, BERT, OTHER = (
    SubjectKey(f"{name}-key", name[0].encode() * 64, tenant)
    for name, tenant in (("anna", "acme"), ("bert", "acme"), ("carl", "globex"))
)
MARK = {"kind": "action", "path": "/parameters/q", "subject": "/parameters/who"}
FIELD = PersonalField("action", ("parameters", "q"), ("parameters", "who"))
PLAIN = "Quixotia"


def office(quorum: int = 1) -> Office:
    """Its bundle marks `q` of an action as personal."""
    keyring = Keys({key.id: key for key in (ANNA, BERT, OTHER)})
    terms = {"approvals": {"quorum": {"T4": quorum}}} if quorum > 1 else {}
    return Office(policy={"personal": [MARK], **terms}, keyring=keyring)


def seal(parameters: dict[str, Any], key: SubjectKey = ANNA) -> dict[str, Any]:
    """Parameters as whoever proposes or narrows seals them."""
    sealed = seal_document(action(parameters=parameters), "action", [FIELD], lambda _: key)
    return dict(sealed["parameters"])


def refusal(decision: Any) -> str:
    return str(only(decision, "InputRefused")["reason"])


@pytest.mark.parametrize("key", [ANNA, BERT])
def test_what_an_approver_seals_is_judged_opened_and_written_sealed(key: SubjectKey) -> None:
    at = office()
    opened = at.open_escalation(parameters=seal({"who": "anna", "q": f"{PLAIN} one"}))
    narrowed = seal({"who": "anna", "q": f"rm -rf / {PLAIN}"}, key)
    decision = at.answer(opened, "vera", parameters=narrowed)
    resolved = only(decision, "ResolvedVerdict")
    assert resolved["outcome"] == "BLOCK", "it was judged as it reads opened"
    assert resolved["narrowed"] == parameters_digest(narrowed)
    assert PLAIN not in json.dumps([record.body for record in decision.records])
    assert any(is_sealed(gate["detail"].get("sealed")) for gate in resolved["gateResults"])


def test_an_approver_may_leave_what_is_sealed_where_it_is() -> None:
    at = office()
    parameters = seal({"who": "anna", "q": PLAIN, "limit": 9})
    opened = at.open_escalation(parameters=parameters)
    resolved = only(at.answer(opened, "vera", parameters=parameters | {"limit": 1}), "ResolvedVerdict")
    assert resolved["outcome"] == "ALLOW"


@pytest.mark.parametrize("quorum", [1, 2])
def test_what_an_approver_leaves_plain_does_not_count(quorum: int) -> None:
    at = office(quorum)
    opened = at.open_escalation(parameters={"who": "anna"})
    decision = at.answer(opened, "vera", parameters={"who": "anna", "q": PLAIN})
    assert refusal(decision) == "not_sealed"
    assert PLAIN not in json.dumps([record.body for record in decision.records])


def test_a_key_of_another_tenant_or_another_place_opens_nothing() -> None:
    at = office()
    opened = at.open_escalation(parameters={"who": "anna"})
    foreign = seal({"who": "carl", "q": PLAIN}, OTHER)
    moved = {"who": "anna", "text": seal({"who": "anna", "q": PLAIN})["q"]}
    for parameters, reason in ((foreign, "content_unavailable"), (moved, "sealed_unmarked")):
        assert refusal(at.answer(opened, "vera", parameters=parameters)) == reason


def test_the_signature_is_over_what_is_sealed() -> None:
    at = office()
    opened = at.open_escalation(parameters={"who": "anna"})
    signed = answer_to(opened, "vera", parameters=seal({"who": "anna", "q": PLAIN}))
    signed["parameters"]["q"] = seal({"who": "anna", "q": "another"})["q"]
    assert refusal(at.take(REVIEWS, signed)) == "wrong_signature"


@pytest.mark.parametrize("marked", ["/parameters/q", "/proposed_action/value/q"])
@pytest.mark.parametrize("where", ["parameters", "proposed_action"])
def test_an_action_with_a_plain_value_that_must_be_sealed_is_denied_unread(where: str, marked: str) -> None:
    fields: dict[str, Any] = {"parameters": {"who": "anna", "q": PLAIN}}
    at = Office(policy={"personal": [{**MARK, "path": marked}]})
    if where == "proposed_action":
        seed = {"action": "erase", "value": {"q": PLAIN}}
        fields = {"proposed_action": seed, "toolName": None, "parameters": None}
    decision = at.propose(**fields)
    (letter,) = [record.body for record in decision.records]
    path = f"$.{where}.q" if where == "parameters" else f"$.{where}.value.q"
    assert (letter["code"], letter["path"], letter["ids"]["action_id"]) == ("not_sealed", path, "a-1")
    assert (letter["value_base64"], letter["truncated"]) == ("", True)
    assert PLAIN not in json.dumps(letter)


@pytest.mark.parametrize("marks", [[], [MARK]])
@pytest.mark.parametrize("form", ["parameters", "proposed_action"])
def test_what_is_sealed_where_nothing_is_marked_is_denied_unread(
    form: str, marks: list[dict[str, str]]
) -> None:
    """Gates would judge the amount, and an approver would see a token."""
    at = Office(policy={"personal": marks}, keyring=Keys({ANNA.id: ANNA}))
    field = PersonalField("action", ("parameters", "amount"))
    sent = action(parameters={"who": "anna", "amount": 1_000_000})
    if form == "proposed_action":
        seed = {"action": "erase", "value": sent.pop("parameters")}
        sent |= {"proposed_action": seed, "toolName": None}
    sealed = seal_document(sent, "action", [field], lambda _: ANNA)
    names = ("toolName", "parameters", "proposed_action")
    call: dict[str, Any] = {name: sealed.get(name) for name in names}
    (letter,) = [record.body for record in at.propose(**call).records]
    assert (letter["code"], letter["path"].rpartition(".")[2]) == ("sealed_unmarked", "amount")


def test_a_waiting_action_may_be_approved_when_its_mark_is_gone() -> None:
    at = office()
    opened = at.open_escalation(parameters=seal({"who": "anna", "q": PLAIN}))
    at.replay.point = at.point(personal=[])
    assert only(at.answer(opened, "vera"), "ResolvedVerdict")["outcome"] == "ALLOW"


def test_a_rerun_opens_what_an_approver_sealed_and_comes_out_the_same() -> None:
    at = office()
    opened = at.open_escalation(parameters=seal({"who": "anna", "q": f"{PLAIN} one"}))
    narrowed = seal({"who": "anna", "q": f"{PLAIN} two"})
    record = at.input_record(REVIEWS, answer_to(opened, "vera", parameters=narrowed))
    resolved = only(at.replay.take(record), "ResolvedVerdict")
    review = read_input_message(record)
    assert isinstance(review, ReviewDecision)
    recorded = json.loads(json.dumps(resolved))
    (again,) = drive(at.replay.point.judge_again(record, review, recorded), at.answer_request)
    assert again.body["rerun_hash"] == resolved["rerun_hash"]
