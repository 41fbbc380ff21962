"""Denied items of a retrieval that a person approves: served once, to exactly the request that waited."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.decide.kinds import read_input_message
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.requests import LAST_PAUSE, READY
from sluice.core.registry.keys import SigningKey
from sluice.core.state.book import Book, EscalationKept
from sluice.core.state.decision import Shared
from sluice.core.trust.signing import sign_review
from sluice_topics.audience import Audience
from sluice_topics.catalog import RETRIEVALS, REVIEWS
from sluice_topics.records import ProposedRetrieval
from tests.unit.core.actions.escalation_scene import KEYS, approver
from tests.unit.core.rerun.reruns import document
from tests.unit.core.retrieval.reading import Reading
from tests.unit.core.retrieval.scene import BUNDLE, OLD, POISONED, Scene, item, policy_bundle, retrieval
from tests.unit.core.scene import LIMITS, entry, only

if TYPE_CHECKING:
    from sluice.core.state.decision import Decision

PAYS: dict[str, Any] = {"agent_id": "high_privilege", "tool_category": "payment", "toolName": "find"}
STALE = item(timestamp=OLD)
HOUR_MS = 3_600_000
PEOPLE = (
    approver("ann", "approver"),
    approver("ben", "approver"),
    approver("vera", "vp"),
    approver("auditor", "reviewer"),
    approver("elsewhere", "approver", tenants=["globex"]),
    approver("finder", "approver", tools=["erase"]),
    approver("gone", "approver", active=False),
    approver("boss", "approver"),
    entry("agent", "owned", tenant_id="acme", tier="T3", autonomy_tier="high_privilege", owner="boss"),
)


class Desk(Scene):
    """A session whose escalations of items people answer."""

    def __init__(self, *more: dict[str, Any], **given: Any) -> None:
        super().__init__(entries=(*PEOPLE, *more), **given)

    def open_waiting(self, *items: dict[str, Any], **fields: Any) -> dict[str, Any]:
        """The escalation that a request for these items opens."""
        (opened,) = self.read(*(items or (STALE,)), **{**PAYS, **fields}).bodies("RetrievalEscalationOpened")
        return opened

    def answer(self, opened: dict[str, Any], by: str = "ann", **changed: Any) -> Decision:
        """An approver's signed answer, a second later."""
        self.now += 1000
        fields = {
            "subject_id": opened["escalation_id"],
            "session_id": opened["session_id"],
            "decision": "approve",
            "approver_id": by,
            "digest": opened["request_hash"],
            "justification": "the old lease is the one in force",
            **changed,
        }
        signed = sign_review(fields, SigningKey(KEYS[changed.get("approver_id", by)]), Audience())
        return self.take(REVIEWS, signed.model_dump(exclude_unset=True))

    def again(self, *items: dict[str, Any], **fields: Any) -> Reading:
        """The request once more, the same bytes unless something is changed."""
        return self.read(*(items or (STALE,)), **{**PAYS, **fields})


def refusal(decision: Decision) -> str:
    """Why an answer did not count."""
    return str(only(decision, "InputRefused")["reason"])


def test_an_approved_item_is_served_once_with_its_flags_and_names_the_approval() -> None:
    desk = Desk()
    opened = desk.open_waiting()
    resolved = only(desk.answer(opened), "RetrievalEscalationResolved")
    assert (resolved["decision"], resolved["request_id"]) == ("approve", opened["request_id"])
    assert resolved["usable_until"] == rfc3339(desk.now + HOUR_MS)
    served = desk.again()
    assert [one["outcome"] for one in served.served["items"]] == ["flag"]
    assert served.served["items"][0]["flags"]["stale"]
    assert served.event["override"] == {
        "override_id": opened["escalation_id"],
        "approver_id": "ann",
        "expires_at": resolved["usable_until"],
        "justification": "the old lease is the one in force",
    }
    assert "approver/ann@1" in served.event["registry_hashes"]
    third = desk.again()
    assert third.event["outcome"] == "deny"
    assert third.bodies("RetrievalEscalationOpened")[0]["escalation_id"] != opened["escalation_id"]
    assert desk.statuses() == {"identical"}


def test_an_approval_that_is_gone_by_the_last_pause_lets_nothing_through() -> None:
    """Whoever is decided before in the same chunk may end so many escalations that this one is forgotten."""
    desk = Desk()
    opened = desk.open_waiting()
    desk.answer(opened)
    input_record = desk.input_record(RETRIEVALS, retrieval(STALE, **PAYS))
    message = read_input_message(input_record)
    assert isinstance(message, ProposedRetrieval)
    evaluation = desk.point.evaluate(input_record, message, desk.state, Shared(desk.book))
    assert next(evaluation) is LAST_PAUSE
    approved = desk.book.escalation(opened["escalation_id"])
    assert approved is not None
    desk.book.apply([EscalationKept(approved._replace(outcome="ALLOW"))])
    with pytest.raises(StopIteration) as decided:
        evaluation.send(READY)
    assert Reading(decided.value.value).event["outcome"] == "deny"


def test_a_denied_escalation_serves_nothing_and_stays_ended() -> None:
    desk = Desk()
    opened = desk.open_waiting()
    resolved = only(desk.answer(opened, decision="deny"), "RetrievalEscalationResolved")
    assert (resolved["decision"], resolved["usable_until"]) == ("deny", None)
    assert refusal(desk.answer(opened, "ben")) == "already_ended"
    assert desk.again().event["outcome"] == "deny"


@pytest.mark.parametrize(
    ("by", "changed", "reason"),
    [
        ("ann", {"digest": "sha256:" + "0" * 64}, "wrong_digest"),
        ("ann", {"session_id": "s-2"}, "unknown_subject"),
        ("ann", {"decision": "reject"}, "wrong_decision"),
        ("ann", {"parameters": {}}, "wrong_decision"),
        ("ann", {"justification": "fine"}, "short_justification"),
        ("auditor", {}, "wrong_role"),
        ("elsewhere", {}, "not_an_approver"),
        ("finder", {}, "not_an_approver"),
        ("gone", {}, "not_an_approver"),
        ("boss", {}, "own_action"),
    ],
)
def test_an_answer_that_may_not_count_changes_nothing(by: str, changed: dict[str, Any], reason: str) -> None:
    desk = Desk()
    opened = desk.open_waiting(agent_id="owned")
    decision = desk.answer(opened, by, **changed)
    assert refusal(decision) == reason
    assert decision.book == ()
    assert desk.again(agent_id="owned").event["outcome"] == "deny"


def test_a_forged_signature_does_not_count() -> None:
    desk = Desk()
    opened = desk.open_waiting()
    fields = {
        "subject_id": opened["escalation_id"],
        "session_id": "s-1",
        "decision": "approve",
        "approver_id": "ann",
        "digest": opened["request_hash"],
        "justification": "signed by somebody else",
    }
    forged = sign_review(fields, SigningKey(KEYS["mallory"]), Audience()).model_dump(exclude_unset=True)
    assert refusal(desk.take(REVIEWS, forged)) == "wrong_signature"


def test_only_exactly_the_request_that_waited_is_served() -> None:
    desk = Desk()
    desk.answer(desk.open_waiting())
    assert desk.again(request_id="r-2").event["outcome"] == "deny"
    assert desk.again(item(timestamp=OLD, body="other words")).event["outcome"] == "deny"
    assert desk.again().event["outcome"] == "flag"


def test_what_is_denied_for_another_reason_stays_denied() -> None:
    desk = Desk()
    items = (STALE, item(item_id="i-2", timestamp=OLD, body=POISONED))
    opened = desk.open_waiting(*items)
    desk.answer(opened)
    events = desk.again(*items).events
    assert [one["outcome"] for one in events] == ["flag", "deny"]
    assert events[1]["stages"][-1]["stage"] == "content"
    assert desk.statuses() == {"identical"}


def test_an_item_that_became_known_as_bad_stays_denied() -> None:
    desk = Desk()
    desk.answer(desk.open_waiting())
    bad = entry("known_bad", "k", tenant_id=None, subject="item", value="i-1", reason="by an attacker")
    desk.entries = (*desk.entries, bad)
    assert desk.again().event["reason_codes"] == ["KNOWN_BAD"]


def test_an_answer_after_its_time_ends_the_escalation_as_expired() -> None:
    desk = Desk()
    opened = desk.open_waiting()
    desk.now += HOUR_MS
    late = desk.answer(opened)
    expired = only(late, "RetrievalEscalationExpired")
    assert (expired["escalation_id"], expired["approvals"]) == (opened["escalation_id"], 0)
    assert refusal(late) == "expired"
    assert desk.again().event["outcome"] == "deny"


def test_time_alone_ends_an_escalation() -> None:
    desk = Desk()
    opened = desk.open_waiting()
    assert desk.book.next_due_ms() == desk.now + HOUR_MS
    assert desk.point.expire_held(desk.book, desk.now + HOUR_MS - 1, 10) is None
    ended = desk.point.expire_held(desk.book, desk.now + HOUR_MS, 10)
    assert ended is not None
    assert only(ended, "RetrievalEscalationExpired")["escalation_id"] == opened["escalation_id"]


@pytest.mark.parametrize("how", ["time", "approver"])
def test_an_approval_counts_while_it_and_its_approver_are_in_force(how: str) -> None:
    desk = Desk()
    desk.answer(desk.open_waiting())
    if how == "time":
        desk.now += HOUR_MS
    else:
        left = approver("ann", "approver", active=False)
        desk.entries = tuple(left if one["id"] == "ann" else one for one in desk.entries)
    assert desk.again().event["outcome"] == "deny"


def test_a_quorum_takes_that_many_approvers() -> None:
    desk = Desk(bundle=BUNDLE)
    desk.policy_of_now = policy_bundle(document(approvals={"quorum": {"T3": 2}}))
    opened = desk.open_waiting()
    assert opened["quorum"] == 2
    counted = only(desk.answer(opened), "RetrievalApprovalCounted")
    assert (counted["approvals"], counted["quorum"]) == (1, 2)
    assert desk.again().event["outcome"] == "deny"
    assert refusal(desk.answer(opened)) == "already_counted"
    only(desk.answer(opened, "vera"), "RetrievalEscalationResolved")
    assert desk.again().event["outcome"] == "flag"


def test_a_restarted_worker_knows_an_approval_until_it_is_used() -> None:
    desk, table = Desk(), dict[bytes, bytes]()

    def restart() -> Book:
        for key, value in desk.book.flush().items():
            if value is None:
                table.pop(key, None)
            else:
                table[key] = value
        return Book(table)

    desk.answer(desk.open_waiting())
    desk.book = restart()
    assert desk.again().event["outcome"] == "flag"
    desk.book = restart()
    assert desk.again().event["outcome"] == "deny"


def test_of_too_many_open_escalations_the_oldest_gives_way() -> None:
    desk = Desk(limits=replace(LIMITS, max_escalations=2))
    opened = [desk.open_waiting(request_id=f"r-{number}") for number in range(2)]
    last = desk.read(STALE, **PAYS, request_id="r-last")
    (evicted,) = last.bodies("RetrievalEscalationExpired")
    assert evicted["escalation_id"] == opened[0]["escalation_id"]
