"""What became of a review, by the record that the ledger has of it."""

from __future__ import annotations

from typing import Any

from sluice.cli.ledger.reviews import Outcome, read_outcome


def outcome(schema: str, **fields: Any) -> Outcome:
    return read_outcome({"schema": f"sluice/{schema}/v1", **fields})


def test_a_review_that_counted_says_how_it_ended() -> None:
    assert outcome("quarantine_approved") == Outcome("approved")
    assert outcome("quarantine_rejected") == Outcome("rejected")
    assert outcome("escalation_resolved", decision="deny") == Outcome("denied")
    assert outcome("grant_revoked") == Outcome("revoked")
    blocked = outcome("escalation_resolved", decision="approve", outcome="BLOCK", blockReason="limits")
    assert blocked == Outcome("approved", "", "limits")
    assert blocked.done


def test_an_approval_of_several_is_counted() -> None:
    counted = {"approvals": 1, "quorum": 2}
    assert outcome("approval_counted", **counted) == Outcome("counted", "", "approval 1 of 2")
    again = outcome("retrieval_approval_counted", **counted, dropped=["ann"])
    assert again.message == "approval 1 of 2, and the count started again"


def test_a_refusal_brings_its_reason() -> None:
    refused = outcome("input_refused", refusal_id="r", reason="wrong_digest", message="of other content")
    assert refused == Outcome("refused", "wrong_digest", "of other content")
    assert not refused.done


def test_a_review_that_came_too_late_has_expired() -> None:
    late = outcome("input_refused", refusal_id="r", reason="expired", message="the memory expired before")
    assert late == Outcome("expired", "expired", "the memory expired before")
    assert not late.done
