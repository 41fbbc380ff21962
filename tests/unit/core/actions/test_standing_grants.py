"""Standing grants: what an agent may do without asking again, how often, until when, and who ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.actions.authority import Controls, TierAuth
from sluice.core.actions.stage import PASSED
from sluice.core.foundation.requests import Request
from sluice.core.state.book import Book
from sluice_topics.catalog import REVIEWS
from tests.unit.core.actions.escalation_scene import APPROVERS, Office, answer_to, grant_request
from tests.unit.core.actions.test_approvals import refusal
from tests.unit.core.scene import entry, kinds, only

if TYPE_CHECKING:
    from sluice.core.actions.stage import ActionContext, Asking


def grant(office: Office, by: str = "ann", **asked: Any) -> dict[str, Any]:
    """An approval with a grant; the GrantGiven."""
    opened = office.open_escalation("first")
    return only(office.answer(opened, by, grant=grant_request(**asked)), "GrantGiven")


def word(office: Office, action_id: str, **fields: Any) -> str:
    """The verdict on an action that would need an approver."""
    return str(only(office.propose(action_id, **fields), "Verdict")["verdict"])


def revoke(office: Office, given: dict[str, Any], by: str, **changed: Any) -> Any:
    """An approver's signed revocation."""
    opened = {
        "escalation_id": given["grant_id"],
        "session_id": given["session_id"],
        "action_digest": given["grant_digest"],
    }
    return office.take(REVIEWS, answer_to(opened, by, "deny", **changed))


def test_a_grant_lets_actions_through_as_often_as_it_says_and_each_use_is_told() -> None:
    office = Office()
    given = grant(office)
    assert (given["tool"], given["uses"], given["approver_id"]) == ("erase", 2, "ann")
    used = office.propose("a-1")
    assert kinds(used) == ["Verdict", "GrantUsed"]
    verdict = only(used, "Verdict")
    assert (verdict["verdict"], verdict["grant"]["uses_left"]) == ("allowed", 2)
    assert only(used, "GrantUsed")["uses_left"] == 1
    assert "approver/ann@1" in verdict["registry_hashes"]
    assert word(office, "a-2") == "allowed"
    assert (word(office, "a-3"), office.rows()) == ("needs_human", 9)
    assert office.replay.book.grants == {}


def test_a_grant_is_for_its_agent_tool_and_session_alone() -> None:
    office = Office((entry("agent", "twin", tenant_id="acme", tier="T3"),))
    grant(office)
    assert word(office, "a-1", agent_id="twin") == "needs_human"
    assert word(office, "a-2", session_id="s-2") == "needs_human"
    assert word(office, "a-3", toolName="pay") == "needs_human"
    assert word(office, "a-4") == "allowed"


def test_a_condition_bounds_it_and_what_cannot_be_decided_is_not_covered() -> None:
    office = Office()
    grant(office, uses=9, when="double(action.parameters.amount) < 100.0")
    assert word(office, "a-1", parameters={"amount": 20}) == "allowed"
    assert word(office, "a-2", parameters={"amount": 200}) == "needs_human"
    assert word(office, "a-3", parameters={}) == "needs_human"


def test_it_ends_by_time() -> None:
    office = Office()
    grant(office, minutes=1)
    office.now += 60_000
    assert word(office, "a-1") == "needs_human"


@pytest.mark.parametrize("change", [{"active": False}, {"roles": ["reviewer"]}, {"tools": ["find"]}])
def test_it_counts_only_while_its_signer_may_approve(change: dict[str, Any]) -> None:
    office = Office()
    grant(office)
    (ann,) = [one for one in APPROVERS if one["id"] == "ann"]
    other = {**ann, "revision": 2, "spec": {**ann["spec"], **change}}
    office.replay.point = office.point(other)
    assert word(office, "a-1") == "needs_human"


def test_what_a_gate_blocks_stays_blocked() -> None:
    office = Office()
    grant(office)
    blocked = office.propose("a-1", parameters={"statement": "DROP TABLE accounts"})
    assert only(blocked, "Verdict")["verdict"] == "denied"
    assert kinds(blocked) == ["Verdict"]


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ({"toolName": "pay"}, {}),
        ({}, {"minutes": -1}),
        ({}, {"when": "action.parameters.amount <"}),
    ],
)
def test_a_grant_that_nobody_may_give_is_refused(fields: dict[str, Any], asked: dict[str, Any]) -> None:
    office = Office()
    opened = office.open_escalation("first", **fields)
    assert refusal(office.answer(opened, "vera", grant=grant_request(**asked))) == "wrong_grant"
    assert refusal(office.answer(opened, "vera", "deny", grant=grant_request())) == "wrong_decision"
    assert len(office.replay.book.open) == 1


class _Asking:
    """Asks somebody about every action, and has nothing against it."""

    name = "asking"

    def evaluate(self, _: ActionContext) -> Asking:
        yield Request("somebody", {}, 100)
        return PASSED


def test_what_was_asked_before_the_grant_was_found_is_in_the_record_too() -> None:
    """A rerun asks in the same order: once without the grant, once with it."""
    office = Office(stages=[Controls(), _Asking(), TierAuth()])
    grant(office)
    verdict = only(office.propose("a-1"), "Verdict")
    assert (verdict["verdict"], [one["gate"] for one in verdict["model_outputs"]]) == (
        "allowed",
        ["asking", "asking"],
    )


def test_any_approver_in_force_revokes_it_at_once() -> None:
    office = Office()
    given = grant(office)
    for by, changed, reason in (
        ("mallory", {}, "not_an_approver"),
        ("elsewhere", {}, "not_an_approver"),
        ("finder", {}, "wrong_role"),
        ("auditor", {}, "wrong_role"),
        ("ben", {"key": "mallory"}, "wrong_signature"),
        ("ben", {"digest": "sha256:" + "1" * 64}, "wrong_digest"),
        ("ben", {"decision": "approve"}, "wrong_decision"),
        ("ben", {"session_id": "s-2"}, "unknown_subject"),
    ):
        opened = {
            "escalation_id": given["grant_id"],
            "session_id": given["session_id"],
            "action_digest": given["grant_digest"],
        }
        decision = answer_to(opened, by, **{"decision": "deny", **changed})
        assert refusal(office.take(REVIEWS, decision)) == reason
    revoked = revoke(office, given, "ben")
    assert kinds(revoked) == ["GrantRevoked"]
    assert only(revoked, "GrantRevoked")["uses_left"] == 2
    assert word(office, "a-1") == "needs_human"
    assert refusal(revoke(office, given, "ben")) == "unknown_subject"


def test_the_table_gives_back_its_grants() -> None:
    office = Office()
    grant(office)
    word(office, "a-1")
    book = office.replay.book
    again = Book({key: value for key, value in book.flush().items() if value is not None})
    assert again.grants == book.grants != {}
