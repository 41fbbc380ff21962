"""What is published after the first answers: outcomes, reviews, stores' reports, signed overrides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.actions.action_kinds import ACTION, OUTCOME
from sluice.core.decide.review import REVIEW
from sluice.core.foundation.clock import read_milliseconds, rfc3339
from sluice.core.retrieval.retrieval_kinds import REPORT, RETRIEVAL
from sluice.core.trust.signing import sign_review
from sluice_demo.answers import ENTERED
from sluice_demo.invoice import SESSION as INVOICE
from sluice_demo.invoice import TURN as INVOICE_TURN
from sluice_demo.material import make_input
from sluice_demo.refunds import TURNS
from sluice_demo.sessions import STORY_AGAIN, STORY_READ
from sluice_demo.throwaway_trust import OWNER, REVIEWER
from sluice_topics.catalog import QUARANTINE, VERDICTS

if TYPE_CHECKING:
    import random
    from types import SimpleNamespace

    from sluice_demo.answers import DemoAnswers
    from sluice_demo.material import Planned
    from sluice_demo.throwaway_trust import ThrowawayTrust

_HOUR_MS = 3600 * 1000
STORE = "vector-store"


class FollowUps(NamedTuple):
    """Registry entries to be signed by the reviewer, and the retrievals to be asked again."""

    entries: list[dict[str, Any]]
    again: list[Planned]


def override_items(answers: DemoAnswers, override: SimpleNamespace, time: str) -> FollowUps:
    """Override the items of every retrieval that opened an escalation; `time` as for `make_input`."""
    entries, again = [], []
    for retrieval in answers.iterate_retrievals():
        waiting = [decision for decision in retrieval.decisions if decision["escalation_id"] is not None]
        entries += [_make_override(decision, override) for decision in waiting]
        if waiting:
            again.append(make_input(RETRIEVAL, retrieval.planned.fields | {"request_id": STORY_AGAIN}, time))
    return FollowUps(entries, again)


def _make_override(decision: dict[str, Any], override: SimpleNamespace) -> dict[str, Any]:
    """Make an override for exactly this item, body, agent and session."""
    until = read_milliseconds(decision["timestamp"]) + override.hours * _HOUR_MS
    spec = {
        name: decision[name] for name in ("tenant_id", "item_id", "agent_id", "session_id", "body_digest")
    }
    spec |= {
        "approver_id": REVIEWER,
        "expires_at": rfc3339(until),
        "justification": override.justification,
    }
    return {"kind": "quality_override", "id": f"for-{decision['item_id']}", "revision": 1, "spec": spec}


def make_outcomes(
    answers: DemoAnswers, recipe: SimpleNamespace, rng: random.Random, time: str
) -> list[Planned]:
    """An outcome for one in so many allowed actions, reported by its agent; `time` as for `make_input`."""
    allowed = [
        answered.planned.fields
        for answered in answers.iterate(VERDICTS)
        if answered.body["verdict"] == "allowed" and answered.planned.role == ACTION.name
    ]
    return [
        make_input(
            OUTCOME,
            {
                "action_id": action["action_id"],
                "session_id": action["session_id"],
                "rows_affected": round(action["rows_affected"] * rng.uniform(0, recipe.outcome_factor)),
                "reported_by": action["agent_id"],
            },
            time,
        )
        for action in allowed[:: recipe.outcome_every]
    ]


def make_reports(answers: DemoAnswers, story: SimpleNamespace, time: str) -> list[Planned]:
    """A store's report on every retrieval of which the agent was shown something; `time` as for `make_input`.

    For the story's reading the store also returned an item that the gate was not asked for.
    """
    made = []
    for served in (
        retrieval.served for retrieval in answers.iterate_retrievals() if retrieval.served["items"]
    ):
        request = served["request_id"]
        undecided = [story.undecided] if request == STORY_READ else []
        fields = {
            "report_id": f"{request}-report",
            "request_id": request,
            "agent_id": served["agent_id"],
            "session_id": served["session_id"],
            "items": [item["item_id"] for item in served["items"]] + undecided,
            "reported_by": STORE,
        }
        made.append(make_input(REPORT, fields, time))
    return made


def make_approvals(
    answers: DemoAnswers, recipe: SimpleNamespace, trust: ThrowawayTrust, prefix: str, time: str
) -> list[Planned]:
    """Signed answers to escalated actions, by turns as the recipe says; "wait": no answer is sent. The owner
    answers where a VP must, the reviewer elsewhere."""
    made = []
    opened = sorted(
        answers.escalations,
        key=lambda escalation: (escalation["session_id"] == INVOICE, escalation["action_id"]),
    )
    for index, body in enumerate(opened):
        turn = TURNS.get(body["action_id"]) or recipe.turns[index % len(recipe.turns)]
        turn = INVOICE_TURN if body["session_id"] == INVOICE else turn
        if turn == "wait":
            continue
        by, key = (OWNER, trust.owner) if body["required_role"] == "vp" else (REVIEWER, trust.reviewer)
        fields = {
            "subject_id": body["escalation_id"],
            "session_id": body["session_id"],
            "decision": turn,
            "approver_id": by,
            "digest": body["action_digest"],
            "justification": recipe.justification,
        }
        made.append(
            make_input(
                REVIEW,
                sign_review(fields, key, trust.make_audience(prefix)).model_dump(exclude_unset=True),
                time,
            )
        )
    return made


def make_reviews(
    answers: DemoAnswers, memories: SimpleNamespace, trust: ThrowawayTrust, prefix: str, time: str
) -> list[Planned]:
    """Signed reviews of the story's held memories; one comes twice, since a review counts once."""
    wanted = {write.write_id: write for write in memories.story if hasattr(write, "decision")}
    reviews = []
    for entered in answers.bodies[QUARANTINE]:
        if entered["schema"] != ENTERED or entered["write_id"] not in wanted:
            continue
        memory = wanted[entered["write_id"]]
        fields = {
            "subject_id": entered["memory_id"],
            "session_id": entered["session_id"],
            "decision": memory.decision,
            "approver_id": REVIEWER,
            "digest": entered["content_digest"],
            "justification": memory.justification,
        }
        review = sign_review(fields, trust.reviewer, trust.make_audience(prefix))
        reviews.append(make_input(REVIEW, review.model_dump(exclude_unset=True), time))
    return [*reviews, *reviews[:1]]
