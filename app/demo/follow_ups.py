"""The inputs that follow on answers: outcomes, reports of stores, reviews, and overrides of denied items.

Outcomes are made up: the rows that each allowed action really touched. A store reports the items of each
reading, and once one more than was decided on. Of the held memories a reviewer approves one and rejects one;
the rest are left to time. A denied item that waits for a person gets a signed override, and the agent asks
again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.core.foundation.clock import milliseconds_of, rfc3339
from app.core.trust.signing import signed_review
from app.demo.demo_answers import ENTERED
from app.demo.inputs.panel_sessions import HELD_TO_APPROVE, HELD_TO_REJECT
from app.demo.inputs.plan import input_of, retrieval_of
from app.demo.inputs.readings import STORY_AGAIN, STORY_READ
from app.demo.inputs.throwaway_trust import REVIEWER
from topics.catalog import OUTCOMES, REPORTED, REVIEWS, VERDICTS

if TYPE_CHECKING:
    import random

    from app.core.registry.keys import SigningKey
    from app.demo.demo_answers import AnsweredRetrieval, Answers
    from app.demo.inputs.demo_config import Override, Recipe
    from app.demo.inputs.plan import Planned

_HOUR_MS = 3600 * 1000


@dataclass(frozen=True, slots=True)
class FollowUps:
    """Registry entries to be signed by the reviewer, and the retrievals to be asked again."""

    entries: list[dict[str, Any]]
    again: list[Planned]


def answer_escalations(answers: Answers, override: Override, time: str) -> FollowUps:
    """Of every retrieval that opened an escalation; `time` as for `make_plan`."""
    waiting = [one for one in answers.retrievals() if one.escalated]
    entries = [_override(decision, override) for one in waiting for decision in one.escalated]
    return FollowUps(entries, [_again(one, time) for one in waiting])


def _override(decision: dict[str, Any], override: Override) -> dict[str, Any]:
    """For exactly this item, body, agent and session."""
    until = milliseconds_of(decision["timestamp"]) + override.hours * _HOUR_MS
    spec = {
        "tenant_id": decision["tenant_id"],
        "item_id": decision["item_id"],
        "agent_id": decision["agent_id"],
        "session_id": decision["session_id"],
        "body_digest": decision["body_digest"],
        "approver_id": REVIEWER,
        "expires_at": rfc3339(until),
        "justification": override.justification,
    }
    return {"kind": "quality_override", "id": f"for-{decision['item_id']}", "revision": 1, "spec": spec}


def _again(one: AnsweredRetrieval, time: str) -> Planned:
    return retrieval_of(one.planned.fields | {"request_id": STORY_AGAIN}, time)


def make_outcomes(answers: Answers, recipe: Recipe, rng: random.Random, time: str) -> list[Planned]:
    """An outcome for every so many-th allowed action, reported by its agent; `time` as for `make_plan`."""
    allowed = [
        one.planned.fields
        for one in answers.of(VERDICTS)
        if one.body["verdict"] == "allowed" and one.planned.kind == "action"
    ]
    return [_outcome(action, recipe, rng, time) for action in allowed[:: recipe.outcome_every]]


def _outcome(action: dict[str, Any], recipe: Recipe, rng: random.Random, time: str) -> Planned:
    fields = {
        "action_id": action["action_id"],
        "session_id": action["session_id"],
        "rows_affected": round(action["rows_affected"] * rng.uniform(0, recipe.outcome_factor)),
        "reported_by": action["agent_id"],
    }
    return input_of("outcome", OUTCOMES, action["action_id"], fields, time)


STORE = "vector-store"
UNDECIDED = "story-shared-drive"
"""An item that the store returned without asking the gate."""


def make_reports(answers: Answers, time: str) -> list[Planned]:
    """A report on every retrieval of which the agent was shown something; `time` as for `make_plan`."""
    served = [one.served for one in answers.retrievals() if one.served["items"]]
    return [_report(one, time) for one in served]


def _report(served: dict[str, Any], time: str) -> Planned:
    request = served["request_id"]
    returned = [item["item_id"] for item in served["items"]]
    fields = {
        "report_id": f"{request}-report",
        "request_id": request,
        "agent_id": served["agent_id"],
        "session_id": served["session_id"],
        "items": [*returned, UNDECIDED] if request == STORY_READ else returned,
        "reported_by": STORE,
    }
    return input_of("report", REPORTED, fields["report_id"], fields, time)


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
