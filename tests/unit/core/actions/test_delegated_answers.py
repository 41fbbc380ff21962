"""Answers that a gateway signs for the people who log in to it: within its bounds and within theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sluice.core.foundation.clock import rfc3339
from sluice.core.registry.keys import SigningKey
from sluice.core.state.escalation import Escalation
from sluice.core.trust.signing import sign_review
from sluice_topics.audience import Audience
from sluice_topics.catalog import REVIEWS
from tests.unit.core.actions.escalation_scene import KEYS, Office, answer_signed_by, approver, grant_request
from tests.unit.core.memory.write_scene import place
from tests.unit.core.retrieval.test_item_approvals import Desk
from tests.unit.core.scene import MINUTE, START, entry, kinds, only, public_key

if TYPE_CHECKING:
    from sluice.core.decide.decision_point import DecisionPoint

GATEWAY = Ed25519PrivateKey.from_private_bytes(bytes([77]) * 32)
KEY = SigningKey(GATEWAY)
ROLES = ("reviewer", "approver", "vp")


def delegate(name: str = "gateway", *, revision: int = 1, **spec: Any) -> dict[str, Any]:
    """The entry of a gateway that signs for all people of acme."""
    key = {"public_key": public_key(GATEWAY), **spec.pop("key", {})}
    return entry(
        "delegate", name, revision, **{"tenants": ["acme"], "keys": [key], "roles": [*ROLES], **spec}
    )


def read_text(name: str = "gateway", channel: str = "browser") -> dict[str, str]:
    """What an answer says of its delegate."""
    return {"id": name, "channel": channel, "key_id": KEY.keyid}


def answer(office: Office, opened: dict[str, Any], by: str, decision: str = "approve", **changed: Any) -> Any:
    """A person's answer, signed by the gateway."""
    changed = {"delegate": read_text(), **changed}
    return office.take(REVIEWS, answer_signed_by(KEY, opened, by, decision, **changed))


def _change_policy(office: Office, point: DecisionPoint) -> None:
    office.replay.point = point


def refusal(decision: Any) -> str:
    """Why the answer does not count."""
    return str(only(decision, "InputRefused")["reason"])


@pytest.mark.parametrize("channel", ["browser", "slack", "api"])
def test_an_answer_through_a_delegate_counts_and_names_person_and_channel(channel: str) -> None:
    office = Office(more=(delegate(),))
    decided = answer(office, office.open_escalation(), "ann", delegate=read_text(channel=channel))
    resolved = only(decided, "EscalationResolved")
    assert (resolved["approver_id"], resolved["approver_entry"]) == ("ann", "approver/ann@1")
    assert (resolved["delegate"]["id"], resolved["delegate"]["channel"]) == ("gateway", channel)
    verdict = only(decided, "ResolvedVerdict")
    assert verdict["outcome"] == "ALLOW"
    assert verdict["approvals"][0]["delegate"]["key_id"] == KEY.keyid
    assert verdict["registry_hashes"]["delegate/gateway@1"] == resolved["delegate"]["entry_hash"]


def test_a_denial_through_a_delegate_ends_it() -> None:
    office = Office(more=(delegate(),))
    decided = only(answer(office, office.open_escalation(), "ann", "deny"), "EscalationResolved")
    assert (decided["decision"], decided["delegate"]["channel"]) == ("deny", "browser")


def test_an_answer_by_the_approvers_own_key_names_no_delegate() -> None:
    office = Office(more=(delegate(),))
    decided = office.answer(office.open_escalation(), "ann")
    assert "delegate" not in only(decided, "EscalationResolved")
    assert "delegate" not in only(decided, "ResolvedVerdict")["approvals"][0]


@pytest.mark.parametrize(
    ("registered", "reason"),
    [
        ((), "not_a_delegate"),
        ((delegate("another"),), "not_a_delegate"),
        ((delegate(tenants=["globex"]),), "not_a_delegate"),
        ((delegate(roles=[]),), "not_a_delegate"),
        ((delegate(roles=["reviewer"]),), "wrong_delegate_role"),
        ((delegate(key={"revoked_at": rfc3339(START)}),), "not_a_delegate"),
        ((delegate(key={"valid_until": rfc3339(START)}),), "not_a_delegate"),
        ((delegate(key={"valid_from": rfc3339(START + 60 * MINUTE)}),), "not_a_delegate"),
        ((delegate(key={"public_key": public_key(KEYS["ben"])}),), "not_a_delegate"),
    ],
)
def test_a_delegate_out_of_its_bounds_signs_for_nobody(
    registered: tuple[dict[str, Any], ...], reason: str
) -> None:
    office = Office(more=registered)
    opened = office.open_escalation()
    assert refusal(answer(office, opened, "ann")) == reason
    assert only(office.answer(opened, "ann"), "ResolvedVerdict")["outcome"] == "ALLOW"


@pytest.mark.parametrize(
    ("by", "reason"),
    [
        ("nobody", "not_an_approver"),
        ("gone", "not_an_approver"),
        ("late", "not_an_approver"),
        ("elsewhere", "not_an_approver"),
        ("finder", "not_an_approver"),
        ("auditor", "wrong_role"),
        ("operator", "own_action"),
    ],
)
def test_the_bounds_of_the_person_count_as_with_an_own_key(by: str, reason: str) -> None:
    office = Office(more=(delegate(), approver("mallory", "approver"), _agent_as_approver()))
    assert refusal(answer(office, office.open_escalation(), by)) == reason


def _agent_as_approver() -> dict[str, Any]:
    return entry("approver", "operator", public_key=public_key(KEYS["mallory"]), roles=["approver"])


def test_the_highest_tier_needs_a_vp_and_a_delegate_for_vps() -> None:
    office = Office(more=(delegate(),))
    opened = office.open_escalation(toolName="pay")
    assert refusal(answer(office, opened, "ann")) == "wrong_role"
    assert only(answer(office, opened, "vera"), "ResolvedVerdict")["outcome"] == "ALLOW"
    lesser = Office(more=(delegate(roles=["approver"]),))
    assert refusal(answer(lesser, lesser.open_escalation(toolName="pay"), "vera")) == "wrong_delegate_role"


def test_a_person_cannot_be_put_in_place_of_another() -> None:
    office = Office(more=(delegate(),))
    opened = office.open_escalation()
    signed = answer_signed_by(KEY, opened, "ann", delegate=read_text())
    assert refusal(office.take(REVIEWS, {**signed, "approver_id": "ben"})) == "wrong_signature"
    assert (
        refusal(office.take(REVIEWS, {**signed, "delegate": read_text(channel="slack")})) == "wrong_signature"
    )
    own = answer_signed_by(SigningKey(KEYS["ben"]), opened, "ann", delegate=read_text())
    assert refusal(office.take(REVIEWS, own)) == "wrong_signature"
    without = {name: one for name, one in signed.items() if name != "delegate"}
    assert refusal(office.take(REVIEWS, without)) == "wrong_signature"


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_where_the_bundle_demands_the_own_key_no_delegate_answers(decision: str) -> None:
    office = Office(more=(delegate(),), policy={"approvals": {"own_key_tiers": ["T4"]}})
    opened = office.open_escalation(toolName="pay")
    assert opened["own_key"] is True
    assert refusal(answer(office, opened, "vera", decision)) == "own_key_needed"
    assert only(office.answer(opened, "vera"), "ResolvedVerdict")["escalation"]["own_key"] is True
    other = office.open_escalation("a-2")
    assert "own_key" not in other
    assert only(answer(office, other, "ann"), "EscalationResolved")["delegate"]["id"] == "gateway"


def test_what_the_policy_of_the_last_approval_demands_counts() -> None:
    office = Office(more=(delegate(),))
    opened = office.open_escalation()
    _change_policy(office, office.point(delegate(), approvals={"own_key_tiers": ["T3"]}))
    assert refusal(answer(office, opened, "ann")) == "own_key_needed"
    assert only(office.answer(opened, "ann"), "ResolvedVerdict")["outcome"] == "ALLOW"


def test_a_counted_approval_lapses_with_the_key_that_signed_it() -> None:
    policy = {"approvals": {"quorum": {"T3": 2}}}
    office = Office(more=(delegate(),), policy=policy)
    opened = office.open_escalation()
    counted = only(answer(office, opened, "ann"), "ApprovalCounted")
    assert counted["delegate"]["entry"] == "delegate/gateway@1"
    (waiting,) = office.replay.book.open.oldest_first()
    assert Escalation.decode(waiting.encode()) == waiting
    revoked = delegate(revision=2, key={"revoked_at": rfc3339(office.now)})
    _change_policy(office, office.point(revoked))
    again = only(office.answer(opened, "ben"), "ApprovalCounted")
    assert (again["approvals"], again["dropped"], again["dropped_because"]) == (1, ["ann"], "not_entitled")
    resolved = only(office.answer(opened, "ann"), "ResolvedVerdict")
    assert [one["approver_id"] for one in resolved["approvals"]] == ["ben", "ann"]


def test_a_delegate_gives_no_grant_and_may_end_one() -> None:
    office = Office(more=(delegate(),))
    opened = office.open_escalation()
    assert refusal(answer(office, opened, "ann", grant=grant_request())) == "own_key_needed"
    given = only(office.answer(opened, "ann", grant=grant_request()), "GrantGiven")
    about = {**opened, "escalation_id": given["grant_id"], "action_digest": given["grant_digest"]}
    ended = only(answer(office, about, "ben", "deny"), "GrantRevoked")
    assert (ended["approver_id"], ended["delegate"]["id"]) == ("ben", "gateway")


def test_a_held_memory_is_reviewed_through_a_delegate_for_reviewers() -> None:
    at = place(delegate(roles=["reviewer"]))
    released = _review(at, at.hold())
    assert kinds(released) == ["QuarantineApproved", "AdmittedMemory", "SourceFeedback"]
    assert only(released, "QuarantineApproved")["delegate"]["channel"] == "browser"
    without = place(delegate(roles=["approver", "vp"]))
    assert refusal(_review(without, without.hold())) == "wrong_delegate_role"
    unsigned = place(delegate(tenants=["globex"]))
    assert refusal(_review(unsigned, unsigned.hold())) == "not_a_delegate"


def _review(at: Any, entered: dict[str, Any]) -> Any:
    fields = {
        "subject_id": entered["memory_id"],
        "session_id": entered["session_id"],
        "decision": "approve",
        "approver_id": "carol",
        "digest": entered["content_digest"],
        "justification": "read and compared",
        "delegate": read_text(),
    }
    return at.take(REVIEWS, sign_review(fields, KEY, Audience()).model_dump(exclude_none=True))


@pytest.mark.parametrize(("later", "outcome"), [(None, "flag"), (rfc3339(START + MINUTE), "deny")])
def test_items_approved_through_a_delegate_are_served_while_it_is_in_force(
    later: str | None, outcome: str
) -> None:
    desk = Desk(delegate(key={"revoked_at": later} if later else {}))
    opened = desk.open_waiting()
    about = {**opened, "action_digest": opened["request_hash"]}
    resolved = only(
        desk.take(REVIEWS, answer_signed_by(KEY, about, "ann", delegate=read_text())),
        "RetrievalEscalationResolved",
    )
    assert resolved["delegate"]["id"] == "gateway"
    desk.now += 2 * MINUTE
    assert desk.again().event["outcome"] == outcome
    assert desk.statuses() == {"identical"}


def test_an_entry_that_signs_for_nobody_is_refused() -> None:
    with pytest.raises(Exception, match="signs for nobody"):
        Office(more=(delegate(agents=False, roles=[]),))
