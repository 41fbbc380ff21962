"""Reviews of what is held: one memory approved, one rejected, the rest left to time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.review_signing import signed_review
from app.demo.answers import ENTERED
from app.demo.memories import HELD_TO_APPROVE, HELD_TO_REJECT
from app.demo.plan import input_of
from app.demo.trust import REVIEWER
from topics.catalog import REVIEWS

if TYPE_CHECKING:
    from app.core.trust.keys import SigningKey
    from app.demo.answers import Answers
    from app.demo.plan import Planned

DECISIONS = {HELD_TO_APPROVE: "approve", HELD_TO_REJECT: "reject"}
JUSTIFICATIONS = {
    "approve": "compared with the closing report of March",
    "reject": "hearsay, and the closing report says otherwise",
}


def make_reviews(answers: Answers, reviewer: SigningKey, time: str) -> list[Planned]:
    """Signed reviews of the story's held memories; one comes twice, since a review counts once."""
    entered = [one for one in answers.quarantine if one["schema"] == ENTERED]
    reviews = [_review(one, reviewer, time) for one in entered if one["write_id"] in DECISIONS]
    return [*reviews, *reviews[:1]]


def _review(entered: dict[str, Any], reviewer: SigningKey, time: str) -> Planned:
    decision = DECISIONS[entered["write_id"]]
    fields = {
        "subject_id": entered["memory_id"],
        "session_id": entered["session_id"],
        "decision": decision,
        "approver_id": REVIEWER,
        "digest": entered["content_digest"],
        "justification": JUSTIFICATIONS[decision],
    }
    signed = signed_review(fields, reviewer).model_dump()
    return input_of("review", REVIEWS, entered["memory_id"], signed, time)
